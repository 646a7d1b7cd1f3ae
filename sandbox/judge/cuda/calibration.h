// What the clock costs and how much a candidate could gain against it, measured on this device in its present state. No
// candidate may be alive. Takes about 3 s, once for each judge.
#pragma once

#include <functional>
#include <string>

#include "sandbox/build/build.h"
#include "sandbox/judge/cuda/gpu.h"

namespace khost::judge::gpu {

// Gives the process of a calibrating subject.
using IdleSubjectSource = std::function<Result<IdleSubject>()>;

// `root` holds the sources. Gives plan_s, spread_s, slack_s and the evidence for them. Builds the adversary with nvcc
// when it is not in the cache; where that fails the failure is returned: without a slack there is no verdict on
// speed.
Result<GpuCost> calibrate_plans(Device& device, const std::string& root, const IdleSubjectSource& blanks);

// Builds the subjects that try to gain against the clock, so that the gain is known (adversary/kernels/early.cu).
Result<sandbox::Built> build_adversary(const std::string& root, const std::string& architecture);

// What windows on a task take beyond those of calibrate_plans, for nothing that a candidate does: 0 where there is no
// room to measure it.
//   closing  the sampled elements lie all over its outputs, at places that no cache and no table of addresses holds
//   flush    a call is acknowledged when what it wrote is there for every process and not only for its own: seen with a
//            kernel that reads and writes everything once, from its last block's end and up to its first one's begin
Result<TaskCost> measure_task_cost(Device& device, const std::string& root, const IdleSubjectSource& blanks,
                                   const Session& session, const Batch& batch, const Tolerances& tolerances);

// Seconds of a window less the additional cost of such windows. That cost was measured with a kernel that touches all
// of the task's memory, which a candidate need not do, so at most a fixed part of the window is taken off.
double without(double window_s, double besides_s);

// Host time of an opening that reveals as much as this task's, with nobody else on the device.
Result<double> measure_idle_open(Device& device, const Session& session, const Batch& batch);

// Seconds of the windows of a subject that launches nothing; its set-up must have begun.
Result<double> calibrate_candidate(Device& device, Candidate& empty);

}  // namespace khost::judge::gpu
