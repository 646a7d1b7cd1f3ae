#include "sandbox/judge/task/check.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace khost::judge {
namespace {

constexpr double kStageTimeout_s = 60;
constexpr double kMostTimeout_s = 600;

double timeout_of(const Json& request) {
  const double wanted = request.value("timeout_s", kStageTimeout_s);
  return std::clamp(wanted, 1.0, kMostTimeout_s);
}

// A zygote that a task took down with it is noticed a moment after the child.
bool outlives(Zygote& zygote) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return zygote.alive();
}

// What a stage keeps on a device: inputs and outputs of several calls, three to four times what one call holds, and the
// context. Who needs more gets half as much again (python/check_device.py).
constexpr std::size_t kCopies = 5;
constexpr std::size_t kContextBytes = std::size_t{3} << 29;

std::size_t room_for(const Json& structure, const Json& request) {
  const Json limits = request.value("limits", Json::object());
  const std::size_t most = limits.value("most_bytes", std::size_t{1} << 30);
  const bool whole = structure.contains("peak_bytes") && structure.value("shrink", Json()).is_null();
  return kCopies * std::min(most, whole ? structure["peak_bytes"].get<std::size_t>() : most) + kContextBytes;
}

// Also stops at a task of which nothing that fits could be measured.
bool measurable(const Json& structure) {
  return !structure.value("too_large", false) || !structure.value("shrink", Json()).is_null();
}

Json question_for(const std::string& stage, const Json& structure, const Json& request, std::size_t room) {
  return {{"kind", "check"},
          {"stage", stage},
          {"source", request["task"]["source"]},
          {"limits", request.value("limits", Json::object())},
          {"shrink", structure.value("shrink", Json())},
          {"device", request.value("target", "cpu")},
          {"cache", request.value("cache", false)},
          {"seed", request.value("seed", 0)},
          {"worth_s", request.value("worth_s", Json())},
          {"room_bytes", room}};
}

}  // namespace

std::shared_ptr<const std::size_t> Room::take(std::size_t bytes) {
  bytes = std::min(bytes, all_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return left_ >= bytes; });
  left_ -= bytes;
  return {new std::size_t(bytes), [this](const std::size_t* held) {
            const std::scoped_lock given(mutex_);
            left_ += *held;
            delete held;
            changed_.notify_all();
          }};
}

Result<Json> check(const CheckPlaces& places, const Json& request) {
  const double timeout_s = timeout_of(request);
  Json facts = Json::object();
  std::shared_ptr<const std::size_t> held;
  Zygote* zygote = places.zygote;
  Result<Child> child = zygote->spawn();
  for (const Json& stage : request.value("stages", Json::array({"structure", "run"}))) {
    const std::string name = stage.get<std::string>();
    const Json structure = facts.value("structure", Json::object());
    if (name != "structure" && !measurable(structure)) {
      break;
    }
    zygote = places.zygote;
    if (name == "again" && places.apart) {
      const Result<Zygote*> apart = places.apart();
      if (!apart) {
        return apart.failure();
      }
      zygote = *apart;
    }
    if (name == "compile" || name == "again") {
      child = Failure{"ended", "gone"};  // and with it what it held
      held = nullptr;
      child = zygote->spawn();
    }
    if (!child) {
      return child.failure();
    }
    if (name != "structure" && places.room && !held) {
      held = places.room->take(room_for(structure, request));
    }
    Result<Json> answer = child->call(question_for(name, structure, request, held ? *held : 0), {}, timeout_s);
    if (answer) {
      facts[name] = std::move(*answer);
      continue;
    }
    std::string code = answer.failure().code;
    if (code == "gone") {
      if (!outlives(*zygote)) {
        return answer.failure();
      }
      code = "died";
    }
    if (code == "limit") {
      code = "bad_task";  // nobody else's work is in its way
    }
    facts["failure"] = {{"stage", name}, {"code", code}, {"message", answer.failure().message}};
    break;
  }
  child = Failure{"ended", "gone"};  // before its room is given back
  return facts;
}

Result<Json> crawl(Zygote& zygote, const Json& request) {
  Result<Child> child = zygote.spawn();
  if (!child) {
    return child.failure();
  }
  return child->call({{"kind", "crawl"}, {"request", request.value("request", Json::object())}}, {},
                     timeout_of(request));
}

}  // namespace khost::judge
