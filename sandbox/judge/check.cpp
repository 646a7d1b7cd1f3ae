#include "sandbox/judge/check.h"

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

}  // namespace

Result<Json> check(Zygote& zygote, const Json& request) {
  const double timeout_s = timeout_of(request);
  Json facts = Json::object();
  Result<Child> child = zygote.spawn();
  for (const Json& stage : request.value("stages", Json::array({"structure", "run"}))) {
    const std::string name = stage.get<std::string>();
    if (name == "compile") {
      child = zygote.spawn();
    }
    if (!child) {
      return child.failure();
    }
    const Json structure = facts.value("structure", Json::object());
    const Json shrink = structure.value("shrink", Json());
    if (name != "structure" && structure.value("too_large", false) && shrink.is_null()) {
      break;  // nothing that fits could be measured
    }
    const Json question = {{"kind", "check"},  {"stage", name}, {"source", request["task"]["source"]},
                           {"limits", request.value("limits", Json::object())}, {"shrink", shrink}};
    Result<Json> answer = child->call(question, {}, timeout_s);
    if (answer) {
      facts[name] = std::move(*answer);
      continue;
    }
    std::string code = answer.failure().code;
    if (code == "gone") {
      if (!outlives(zygote)) {
        return answer.failure();
      }
      code = "died";
    }
    facts["failure"] = {{"stage", name}, {"code", code}, {"message", answer.failure().message}};
    break;
  }
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
