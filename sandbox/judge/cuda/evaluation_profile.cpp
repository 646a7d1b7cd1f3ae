// The last step of a profile: kernel tables of all sides. What fails here is said in the answer and changes no verdict.
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/cuda/profiling.h"
#include "sandbox/profiler/ceilings.h"

namespace khost::judge::gpu {
namespace {

profiler::Side unavailable(const Failure& why) {
  profiler::Side side;
  side.unavailable = why.message;
  return side;
}

profiler::Counters counters_here() {
  std::ifstream file("/proc/driver/nvidia/params");
  std::stringstream text;
  text << file.rdbuf();
  return profiler::counters_of(text.str(), false);  // a subject is never an administrator
}

}  // namespace

// Sides of a task are kept with it: a compiled one takes seconds, and they do not change with the candidate.
void GpuEvaluation::profile_baselines(const ProfilerPlace& place, Zygote& zygote) {
  for (const auto& [name, seconds] : task_->session->baselines) {
    if (name != "eager" && name != "compile") {
      continue;
    }
    if (verdict_.times.count(name + "_s") == 0 || task_->profiled.count(name) > 0) {
      continue;
    }
    Result<ProfiledBaseline> made = profile_baseline(*device_, place, zygote, *task_->session, *batch_, name);
    task_->profiled[name] = made ? made->side : unavailable(made.failure());
    if (made && made->flops) {
      task_->flops = made->flops;
    }
  }
}

Result<profiler::Side> GpuEvaluation::profile_own(const ProfilerPlace& place) {
  Result<Region> page = Region::make("profile", profiler::kPageBytes, Region::Others::write);
  if (!page) {
    return page.failure();
  }
  const Profiling profiling{page->fd(), place.library, place.cupti, place.loaded};
  Result<std::unique_ptr<Candidate>> subject = start_candidate(&profiling);
  return subject ? profile_candidate(*device_, std::move(*subject), *page, *batch_) : subject.failure();
}

bool GpuEvaluation::profile() {
  profiler::Profile profile;
  profile.candidate_s = verdict_.times.at("candidate_s");
  profile.limits = profiler::limits_of(0);
  profile.counters = counters_here();
  const Layouts& layouts = task_->session->layouts();
  profile.bytes =
      static_cast<double>(layouts.inputs.region_bytes + layouts.state.region_bytes + layouts.outputs.region_bytes);
  Result<ProfilerPlace> place = find_profiler(gpu_.place_.python);
  Result<Zygote*> python = gpu_.zygote();
  if (!place || !python) {
    profile.sides["candidate"] = unavailable(place ? python.failure() : place.failure());
  } else {
    if (!gpu_.ceilings_) {
      gpu_.ceilings_ = measure_ceilings(*device_, **python);
    }
    profile.ceilings = *gpu_.ceilings_;
    Result<profiler::Side> mine = profile_own(*place);
    profile.sides["candidate"] = mine ? *mine : unavailable(mine.failure());
    profile_baselines(*place, **python);
  }
  for (const char* name : {"eager", "compile"}) {
    const auto time = verdict_.times.find(std::string(name) + "_s");
    if (time != verdict_.times.end()) {
      profile.times[name] = time->second;
      const auto side = task_->profiled.find(name);
      if (side != task_->profiled.end()) {
        profile.sides[name] = side->second;
      }
    }
  }
  profile.flops = task_->flops;
  kernels_ = profiler::to_json(profile);
  kernels_text_ = profiler::to_text(profile);
  return true;
}

}  // namespace khost::judge::gpu
