// khost-subject: the untrusted process that plays a candidate's plan, once per process. It is jailed by the
// judge, holds no secret and decides nothing.
//
//   khost-subject --control FD --inputs FD --state FD --outputs FD --library FD_OR_PATH --plan FD --threads N
//   khost-subject --selftest
//
// Exit status: 0 told to leave, 2 misuse, 3 the set-up failed (the control page says why), 12 the candidate's operator
// new found no memory.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "sandbox/subject/narrow.h"
#include "sandbox/subject/player.h"
#include "sandbox/subject/selftest.h"
#include "sandbox/subject/turn.h"

namespace khost::sandbox {
namespace {

using Options = std::map<std::string, std::string>;

constexpr int kOutOfMemory = 12;  // ENOMEM

Failure failed(const std::string& call) {
  return {call + ": " + std::strerror(errno), "io"};
}

bool all_digits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// The whole file behind an inherited descriptor; null for an empty region.
Result<std::byte*> map_region(int fd, int protection) {
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    return failed("fstat of descriptor " + std::to_string(fd));
  }
  if (info.st_size == 0) {
    return static_cast<std::byte*>(nullptr);
  }
  void* base = mmap(nullptr, static_cast<std::size_t>(info.st_size), protection, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) {
    return failed("mmap of descriptor " + std::to_string(fd));
  }
  return static_cast<std::byte*>(base);
}

Result<Plan> read_plan(int fd) {
  std::string text;
  char buffer[65536];
  off_t offset = 0;  // a memfd stands at its end after the judge wrote it
  for (ssize_t n; (n = pread(fd, buffer, sizeof buffer, offset)) > 0; offset += n) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    return Failure{"the plan is no JSON", "bad_input"};
  }
  return Plan::parse(json);
}

// Constructors of the library run here, before the judge has written any input.
Result<void*> load_library(const std::string& where, int threads) {
  // libgomp reads these when it is loaded, that is, together with the candidate.
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
  setenv("OMP_DYNAMIC", "false", 1);
  const std::string path = all_digits(where) ? "/proc/self/fd/" + where : where;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return Failure{std::string("the library does not load: ") + (why != nullptr ? why : "unknown error"), "bad_input"};
  }
  // Its operator new lives in a libstdc++ of its own: ours is linked statically.
  using Handler = void (*)();
  if (void* set = dlsym(library, "_ZSt15set_new_handlerPFvvE"); set != nullptr) {
    reinterpret_cast<Handler (*)(Handler)>(set)([] { _exit(kOutOfMemory); });
  }
  return library;
}

Result<Player> set_up(const Options& options) {
  const auto number = [&](const char* name) { return std::atoi(options.at(name).c_str()); };
  Result<std::byte*> inputs = map_region(number("--inputs"), PROT_READ);
  Result<std::byte*> state = map_region(number("--state"), PROT_READ);
  Result<std::byte*> outputs = map_region(number("--outputs"), PROT_READ | PROT_WRITE);
  for (const Result<std::byte*>* region : {&inputs, &state, &outputs}) {
    if (!*region) {
      return region->failure();
    }
  }
  Result<Plan> plan = read_plan(number("--plan"));
  if (!plan) {
    return plan.failure();
  }
  const int threads = std::max(1, number("--threads"));
  if (!narrow()) {
    return failed("seccomp");
  }
  Result<void*> library = load_library(options.at("--library"), threads);
  if (!library) {
    return library.failure();
  }
  return Player::prepare(*plan, {*library, dlsym, {*inputs, *state, *outputs}, threads});
}

// Acknowledges the set-up and then every call until told to leave.
int serve(ControlPage& page, const Options& options) {
  Result<Player> player = set_up(options);
  if (!player) {
    set_message(page, player.failure().message.c_str());
    acknowledge(page, kReady, 1);
    return 3;
  }
  acknowledge(page, kReady, 0);
  for (std::uint32_t seq = kReady + 1; wait_go(page, seq); seq++) {
    const int code = player->run();
    if (code != 0) {
      set_message(page, ("'" + player->failed_symbol() + "' returned " + std::to_string(code)).c_str());
    }
    acknowledge(page, seq, static_cast<std::uint32_t>(code));
  }
  return 0;
}

int misuse(const std::string& what) {
  std::fprintf(stderr, "khost-subject: %s\n", what.c_str());
  return 2;
}

int run(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--selftest") == 0) {
    return selftest();
  }
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    options[argv[i]] = argv[i + 1];
  }
  for (const char* name : {"--control", "--inputs", "--state", "--outputs", "--library", "--plan", "--threads"}) {
    if (options.count(name) == 0) {
      return misuse(std::string(name) + " is missing");
    }
    if (std::strcmp(name, "--library") != 0 && !all_digits(options[name])) {
      return misuse(std::string(name) + " takes a number");
    }
  }
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // as in the baselines (zygote.py): pages are alike on both sides
  const int control = std::atoi(options["--control"].c_str());
  void* page = mmap(nullptr, kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED, control, 0);
  if (page == MAP_FAILED) {
    return misuse("the control page cannot be mapped: " + std::string(std::strerror(errno)));
  }
  return serve(*static_cast<ControlPage*>(page), options);
}

}  // namespace
}  // namespace khost::sandbox

// Leaves by _exit: destructors of the candidate's library have no business here.
int main(int argc, char** argv) {
  const int code = khost::sandbox::run(argc, argv);
  std::fflush(stderr);
  std::fflush(stdout);
  _exit(code);
}
