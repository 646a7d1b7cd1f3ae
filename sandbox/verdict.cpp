#include "sandbox/verdict.h"

namespace khost::sandbox {

Json Verdict::to_json() const {
  return {{"status", status}, {"stage", stage},       {"reason", reason},   {"detail", detail},
          {"correct", correct}, {"times", times},     {"speedup", speedup}, {"faster", faster},
          {"evidence", evidence}, {"wall_s", wall_s}};
}

}  // namespace khost::sandbox
