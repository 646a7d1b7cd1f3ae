#include "host/base/part.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "host/base/executable.h"
#include "host/base/interface.h"

extern char** environ;

namespace khost {
namespace {

// Runs `launcher build NAME` to its end. Stdout of this process may carry frames, so the launcher gets stderr for both.
Status build_by(const char* launcher, const char* name) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  // The judge ignores interrupts; a build that the user interrupts has to stop.
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) {
    sigaddset(&defaults, number);
  }
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const char* argv[] = {launcher, "build", name, nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, launcher, &actions, &attributes, const_cast<char**>(argv), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return Failure{std::string("start ") + launcher + ": " + std::strerror(error), "host"};
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Failure{std::string("'") + launcher + " build " + name + "' failed; its messages stand above", "host"};
  }
  return ok();
}

}  // namespace

Result<void*> load_part(const Part& part) {
  const char* launcher = std::getenv("KHOST_LAUNCHER");
  const bool builds = launcher != nullptr && *launcher != '\0';
  if (builds) {
    if (const Status built = build_by(launcher, part.name); !built) {
      return built.failure();
    }
  }
  const std::string path = executable_dir() + "/" + part.library;
  if (access(path.c_str(), F_OK) != 0) {
    return Failure{part.missing, "host"};
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Failure{std::string("load ") + path + ": " + dlerror(), "host"};
  }
  const auto* face = static_cast<const char* const*>(dlsym(library, "khost_part_interface"));
  if (face == nullptr || std::strcmp(*face, KHOST_INTERFACE) != 0) {
    return Failure{path + " and this program were built from different headers: " +
                       (builds ? "the sources changed since this run began; start it again"
                               : std::string("build both again, CMake's target is part-") + part.name),
                   "host"};
  }
  return library;
}

}  // namespace khost
