// Tasks: Lua coroutines that wait for C++ and are resumed by the event loop.
//
// A waiting function takes Resume<R> first and returns at once; whoever ends the work calls done(value) or
// done.fail(failure), once, from any thread:
//
//   void open_shell(Resume<ShellPtr> done, WorkspacePtr holder, LuaShellOptions options);
//
// The answer is posted to the loop, never resumed inline. A cancelled task is resumed with an error; the late
// answer then finds a stale ticket and is dropped. A Resume that dies unanswered answers with a failure, so
// nothing hangs in silence. Everything but Resume belongs to the VM's thread.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host/lua/alarms.h"
#include "host/lua/bind.h"

namespace khost::lua {

class Tasks {
 public:
  using Push = std::function<int(lua_State*)>;  // pushes the results of a wait, returns how many

  // `main` is the VM's main thread; the object must outlive every operation that holds a Resume.
  Tasks(boost::asio::io_context& io, lua_State* main);
  static Tasks& of(lua_State* L);
  // Called right before and right after each resume: the watchdog's clock.
  void bracket_runs(std::function<void()> before, std::function<void()> after);

  // A new task that calls the function below the `arguments` values on top of L (all popped) when the loop next
  // turns. What it returned or raised is handed to `ended` of the scheduler's table, once.
  uint64_t spawn(lua_State* L, int arguments);
  // Resumes a waiting task with the cancellation error, after its operation's own clean-up. A task that has not
  // begun is dropped, and the scheduler not told. Nothing happens to the task that runs, or to one that is gone.
  enum class Cancelled { nothing, resumed, dropped };
  Cancelled cancel(uint64_t id);
  // Ends a park. False when the task is not parked.
  bool unpark(uint64_t id);

  struct Ticket {
    uint64_t task = 0;
    uint64_t number = 0;
  };
  // Registers that the calling task is about to yield. Throws ArgError when the caller cannot wait here.
  Ticket suspend(lua_State* L, bool parked = false);
  // The same, until a time: the wait answers itself.
  void sleep_until(lua_State* L, Alarms::Time when);
  void revoke(Ticket ticket);
  void on_cancel(Ticket ticket, std::function<void()> clean_up);
  // From any thread. The first pushed value says whether the rest are results (true) or an error to raise.
  void answer(Ticket ticket, Push push);

  uint64_t current(lua_State* L) const;  // 0 when L is no task
  size_t alive() const { return tasks_.size(); }
  size_t waiting() const { return waiting_; }
  uint64_t resumes() const { return resumes_; }
  double longest_run_s() const { return longest_run_s_; }
  bool started(uint64_t id) const;
  std::string trace(uint64_t id) const;  // traceback of a waiting task
  std::string name(uint64_t id) const;   // the scheduler knows it; empty when there is no such task
  // True when tasks are alive and none of them can ever be resumed.
  bool deadlocked() const;
  std::string deadlock_report() const;

 private:
  struct Task {
    lua_State* thread = nullptr;
    std::unique_ptr<std::function<void()>> clean_up;  // of a cancelled wait; few waits have one
    uint64_t ticket = 0;
    Alarms::Time wakes;  // of a sleeping task
    int reference = 0;
    bool waiting = false;
    bool parked = false;
    bool asleep = false;
    bool started = false;
  };

  void post(std::function<void()> body);
  void resume(uint64_t id, const Push& push);
  void end(uint64_t id);
  bool push_scheduler(const char* function) const;
  void tell_ended(uint64_t id, lua_State* thread, int status);
  void settle_wait(Task& task);
  bool sleeps_until(uint64_t id, Alarms::Time when) const;
  void wake(uint64_t id, Alarms::Time when);

  boost::asio::io_context& io_;
  lua_State* main_;
  std::unordered_map<uint64_t, Task> tasks_;
  std::unordered_map<lua_State*, uint64_t> ids_;
  uint64_t last_id_ = 0;
  size_t waiting_ = 0;
  size_t parked_ = 0;
  size_t asleep_ = 0;
  Alarms alarms_;
  std::atomic<size_t> posted_{0};
  uint64_t resumes_ = 0;
  double longest_run_s_ = 0;
  std::function<void()> before_run_ = [] {};
  std::function<void()> after_run_ = [] {};
};

// The right, and the duty, to answer one wait.
template <class R>
class Resume {
 public:
  Resume(Tasks& tasks, Tasks::Ticket ticket) : state_(std::make_shared<State>(tasks, ticket)) {}

  void operator()(R value) const {
    answer([value = std::move(value)](lua_State* L) {
      lua_pushboolean(L, true);
      return 1 + push_all(L, value);
    });
  }
  void fail(Failure failure) const {
    answer([failure = std::move(failure)](lua_State* L) {
      lua_pushboolean(L, true);
      return 1 + push_failure(L, failure);
    });
  }
  // Called on the VM's thread when the task is cancelled while it waits.
  void on_cancel(std::function<void()> clean_up) const { state_->tasks.on_cancel(state_->ticket, std::move(clean_up)); }

 private:
  // Not copyable: its death is an answer, and only the last holder may give it.
  struct State {
    State(Tasks& t, Tasks::Ticket n) : tasks(t), ticket(n) {}
    State(const State&) = delete;
    ~State() {
      if (!answered.exchange(true)) {
        tasks.answer(ticket, [](lua_State* L) {
          lua_pushboolean(L, true);
          return 1 + push_failure(L, {"the host dropped this operation", "host"});
        });
      }
    }
    Tasks& tasks;
    Tasks::Ticket ticket;
    std::atomic<bool> answered{false};
  };

  void answer(Tasks::Push push) const {
    if (!state_->answered.exchange(true)) {
      state_->tasks.answer(state_->ticket, std::move(push));
    }
  }

  std::shared_ptr<State> state_;
};

// The span between "this task will wait" and the yield: an exception in between takes the announcement back.
struct Suspension {
  explicit Suspension(lua_State* L) : tasks(Tasks::of(L)), ticket(tasks.suspend(L)) {}
  ~Suspension() {
    if (!yielded) {
      tasks.revoke(ticket);
    }
  }
  int yield(lua_State* L) {
    yielded = true;
    return lua_yield(L, 0);
  }
  Tasks& tasks;
  Tasks::Ticket ticket;
  bool yielded = false;
};

template <auto F, class R, class... A>
struct Caller<F, void (*)(Resume<R>, A...)> {
  static constexpr bool waits = true;
  static int call(lua_State* L) {
    // Level 2: level 1 is the shim of `add`, the script stands above it.
    return guarded(L, 2, [L] {
      auto function = with_arguments<F, A...>(L);
      Suspension suspension(L);
      function(Resume<R>(suspension.tasks, suspension.ticket));
      return suspension.yield(L);
    });
  }
};

// Installs the shim that `add` puts around waiting functions, and the value that cancellation raises.
void open_tasks(lua_State* L);

}  // namespace khost::lua
