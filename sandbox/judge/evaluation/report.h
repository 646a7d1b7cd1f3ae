// What an agent is told about its kernels, for both targets: texts about visible sets. Nothing here feeds a reward.
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sandbox/judge/task/session.h"
#include "sandbox/judge/values/mismatch.h"
#include "sandbox/judge/verdict/verdict.h"

namespace khost::judge {

// A text by a format of printf, as long as it becomes.
std::string format_line(const char* format, ...) __attribute__((format(printf, 1, 2)));

// `verified`: sets that were to be verified. `mismatches`: of the first wrong set, one for each wrong output.
std::string verify_text(const Verdict& verdict, std::size_t verified, const std::vector<Mismatch>& mismatches,
                        const Layouts* layouts);

struct ProfileFacts {
  const char* clock = "time";  // the heading above the times
  double unit_s = 1e-3;        // of the times
  const char* unit = "ms";
  const Layouts* layouts = nullptr;
  double bytes_s = 0;      // what the machine moves, and
  std::string bytes_what;  // by which measure: "one thread reads"
  double floor_bytes = 0;  // what must be moved at least,
  std::string floor_what;  // and why: "reading once"
  std::string calls;       // the last line: launches, and how sure a time is
};
// Times of the candidate and its baselines, and where they stand against what the machine can move. `verdict` is ok and
// has times.
std::string profile_text(const Verdict& verdict, const ProfileFacts& facts);

}  // namespace khost::judge
