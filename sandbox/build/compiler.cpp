#include "sandbox/build/compiler.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>

#include "host/base/defer.h"
#include "sandbox/build/build_cache.h"
#include "sandbox/jail/jail.h"

namespace khost::sandbox {

namespace fs = std::filesystem;

namespace {
constexpr std::size_t kMostText = 6000;  // of the compiler, as an agent reads it
constexpr std::size_t kMostOutput = 200000;
constexpr const char* kDied = "the compiler died";
// How a driver begins the line that says so, and what that line holds. g++ has other names where nvcc calls it.
struct Killed {
  std::string_view begin, words;
};
constexpr std::array<Killed, 3> kKilled{{{"", ": fatal error: Killed signal terminated program "},
                                         {"collect2: fatal error: ", "terminated with signal 9"},
                                         {"nvcc error   : '", "' died due to signal 9"}}};
constexpr std::array<std::string_view, 4> kComplaints{"error:", "Error:", "error   :", "fatal   :"};

bool holds(std::string_view line, std::string_view words) {
  return line.find(words) != std::string_view::npos;
}

bool is_of_a_driver(std::string_view line) {
  return std::any_of(kKilled.begin(), kKilled.end(), [line](const Killed& killed) {
    const std::string_view program = line.substr(0, line.find(killed.words));
    return line.rfind(killed.begin, 0) == 0 && holds(line, killed.words) &&
           (!killed.begin.empty() || program.find_first_of(" \t/:'\"") == std::string_view::npos);
  });
}
}  // namespace

std::string compiler_path(const std::string& target) {
  if (target != "cuda") {
    return "/usr/bin/g++";
  }
  const char* home = getenv("CUDA_HOME");
  const std::string inside = std::string(home != nullptr ? home : "/usr/local/cuda") + "/bin/nvcc";
  return access(inside.c_str(), X_OK) == 0 ? inside : "/usr/bin/nvcc";
}

std::string machine_identity(const std::string& target) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& identity = known[target];
  if (!identity.empty()) {
    return identity;
  }
  JailSpec spec;
  spec.name = "compiler";
  spec.argv = {compiler_path(target), "--version"};
  Result<Output> output = run_in_jail(spec, "", 20, 10000);
  if (!output || output->exit.code != 0) {
    return "";
  }
  std::string processor;
  std::istringstream lines(read_file("/proc/cpuinfo").value_or(""));
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    if (line.rfind("model name", 0) == 0 || line.rfind("flags", 0) == 0 || line.rfind("Features", 0) == 0) {
      processor += line + "\n";
    }
  }
  identity = output->out + processor;
  return identity;
}

std::string shortened(std::string text) {
  for (const char* prefix : {"/build/", "/out/"}) {
    for (std::size_t at; (at = text.find(prefix)) != std::string::npos;) {
      text.erase(at, std::strlen(prefix));
    }
  }
  if (text.size() <= kMostText) {
    return text;
  }
  // Whole lines, unless one is longer than what may stay.
  const std::size_t head_end = text.rfind('\n', kMostText / 2);
  const std::size_t tail = text.find('\n', text.size() - kMostText / 2);
  const std::string head = head_end == std::string::npos ? "" : text.substr(0, head_end + 1);
  const std::string rest = tail == std::string::npos ? "" : text.substr(tail);
  return head + "[" + std::to_string(text.size() - head.size() - rest.size()) + " bytes left out]" + rest;
}

bool tells_of_a_kill(std::string_view text) {
  // A message of the sources (static_assert, #pragma message) may hold any line. But a build that was killed has no
  // other complaint, and one that was not has one, unless it fell out of the text.
  bool told = text == kDied;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (is_of_a_driver(line)) {
      told = true;
    } else if (holds(line, " bytes left out]") ||
               std::any_of(kComplaints.begin(), kComplaints.end(), [line](auto words) { return holds(line, words); })) {
      return false;
    }
  }
  return told;
}

Result<std::string> run_compiler(const JailSpec& spec, double timeout_s) {
  Result<Output> output = run_in_jail(spec, "", timeout_s, kMostOutput);
  if (!output) {
    return output.failure();
  }
  if (output->exit.timed_out) {
    return Failure{"the build took longer than " + std::to_string(static_cast<int>(timeout_s)) + " s", "timeout"};
  }
  std::string text = shortened(output->out + output->err);
  if (output->exit.code != 0) {
    const std::string told = text.empty() ? kDied : text;
    return Failure{told, tells_of_a_kill(told) ? "killed" : "build"};
  }
  return text;
}

Result<std::string> take_file(const fs::path& path, std::size_t most) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return errno_failure("the compiler left no library");
  }
  const Defer close_fd([fd] { close(fd); });
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || static_cast<std::size_t>(info.st_size) > most) {
    return Failure{"what the compiler left is no file, or larger than " + std::to_string(most >> 20) + " MiB", "limit"};
  }
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t have = 0;
  for (ssize_t n; have < bytes.size() && (n = read(fd, bytes.data() + have, bytes.size() - have)) > 0;) {
    have += static_cast<std::size_t>(n);
  }
  bytes.resize(have);
  return bytes;
}

}  // namespace khost::sandbox
