#include "sandbox/jail/libraries.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

#include "sandbox/jail/fd.h"

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolders[] = {"/usr/lib/x86_64-linux-gnu",
                                    "/usr/lib/aarch64-linux-gnu",
                                    "/usr/lib64",
                                    "/usr/lib",
                                    "/usr/local/lib64",
                                    "/usr/local/lib",
                                    "/lib/x86_64-linux-gnu",
                                    "/lib/aarch64-linux-gnu",
                                    "/lib64",
                                    "/lib"};
constexpr const char* kNames[] = {
    "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libc.so.6",   "libm.so.6",      "libmvec.so.1",
    "libdl.so.2",           "libpthread.so.0",       "librt.so.1",  "libstdc++.so.6", "libgcc_s.so.1",
    "libgomp.so.1",         "libffi.so.6",           "libffi.so.7", "libffi.so.8",    "libseccomp.so.2"};
constexpr const char* kCache = "/etc/ld.so.cache";

}  // namespace

void keep_in_memory(const std::string& path) {
  static std::mutex mutex;
  static std::set<std::string> kept;
  std::error_code error;
  const std::string real = fs::weakly_canonical(path, error).string();
  const std::scoped_lock lock(mutex);
  if (!kept.insert(real).second) {
    return;
  }
  const Fd file(open(real.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file || fstat(file.get(), &info) != 0 || info.st_size == 0) {
    return;
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory != MAP_FAILED) {
    mlock(memory, size);
  }
}

const std::vector<std::string>& kernel_libraries() {
  static const std::vector<std::string> found = [] {
    std::vector<std::string> result;
    bool libc = false;
    for (const std::string folder : kFolders) {
      std::error_code error;
      if (folder.rfind("/lib", 0) == 0 && fs::is_symlink(folder.substr(0, folder.find('/', 1)), error)) {
        continue;  // the same folder of /usr by another name
      }
      for (const std::string name : kNames) {
        const std::string path = folder + "/" + name;
        if (fs::is_regular_file(path, error)) {
          libc = libc || name == "libc.so.6";
          keep_in_memory(path);
          result.push_back(path);
        }
      }
    }
    if (fs::exists(kCache)) {
      keep_in_memory(kCache);
      result.emplace_back(kCache);
    }
    return libc ? result : std::vector<std::string>();
  }();
  return found;
}

}  // namespace khost::sandbox
