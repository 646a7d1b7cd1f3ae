#include "sandbox/verdict.h"

#include <utility>

namespace khost::sandbox {

void Verdict::fail(std::string with, std::string at, std::string why, std::string text) {
  status = std::move(with);
  stage = std::move(at);
  reason = std::move(why);
  detail = std::move(text);
}

Json Verdict::to_json() const {
  return {{"status", status},   {"stage", stage},       {"reason", reason},   {"detail", detail},
          {"correct", correct}, {"times", times},       {"speedup", speedup}, {"faster", faster},
          {"slack_s", slack_s}, {"evidence", evidence}, {"wall_s", wall_s}};
}

}  // namespace khost::sandbox
