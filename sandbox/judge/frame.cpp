#include "sandbox/judge/frame.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

namespace khost::judge {
namespace {

std::string encode(const Json& value) {
  const std::string body = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto size = static_cast<std::uint32_t>(body.size());
  std::string frame(4, '\0');
  std::memcpy(frame.data(), &size, 4);
  return frame + body;
}

Failure failed(const char* call) { return {std::string(call) + ": " + std::strerror(errno), "gone"}; }

Status write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno != EINTR) {
      return failed("write");
    }
    if (n > 0) {
      data += n;
      size -= static_cast<std::size_t>(n);
    }
  }
  return ok();
}

using Clock = std::chrono::steady_clock;

Status read_all(int fd, char* data, std::size_t size, double timeout_s) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(timeout_s < 0 ? 0 : timeout_s));
  while (size > 0) {
    int wait_ms = -1;
    if (timeout_s >= 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      wait_ms = static_cast<int>(std::max<long long>(left, 0));
    }
    pollfd watched{fd, POLLIN, 0};
    const int ready = ::poll(&watched, 1, wait_ms);
    if (ready == 0) {
      return Failure{"no answer in " + std::to_string(timeout_s) + " s", "timeout"};
    }
    if (ready < 0) {
      if (errno == EINTR) {
        continue;
      }
      return failed("poll");
    }
    const ssize_t n = ::read(fd, data, size);
    if (n == 0) {
      return Failure{"the other side has gone", "gone"};
    }
    if (n < 0 && errno != EINTR) {
      return failed("read");
    }
    if (n > 0) {
      data += n;
      size -= static_cast<std::size_t>(n);
    }
  }
  return ok();
}

}  // namespace

Status send_frame(int fd, const Json& value) {
  const std::string frame = encode(value);
  return write_all(fd, frame.data(), frame.size());
}

Status send_frame(int fd, const Json& value, const std::vector<int>& fds) {
  if (fds.empty()) {
    return send_frame(fd, value);
  }
  const std::string frame = encode(value);
  std::string control(CMSG_SPACE(sizeof(int) * fds.size()), '\0');
  // One byte carries the descriptors, so that a short write of the rest cannot send them twice.
  iovec first{const_cast<char*>(frame.data()), 1};
  msghdr message{};
  message.msg_iov = &first;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  ssize_t n = 0;
  while ((n = ::sendmsg(fd, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  if (n != 1) {
    return failed("sendmsg");
  }
  return write_all(fd, frame.data() + 1, frame.size() - 1);
}

Result<Json> receive_frame(int fd, double timeout_s) {
  std::uint32_t size = 0;
  if (Status head = read_all(fd, reinterpret_cast<char*>(&size), 4, timeout_s); !head) {
    return head.failure();
  }
  if (size > kMostFrameBytes) {
    return Failure{"a frame of " + std::to_string(size) + " bytes", "limit"};
  }
  std::string body(size, '\0');
  if (Status rest = read_all(fd, body.data(), size, timeout_s); !rest) {
    return rest.failure();
  }
  Json value = Json::parse(body, nullptr, false);
  if (value.is_discarded()) {
    return Failure{"a frame that is no JSON", "bad_input"};
  }
  return value;
}

}  // namespace khost::judge
