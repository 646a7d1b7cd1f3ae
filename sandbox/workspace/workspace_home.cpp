#include "sandbox/workspace/workspace_home.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <random>

#include "sandbox/jail/fd.h"

namespace khost::sandbox {
namespace {

namespace fs = std::filesystem;

std::string base_folder() {
  if (const char* chosen = getenv("KHOST_WORKSPACES")) {
    return chosen;
  }
  return "/tmp/khost-" + std::to_string(geteuid()) + "-workspaces";
}

// A folder of ours that nobody else may enter; one that another user put there before us is refused.
Status make_private(const std::string& path) {
  struct stat info {};
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_failure("mkdir " + path);
  }
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 077) != 0) {
    return Failure{path + " must be a folder of this user with mode 0700; remove it or set KHOST_WORKSPACES", "io"};
  }
  return ok();
}

// A jail may leave folders without permissions; only root may enter those as they are.
void open_up(const fs::path& folder) {
  std::error_code error;
  fs::permissions(folder, fs::perms::owner_all, error);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.symlink_status(error).type() == fs::file_type::directory) {
      open_up(entry.path());
    }
  }
}

void remove_home(const std::string& home) {
  if (geteuid() == 0) {
    umount2(home.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  } else {
    open_up(home);
  }
  std::error_code error;
  fs::remove_all(home, error);
}

// Of one owner: the folder with its workspaces, and beside it the file whose lock says that the owner lives.
void remove_owner(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    remove_home(entry.path().string());
  }
  fs::remove(folder, error);
}

struct Owner {
  std::string folder;
  Fd lock;
  pid_t pid = 0;

  // A process that is killed leaves both to the next one's sweep. A forked child is not the owner.
  ~Owner() {
    if (pid == getpid()) {
      remove_owner(folder);
      unlink((folder + ".lock").c_str());
    }
  }
};

Result<std::string> owner_folder() {
  static std::mutex mutex;
  static Owner owner;
  const std::lock_guard guard(mutex);
  if (owner.pid == getpid()) {
    return owner.folder;
  }
  const std::string base = base_folder();
  const Status made = make_private(base);
  if (!made) {
    return made.failure();
  }
  std::random_device random;
  const std::string folder = base + "/" + std::to_string(getpid()) + "-" + std::to_string(random());
  Fd lock(open((folder + ".lock").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!lock || flock(lock.get(), LOCK_EX | LOCK_NB) != 0 || mkdir(folder.c_str(), 0700) != 0) {
    return system_failure("cannot make " + folder);
  }
  owner.folder = folder;
  owner.lock = std::move(lock);
  owner.pid = getpid();
  return folder;
}

}  // namespace

void keep_mounts_private() {
  if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0) {
    mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr);
  }
}

void sweep_homes() {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(base_folder(), error)) {
    if (entry.path().extension() != ".lock") {
      continue;
    }
    const Fd lock(open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (lock && flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
      fs::path folder = entry.path();
      remove_owner(folder.replace_extension());
      fs::remove(entry.path(), error);
    }
  }
}

Result<Home> Home::make(size_t bytes, size_t most_files) {
  static std::atomic<unsigned> last{0};
  const Result<std::string> owner = owner_folder();
  if (!owner) {
    return owner.failure();
  }
  Home home(++last);
  const std::string path = owner.value() + "/" + std::to_string(home.number_);
  if (mkdir(path.c_str(), 0700) != 0) {
    return system_failure("mkdir " + path);
  }
  if (geteuid() == 0) {
    const std::string options = "mode=0700,size=" + std::to_string(bytes) + ",nr_inodes=" + std::to_string(most_files);
    // where this is refused, the limits are those of an ordinary user's workspace
    mount("khost-workspace", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str());
  }
  return home;
}

// The number stands for the path, of which ten thousand would take a megabyte.
std::string Home::path() const {
  return owner_folder().value() + "/" + std::to_string(number_);
}

Home::~Home() {
  if (number_ != 0) {
    remove_home(path());
  }
}

}  // namespace khost::sandbox
