#include "host/lua/task.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdio>

namespace khost::lua {
namespace {

constexpr const char* kTasksKey = "khost.tasks";

constexpr const char* kSettle = R"lua(
local cancelled = ...
local function settle(ok, ...)
  if ok then return ... end
  -- Level 2 is the script that called the waiting function; the cancellation value carries no position.
  error((...), (...) == cancelled and 0 or 2)
end
return function(native)
  return function(...) return settle(native(...)) end
end
)lua";

}  // namespace

Tasks::Tasks(boost::asio::io_context& io, lua_State* main)
    : io_(io), main_(main), alarms_(io, [this](uint64_t id, Alarms::Time when) { wake(id, when); }) {
  lua_pushlightuserdata(main, this);
  lua_setfield(main, LUA_REGISTRYINDEX, kTasksKey);
}

Tasks& Tasks::of(lua_State* L) {
  lua_getfield(L, LUA_REGISTRYINDEX, kTasksKey);
  auto* tasks = static_cast<Tasks*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return *tasks;
}

void Tasks::bracket_runs(std::function<void()> before, std::function<void()> after) {
  before_run_ = std::move(before);
  after_run_ = std::move(after);
}

void Tasks::post(std::function<void()> body) {
  posted_++;
  boost::asio::post(io_, [this, body = std::move(body)] {
    posted_--;
    body();
  });
}

uint64_t Tasks::spawn(lua_State* L, int arguments) {
  const uint64_t id = ++last_id_;
  Task task;
  task.thread = lua_newthread(L);
  lua_insert(L, -(arguments + 2));
  luaL_checkstack(task.thread, arguments + 1, "spawn");
  lua_xmove(L, task.thread, arguments + 1);
  task.reference = luaL_ref(L, LUA_REGISTRYINDEX);
  ids_[task.thread] = id;
  tasks_.emplace(id, std::move(task));
  post([this, id, arguments] {
    const auto found = tasks_.find(id);
    if (found != tasks_.end() && !found->second.started) {
      resume(id, [arguments](lua_State*) { return arguments; });
    }
  });
  return id;
}

uint64_t Tasks::current(lua_State* L) const {
  const auto found = ids_.find(L);
  return found == ids_.end() ? 0 : found->second;
}

Tasks::Ticket Tasks::suspend(lua_State* L, bool parked) {
  const uint64_t id = current(L);
  if (id == 0) {
    throw ArgError("this call waits: use it inside a task (sched.spawn), not in a coroutine or at load time");
  }
  if (!lua_isyieldable(L)) {
    throw ArgError("this call waits: not possible inside sort, gsub, require or a metamethod called from C");
  }
  Task& task = tasks_.at(id);
  task.waiting = true;
  task.parked = parked;
  waiting_++;
  parked_ += parked;
  return {id, ++task.ticket};
}

void Tasks::settle_wait(Task& task) {
  if (task.waiting) {
    task.waiting = false;
    waiting_--;
    parked_ -= task.parked;
    asleep_ -= task.asleep;
    task.parked = task.asleep = false;
    if (asleep_ == 0 && alarms_.size() > 0) {
      alarms_.clear();
    }
  }
  task.clean_up = nullptr;
  task.ticket++;
}

bool Tasks::sleeps_until(uint64_t id, Alarms::Time when) const {
  const auto found = tasks_.find(id);
  return found != tasks_.end() && found->second.asleep && found->second.wakes == when;
}

void Tasks::sleep_until(lua_State* L, Alarms::Time when) {
  // Entries of sleeps that were cancelled stay until they are the greater part, or nobody sleeps.
  if (alarms_.size() > 2 * asleep_ + 64) {
    alarms_.prune([this](uint64_t id, Alarms::Time at) { return sleeps_until(id, at); });
  }
  Task& task = tasks_.at(suspend(L).task);
  task.wakes = when;
  task.asleep = true;
  asleep_++;
  alarms_.set(current(L), when);
}

void Tasks::wake(uint64_t id, Alarms::Time when) {
  if (sleeps_until(id, when)) {
    answer({id, tasks_.at(id).ticket}, [](lua_State* L) {
      lua_pushboolean(L, true);
      return 1;
    });
  }
}

void Tasks::revoke(Ticket ticket) {
  const auto found = tasks_.find(ticket.task);
  if (found != tasks_.end() && found->second.ticket == ticket.number) {
    settle_wait(found->second);
  }
}

void Tasks::on_cancel(Ticket ticket, std::function<void()> clean_up) {
  const auto found = tasks_.find(ticket.task);
  if (found != tasks_.end() && found->second.ticket == ticket.number) {
    found->second.clean_up = std::make_unique<std::function<void()>>(std::move(clean_up));
  }
}

void Tasks::answer(Ticket ticket, Push push) {
  post([this, ticket, push = std::move(push)] {
    const auto found = tasks_.find(ticket.task);
    if (found == tasks_.end() || found->second.ticket != ticket.number || !found->second.waiting) {
      return;  // cancelled meanwhile
    }
    settle_wait(found->second);
    resume(ticket.task, push);
  });
}

bool Tasks::unpark(uint64_t id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end() || !found->second.parked) {
    return false;
  }
  answer({id, found->second.ticket}, [](lua_State* L) {
    lua_pushboolean(L, true);
    return 1;
  });
  return true;
}

Tasks::Cancelled Tasks::cancel(uint64_t id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) {
    return Cancelled::nothing;
  }
  Task& task = found->second;
  if (!task.started) {
    end(id);
    return Cancelled::dropped;
  }
  if (!task.waiting) {
    return Cancelled::nothing;  // it runs: it is the caller, which ends itself by raising
  }
  const auto clean_up = std::move(task.clean_up);
  settle_wait(task);
  // Waiting again, for the resumption that raises: until then nobody else may answer.
  task.waiting = true;
  waiting_++;
  const Ticket ticket{id, task.ticket};
  if (clean_up) {
    (*clean_up)();
  }
  answer(ticket, [](lua_State* L) {
    lua_pushboolean(L, false);
    lua_getfield(L, LUA_REGISTRYINDEX, "khost.cancelled");
    return 2;
  });
  return Cancelled::resumed;
}

void Tasks::resume(uint64_t id, const Push& push) {
  Task& task = tasks_.at(id);
  lua_State* thread = task.thread;
  // What a new task has on its stack are its function and arguments: room is made where it is needed, because a
  // stack grows by doubling and there may be ten thousand of them.
  if (task.started) {
    luaL_checkstack(thread, 8, "resume");
  }
  task.started = true;
  const int count = push(thread);
  resumes_++;
  const auto begin = std::chrono::steady_clock::now();
  before_run_();
  const int status = lua_resume(thread, count);
  after_run_();
  const std::chrono::duration<double> ran = std::chrono::steady_clock::now() - begin;
  longest_run_s_ = std::max(longest_run_s_, ran.count());
  if (status == LUA_YIELD && tasks_.at(id).waiting) {
    return;
  }
  // The reference keeps the thread alive until its results are handed over.
  const int reference = std::exchange(tasks_.at(id).reference, LUA_NOREF);
  end(id);
  tell_ended(id, thread, status);
  luaL_unref(main_, LUA_REGISTRYINDEX, reference);
}

// Pushes a function of the scheduler's table; false, and nothing pushed, before there is a scheduler.
bool Tasks::push_scheduler(const char* function) const {
  lua_getfield(main_, LUA_REGISTRYINDEX, "khost.sched");
  if (!lua_istable(main_, -1)) {
    lua_pop(main_, 1);
    return false;
  }
  lua_getfield(main_, -1, function);
  lua_remove(main_, -2);
  return true;
}

// ended(id, true, results…) or ended(id, false, reason, traceback).
void Tasks::tell_ended(uint64_t id, lua_State* thread, int status) {
  if (!push_scheduler("ended")) {
    return;
  }
  lua_pushnumber(main_, static_cast<double>(id));
  lua_pushboolean(main_, status == 0);
  int count = 2;
  if (status == 0) {
    const int results = lua_gettop(thread);
    if (lua_checkstack(main_, results + 4)) {
      lua_xmove(thread, main_, results);
      count += results;
    }
  } else {
    if (status == LUA_YIELD) {
      // A bare coroutine.yield: nothing would ever resume it.
      lua_pushliteral(main_, "coroutine.yield was called: only functions that wait may suspend a task");
    } else {
      lua_xmove(thread, main_, 1);
    }
    luaL_traceback(main_, thread, nullptr, 0);
    count += 2;
  }
  if (lua_pcall(main_, count, 0, 0) != 0) {
    std::fprintf(stderr, "khost: %s\n", lua_tostring(main_, -1));
    lua_pop(main_, 1);
  }
}

void Tasks::end(uint64_t id) {
  const auto found = tasks_.find(id);
  settle_wait(found->second);
  ids_.erase(found->second.thread);
  luaL_unref(main_, LUA_REGISTRYINDEX, found->second.reference);
  tasks_.erase(found);
}

bool Tasks::started(uint64_t id) const {
  const auto found = tasks_.find(id);
  return found != tasks_.end() && found->second.started;
}

std::string Tasks::name(uint64_t id) const {
  if (!push_scheduler("name_of")) {
    return "";
  }
  lua_pushnumber(main_, static_cast<double>(id));
  std::string name;
  if (lua_pcall(main_, 1, 1, 0) == 0 && lua_isstring(main_, -1)) {
    name = lua_tostring(main_, -1);
  }
  lua_pop(main_, 1);
  return name;
}

std::string Tasks::trace(uint64_t id) const {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) {
    return "";
  }
  luaL_traceback(main_, found->second.thread, nullptr, 0);
  std::string text = lua_tostring(main_, -1);
  lua_pop(main_, 1);
  return text;
}

bool Tasks::deadlocked() const {
  return !tasks_.empty() && posted_ == 0 && parked_ == tasks_.size();
}

std::string Tasks::deadlock_report() const {
  std::string text = "deadlock: every task waits for another\n";
  for (const auto& [id, task] : tasks_) {
    text += "task '" + name(id) + "'\n" + trace(id) + "\n";
  }
  return text;
}

void open_tasks(lua_State* L) {
  // The unique value that a cancelled wait raises; printed, it says what it is.
  lua_newtable(L);
  lua_newtable(L);
  lua_pushcfunction(L, [](lua_State* state) {
    lua_pushliteral(state, "cancelled");
    return 1;
  });
  lua_setfield(L, -2, "__tostring");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, "khost.cancelled");
  if (luaL_loadbuffer(L, kSettle, std::char_traits<char>::length(kSettle), "=waiting call") != 0) {
    throw std::runtime_error(lua_tostring(L, -1));
  }
  lua_insert(L, -2);
  lua_call(L, 1, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, "khost.settled");
}

}  // namespace khost::lua
