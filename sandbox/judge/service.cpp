#include "sandbox/judge/service.h"

#include "host/base/sha256.h"
#include "sandbox/judge/evaluation.h"
#include "sandbox/judge/subject.h"

namespace khost::judge {
namespace {
constexpr std::size_t kMostSessions = 32;
constexpr std::size_t kMostResidents = 4;  // tasks; a compiled baseline holds some 300 MB
constexpr double kQuestionTimeout_s = 60;
}

Result<Zygote*> Service::zygote(std::unique_ptr<Zygote>& slot, const char* name, bool compilers) {
  const std::scoped_lock lock(zygotes_);
  if (slot && !slot->alive()) {
    dead_.push_back(std::move(slot));  // a job may still hold it
  }
  if (!slot) {
    Result<std::unique_ptr<Zygote>> started = Zygote::start(place_, name, compilers);
    if (!started) {
      return started.failure();
    }
    slot = std::move(*started);
  }
  return slot.get();
}

Result<std::shared_ptr<Session>> Service::session(const std::string& source) {
  const std::string hash = sha256_hex(source);
  const std::scoped_lock lock(sessions_mutex_);
  for (auto i = sessions_.begin(); i != sessions_.end(); ++i) {
    if ((*i)->hash() == hash) {
      sessions_.splice(sessions_.begin(), sessions_, i);
      return sessions_.front();
    }
  }
  Result<Zygote*> zygote = tasks();
  if (!zygote) {
    return zygote.failure();
  }
  Result<std::shared_ptr<Session>> made = Session::open(**zygote, source);
  if (made) {
    sessions_.push_front(*made);
    if (sessions_.size() > kMostSessions) {
      sessions_.pop_back();
    }
  }
  return made;
}

void Service::retire_residents() {
  const std::scoped_lock lock(sessions_mutex_);
  std::size_t place = 0;
  for (const auto& session : sessions_) {
    if (place++ >= kMostResidents) {
      session->residents.clear();
    }
  }
}

Result<Json> Service::handle(const Json& request) {
  const std::string kind = request.value("kind", "");
  if (!request.contains("task") || !request["task"].contains("source") || !request["task"]["source"].is_string()) {
    return Failure{"a request needs task.source", "bad_input"};
  }
  if (kind == "evaluate") {
    return Evaluation(*this, request).run();
  }
  if (kind == "trace" || kind == "admit") {
    return ask(kind, request["task"]["source"].get<std::string>());
  }
  return Failure{"unknown kind '" + kind + "'; known are evaluate, trace and admit", "bad_input"};
}

Result<Json> Service::ask(const std::string& kind, const std::string& source) {
  Result<Zygote*> zygote = tasks();
  if (!zygote) {
    return zygote.failure();
  }
  Result<Child> child = (*zygote)->spawn();
  if (!child) {
    return child.failure();
  }
  return child->call({{"kind", kind}, {"source", source}}, {}, kQuestionTimeout_s);
}

}  // namespace khost::judge
