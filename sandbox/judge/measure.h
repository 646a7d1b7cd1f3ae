// Times a verified candidate against the task's baselines in brackets: baselines, candidate in a fresh process,
// baselines. Nobody's candidate is alive while a baseline is timed, and every timed call of the candidate is checked.
// Runs alone on the machine's cores: under the exclusive device lease.
#pragma once

#include <functional>
#include <memory>

#include "host/base/lease.h"
#include "sandbox/judge/session.h"
#include "sandbox/verdict.h"

namespace khost::judge {

struct MeasureRequest {
  std::function<Result<std::unique_ptr<CandidateProcess>>()> start;
  std::function<Mismatch(const CandidateProcess&, const InputSet&)> check;
  bool compile = true;  // also against torch.compile
};

// Fills times, speedup, faster and evidence; or sets a status: what was right before may yet crash or be wrong here.
void measure(Session& session, Lease& lease, const MeasureRequest& request, sandbox::Verdict& verdict);

}  // namespace khost::judge
