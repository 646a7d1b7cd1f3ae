// The Lua state: which libraries scripts see, strict globals, module search, memory limit and watchdog.
// One thread owns it.
#pragma once

#include <chrono>
#include <string>

#include <lua.hpp>

namespace khost::lua {

struct VmOptions {
  std::string root;                       // scripts/ and recipes/ lie here
  size_t memory_bytes = size_t{4} << 30;  // an allocation of a script beyond it raises "not enough memory" there
  double longest_run_s = 10;              // a task that runs longer without waiting is stopped by an error
};

class Vm {
 public:
  explicit Vm(VmOptions options);
  Vm(const Vm&) = delete;
  ~Vm();

  lua_State* state() const { return state_; }
  const VmOptions& options() const { return options_; }
  size_t used_bytes() const { return used_bytes_; }

  // Registers a native module, so that require(name) calls `open` the first time.
  void preload(const char* name, lua_CFunction open);

  // Brackets what scripts run: time and memory are limited in between. The watchdog counts from begin_run; a shorter
  // budget holds until the next call. Zero seconds: the default. Outside, the host itself works on the state, where an
  // error would have nobody to catch it.
  void begin_run(double budget_s = 0);
  void end_run();

 private:
  static void* allocate(void* self, void* block, size_t old_size, size_t new_size);
  static void on_count(lua_State* L, lua_Debug* where);

  VmOptions options_;
  size_t used_bytes_ = 0;
  lua_State* state_ = nullptr;
  bool limited_ = false;
  bool refused_ = false;  // an allocation, since the last full collection
  int overruns_ = 0;      // of the present run
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace khost::lua
