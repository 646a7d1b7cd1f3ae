// Kernel tables for a profile: processes started for that alone, with the profiler in them, none of them timed.
// The candidate's table is produced in the candidate's process, so it is for readers only and no verdict rests on it.
// The caller holds the device lock.
#pragma once

#include <optional>
#include <string>

#include "sandbox/judge/cuda/subject.h"
#include "sandbox/profiler/profile.h"

namespace khost::judge::gpu {

// libkhost_profiler.so and CUPTI as a jail sees them; `loaded` is CUPTI's name where torch has loaded it.
struct ProfilerPlace {
  std::string library, cupti, loaded;
};

// host when one of them is not installed. `python`: the interpreter whose packages may bring CUPTI.
Result<ProfilerPlace> find_profiler(const std::string& python);

// Plays calls of a candidate that was started with this page, caches cold before each; its outputs are not looked at.
// The candidate has ended when this returns.
Result<profiler::Side> profile_candidate(Device& device, std::unique_ptr<Candidate> subject, const Region& page,
                                         const Batch& batch);

struct ProfiledBaseline {
  profiler::Side side;
  std::optional<double> flops;  // of products and convolutions in a call; eager only
};

// kind: eager or compile; the latter takes seconds, or up to a minute when nothing is cached.
Result<ProfiledBaseline> profile_baseline(Device& device, const ProfilerPlace& place, Zygote& zygote,
                                          const Session& session, const Batch& batch, const std::string& kind);

profiler::Ceilings measure_ceilings(Device& device, Zygote& zygote);

}  // namespace khost::judge::gpu
