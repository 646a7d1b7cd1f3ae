#include "sandbox/jail/scratch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "sandbox/jail/fd.h"

namespace khost::sandbox {
namespace {

// Of kernels that headers may be older than; the numbers are those of every architecture.
constexpr long kFsConfig = 431, kFsPick = 433;
constexpr unsigned kPickCloexec = 1, kSetString = 1, kReconfigure = 7;

}  // namespace

void bound_files(pid_t init, std::size_t most) {
  const std::string root = "/proc/" + std::to_string(init) + "/root", number = std::to_string(most);
  for (const char* folder : {"/tmp", "/dev/shm"}) {
    const Fd picked(static_cast<int>(syscall(kFsPick, -1, (root + folder).c_str(), kPickCloexec)));
    if (picked && syscall(kFsConfig, picked.get(), kSetString, "nr_inodes", number.c_str(), 0) == 0) {
      syscall(kFsConfig, picked.get(), kReconfigure, nullptr, nullptr, 0);
    }
  }
}

}  // namespace khost::sandbox
