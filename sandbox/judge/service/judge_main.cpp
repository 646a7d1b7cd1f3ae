// khost-judge: the trusted measuring process. Frames of requests on stdin, frames of answers on stdout, log on stderr.
//
//   khost-judge --python PYTHON --root DIR --lease FILE [--jobs N] [--host PID]
//               [--memory-mb N] [--processes N] [--tmp-mb N]
//
// --host: the process whose jails (its agents' shells) stand still while something is timed. The last three:
// limits of a candidate's process.
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <thread>

#include "sandbox/judge/service/frames.h"
#include "sandbox/judge/service/service.h"

namespace {

using khost::Json;

bool read_exactly(void* data, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes;) {
    const ssize_t n = read(0, static_cast<char*>(data) + at, bytes - at);
    if (n <= 0) {
      return false;
    }
    at += static_cast<std::size_t>(n);
  }
  return true;
}

void write_frame(const Json& answer) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const std::string body = answer.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto size = static_cast<std::uint32_t>(body.size());
  std::string frame(reinterpret_cast<const char*>(&size), 4);
  frame += body;
  for (std::size_t at = 0; at < frame.size();) {
    const ssize_t n = write(1, frame.data() + at, frame.size() - at);
    if (n <= 0) {
      _exit(1);
    }
    at += static_cast<std::size_t>(n);
  }
}

Json answer_to(khost::judge::Service& service, const Json& request) {
  Json answer = {{"id", request.value("id", Json())}};
  try {
    auto result = service.handle(request);
    if (result) {
      answer["result"] = std::move(*result);
    } else {
      answer["error"] = {{"message", result.failure().message}, {"code", result.failure().code}};
    }
  } catch (const std::exception& error) {
    answer["error"] = {{"message", error.what()}, {"code", "host"}};
  }
  return answer;
}

khost::sandbox::Limits limits_of(const std::map<std::string, std::string>& options) {
  khost::sandbox::Limits limits;
  const auto given = [&](const char* name, std::size_t otherwise) {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : static_cast<std::size_t>(std::stoull(found->second));
  };
  limits.memory_bytes = given("--memory-mb", limits.memory_bytes >> 20) << 20;
  limits.tmp_bytes = given("--tmp-mb", limits.tmp_bytes >> 20) << 20;
  limits.processes = static_cast<int>(given("--processes", static_cast<std::size_t>(limits.processes)));
  return limits;
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {  // jails set their own
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; the clock waits for microseconds
  std::map<std::string, std::string> options = {{"--jobs", "3"}, {"--host", "0"}};
  for (int i = 1; i + 1 < argc; i += 2) {
    options[argv[i]] = argv[i + 1];
  }
  for (const char* name : {"--python", "--root", "--lease"}) {
    if (options.count(name) == 0) {
      std::fprintf(stderr, "khost-judge: %s is missing\n", name);
      return 2;
    }
  }
  khost::judge::Service service({options["--python"], options["--root"]}, options["--lease"],
                                std::stoi(options["--host"]), limits_of(options));
  std::mutex mutex;
  std::condition_variable some;
  std::deque<Json> waiting;
  std::vector<std::thread> workers;
  for (int i = 0; i < std::stoi(options["--jobs"]); i++) {
    workers.emplace_back([&] {
      while (true) {
        std::unique_lock lock(mutex);
        some.wait(lock, [&] { return !waiting.empty(); });
        const Json request = std::move(waiting.front());
        waiting.pop_front();
        lock.unlock();
        write_frame(answer_to(service, request));
      }
    });
  }
  std::uint32_t size = 0;
  while (read_exactly(&size, 4) && size < khost::judge::kMostRequestBytes) {
    std::string body(size, '\0');
    if (!read_exactly(body.data(), size)) {
      break;
    }
    const Json request = Json::parse(body, nullptr, false);
    if (!request.is_object()) {
      break;
    }
    const std::scoped_lock lock(mutex);
    waiting.push_back(request);
    some.notify_one();
  }
  _exit(0);
}
