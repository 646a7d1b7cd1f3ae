// What the clock costs and what can be gained against it, measured on this device in this state. No candidate may be
// alive. About 3 s, once for each judge.
#pragma once

#include <functional>
#include <string>

#include "sandbox/abi/build.h"
#include "sandbox/judge/cuda/gpu.h"

namespace khost::judge::gpu {

// Where a calibrating subject's process comes from.
using BlankSource = std::function<Result<Blank>()>;

// `root` holds the sources. Gives plan_s, spread_s, slack_s and the evidence for them. Builds the adversary with nvcc
// when it is not in the cache; where that fails the failure is returned: without a slack there is no verdict on
// speed.
Result<GpuCost> calibrate_plans(Device& device, const std::string& root, const BlankSource& blanks);

// The subjects that gain against the clock, so that it is known how much (adversary/kernels/early.cu).
Result<sandbox::Built> build_adversary(const std::string& root, const std::string& architecture);

// What windows on a task take beyond those of calibrate_plans, for nothing that a candidate does: 0 where there is no
// room to measure it.
//   closing  the sampled elements lie all over its outputs, at places that no cache and no table of addresses holds
//   flush    a call is acknowledged when what it wrote is there for every process and not only for its own: seen with a
//            kernel that reads and writes everything once, from its last block's end and up to its first one's begin
Result<TaskCost> measure_task_cost(Device& device, const std::string& root, const BlankSource& blanks,
                                   const Session& session, const Batch& batch, const Tolerances& tolerances);

// Seconds of a window less what such windows take besides. That was seen with a kernel that touches all of the task's
// memory, which a candidate need not do: so it takes off a part and never most.
double without(double window_s, double besides_s);

// Host time of an opening that reveals as much as this task's, with nobody else on the device.
Result<double> measure_idle_open(Device& device, const Session& session, const Batch& batch);

// What the windows of a subject that launches nothing take; it must be setting itself up.
Result<double> calibrate_candidate(Device& device, Candidate& empty);

}  // namespace khost::judge::gpu
