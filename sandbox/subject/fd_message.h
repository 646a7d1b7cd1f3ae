// Messages with descriptors over a local socket, for both sides of it. Blocking; any thread.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace khost::sandbox {

inline constexpr std::size_t kMostSentFds = 32;
inline constexpr std::size_t kMostWords = std::size_t{1} << 16;

// One sendmsg; the kernel takes small messages whole. False when it did not take all.
inline bool send_with_fds(int socket, const void* data, std::size_t bytes, const std::vector<int>& fds) {
  iovec vector{const_cast<void*>(data), bytes};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(sizeof(int) * fds.size()));
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    memcpy(CMSG_DATA(part), fds.data(), sizeof(int) * fds.size());
  }
  return sendmsg(socket, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

// A command line for a process that runs already (SOCK_SEQPACKET). A word "@2" stands for the third descriptor, and
// comes out as its number on the other side. No word may hold a zero byte or begin with @ otherwise.
inline bool send_words(int socket, const std::vector<std::string>& words, const std::vector<int>& fds) {
  std::string text;
  for (const std::string& word : words) {
    text += word + '\0';
  }
  return text.size() <= kMostWords && fds.size() <= kMostSentFds &&
         send_with_fds(socket, text.data(), text.size(), fds);
}

// Empty when the other side closed, or what came is no such message; then no descriptor of it stays open.
inline std::vector<std::string> receive_words(int socket) {
  std::string text(kMostWords, 0);
  iovec vector{text.data(), text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostSentFds)];
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t count = 0;
  while ((count = recvmsg(socket, &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  std::vector<int> fds;
  const cmsghdr* part = count > 0 ? CMSG_FIRSTHDR(&header) : nullptr;
  if (part != nullptr && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
    fds.resize((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(fds.data(), CMSG_DATA(part), sizeof(int) * fds.size());
  }
  const auto refuse = [&fds] {
    for (const int fd : fds) {
      close(fd);
    }
    return std::vector<std::string>();
  };
  if (count <= 0 || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      text[static_cast<std::size_t>(count) - 1] != 0) {
    return refuse();
  }
  std::vector<std::string> words;
  for (std::size_t at = 0; at < static_cast<std::size_t>(count); at += words.back().size() + 1) {
    words.emplace_back(text.c_str() + at);
  }
  for (std::string& word : words) {
    if (!word.empty() && word[0] == '@') {
      const bool number =
          word.size() > 1 && word.size() < 4 && word.find_first_not_of("0123456789", 1) == std::string::npos;
      const auto which = number ? static_cast<std::size_t>(atoi(word.c_str() + 1)) : fds.size();
      if (which >= fds.size()) {
        return refuse();
      }
      word = std::to_string(fds[which]);
    }
  }
  return words;
}

}  // namespace khost::sandbox
