// The host: one Lua VM, one event loop, a pool for work that blocks. The order of the members is the order of
// construction. run() and everything Lua belong to the thread that made it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/base/executable.h"
#include "host/base/result.h"
#include "host/lua/task.h"
#include "host/lua/vm.h"

namespace khost {

struct HostOptions {
  std::string root;       // holds scripts/, recipes/, skills/, tools/; empty: found from the executable
  std::string build_dir;  // holds khost-judge, khost-subject, …; empty: the executable's folder
  int pool_threads = 4;
  double longest_run_s = 10;
  size_t memory_bytes = size_t{4} << 30;
};

class Host {
 public:
  explicit Host(HostOptions options);
  Host(const Host&) = delete;
  ~Host();
  static Host& of(lua_State* L);

  boost::asio::io_context& io() { return io_; }
  boost::asio::thread_pool& pool() { return pool_; }
  lua::Vm& vm() { return vm_; }
  lua::Tasks& tasks() { return tasks_; }
  const std::string& root() const { return options_.root; }
  const std::string& build_dir() const { return options_.build_dir; }
  std::string lease_path() const;

  // Runs the script's `run(arguments)` as the root task until it and its children have ended. The value is the
  // exit code: what run returned, 0 for nothing, 1 when it raised, 130 after an interrupt.
  int run_script(const std::string& path, const std::vector<std::string>& arguments);
  // The same for a function on top of the VM's stack, which gets no arguments.
  int run_function(const std::string& name);
  // Cancels the root task; safe to call on the loop's thread.
  void interrupt();
  // Called instead by the next SIGINT or SIGTERM, once: a service drains. Empty: as before. On the loop's thread.
  void on_interrupt(std::function<void()> handler) { on_interrupt_ = std::move(handler); }

 private:
  int run_root();

  HostOptions options_;
  boost::asio::io_context io_;
  boost::asio::thread_pool pool_;
  lua::Vm vm_;
  lua::Tasks tasks_;
  std::function<void()> on_interrupt_;
  bool interrupted_ = false;
};

inline Host& host_of(lua_State* L) {
  return Host::of(L);
}

// Where khost's own files lie: KHOST_ROOT, else beside the executable's folder (build tree), else the
// installation's share/khost.
std::string find_root(const std::string& executable_dir);

}  // namespace khost
