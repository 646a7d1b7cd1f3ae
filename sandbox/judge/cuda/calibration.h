// What the clock costs and what can be gained against it, measured on this device in this state. No candidate may be
// alive. About 3 s, once for each judge.
#pragma once

#include "sandbox/judge/cuda/gpu.h"

namespace khost::judge::gpu {

// `root` holds the sources. Gives plan_s, spread_s, slack_s and the evidence for them. Builds the adversary with nvcc when it is not in the cache; where
// that fails the failure is returned: without a slack there is no verdict on speed.
Result<GpuCost> calibrate_plans(Device& device, const std::string& root);

// Host time of an opening that reveals as much as this task's, with nobody else on the device.
Result<double> measure_idle_open(Device& device, const Session& session, const Batch& batch);

// What the windows of a subject that launches nothing take; it must be setting itself up.
Result<double> calibrate_candidate(Device& device, Candidate& empty);

}  // namespace khost::judge::gpu
