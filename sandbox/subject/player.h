// Plays a plan: calls the launchers of one library with pointers into mapped regions. Runs inside the jail,
// in a process that serves one candidate and then dies; a crash in a launcher is a crash of this process, on
// purpose. One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "host/base/result.h"
#include "sandbox/abi/plan.h"

namespace khost::sandbox {

// Base addresses of the three shared regions; inputs and state are mapped read-only.
struct Mapped {
  std::byte* inputs = nullptr;
  std::byte* state = nullptr;
  std::byte* outputs = nullptr;
};

class Player {
 public:
  using Lookup = void* (*)(void* library, const char* symbol);  // dlsym, or a table in the self-test

  struct Options {
    void* library = nullptr;
    Lookup lookup = nullptr;
    Mapped mapped;
    int threads = 1;
    // On a GPU: the stream and the handles of khost.h that launchers get, and device memory instead of pages.
    void* stream = nullptr;
    void* handles = nullptr;
    void* (*allocate)(std::size_t bytes) = nullptr;  // null: pages of this process; it may return null
  };

  // Resolves every symbol, allocates the workspace and lays out every argument, so that run() only calls.
  static Result<Player> prepare(const Plan& plan, const Options& options);
  Player(Player&&) noexcept;
  ~Player();

  // 0, or what the first failing launcher returned; failed_symbol() is then its name.
  int run();
  const std::string& failed_symbol() const;

 private:
  struct State;
  explicit Player(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace khost::sandbox
