// The rule set `mixed` for a candidate in Python: how many torch operators its forward may dispatch, what its answer is
// worth without what the functions of its extensions write (candidate_mixed.py), and its own kernels' share of
// the device time.
#include <algorithm>
#include <cctype>
#include <string_view>

#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/cuda/profiling.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/service/service.h"
#include "sandbox/judge/task/planning.h"

namespace khost::judge::gpu {
namespace {

bool is_part_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Whether a text defines a kernel of this name: `__global__`, what may stand between, the name and a parenthesis. A
// reader's figure rests on it and nothing else does.
bool defines_kernel(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find("__global__"); at != std::string::npos; at = text.find("__global__", at + 1)) {
    const std::size_t body = text.find('{', at);
    const std::string head = text.substr(at, body == std::string::npos ? body : body - at);
    for (std::size_t found = head.find(name); found != std::string::npos; found = head.find(name, found + 1)) {
      std::size_t end = found + name.size();
      while (end < head.size() && std::isspace(static_cast<unsigned char>(head[end])) != 0) {
        end++;
      }
      if (!is_part_of_name(head[found - 1]) && end < head.size() && head[end] == '(') {
        return true;
      }
    }
  }
  return false;
}

// "void scale<float>(float*)" -> "scale"; empty for one of a named namespace, as all of torch's and its libraries' are.
std::string plain_name(std::string signature) {
  constexpr std::string_view kVoid = "void ", kUnnamed = "(anonymous namespace)::";
  for (const std::string_view start : {kVoid, kUnnamed}) {
    signature.erase(0, signature.rfind(start, 0) == 0 ? start.size() : 0);
  }
  std::string name = signature.substr(0, signature.find_first_of("(<"));
  if (const std::size_t space = name.rfind(' '); space != std::string::npos) {
    name.erase(0, space + 1);
  }
  return name.find("::") == std::string::npos ? name : std::string();
}

}  // namespace

// Before any process of it starts.
bool GpuEvaluation::limit_operators() {
  if (verdict_.rules != "mixed") {
    return true;
  }
  Result<Zygote*> recorder = gpu_.service_.device_recorders();
  const Result<int> reference =
      recorder ? reference_operators(*task_->session, **recorder) : Result<int>(recorder.failure());
  if (!reference && reference.failure().code == "uncounted") {
    verdict_.fail(Outcome::violation, Stage::build, Reason::torch_compute, reference.failure().message);
    return false;
  }
  if (!reference) {
    return void_for(Stage::build, reference.failure());
  }
  verdict_.evidence["reference_operators"] = *reference;
  program_.rules = "mixed";
  program_.most_operators = std::max(0, *reference - 1);
  return true;
}

// A call of the audit; whether its answer is right. A call that fails has no right answer.
Result<bool> GpuEvaluation::right_without_own_work(Candidate& subject, std::size_t set) {
  const Window window = subject.direct(*batch_, set, kCallTimeout_s);
  if (window.end != Window::End::done || window.status != 0) {
    return false;
  }
  Result<std::optional<Mismatch>> wrong = subject.compare(*batch_, set);
  return wrong ? Result<bool>(!wrong->has_value()) : wrong.failure();
}

// Behind the verified calls, whose process has ended; one of its own, in which nothing is timed.
bool GpuEvaluation::audit() {
  subject_.reset();
  ahead_.clear();
  program_.audits = true;
  std::unique_ptr<Candidate> subject = fresh(Stage::verify);
  program_.audits = false;
  if (!subject) {
    return false;
  }
  const std::size_t recorded = 0;
  if (!check(*subject, subject->direct(*batch_, recorded, kCallTimeout_s), recorded, Stage::verify)) {
    return false;
  }
  std::size_t other = recorded;  // a set whose right answer is another one
  for (std::size_t i = 0; i < batch_->verified && other == recorded; i++) {
    Result<std::optional<Mismatch>> differs = subject->compare(*batch_, i);
    if (!differs) {
      return void_for(Stage::verify, differs.failure());
    }
    other = *differs ? i : recorded;
  }
  for (const char* stand : {"what its own kernels computed of other inputs", "poison"}) {
    Result<bool> right = right_without_own_work(*subject, other);
    if (!right) {
      return void_for(Stage::verify, right.failure());
    }
    const bool told = other != recorded || std::string(stand) == "poison";
    if (*right && told) {
      verdict_.fail(Outcome::violation, Stage::verify, Reason::no_own_work,
                    std::string("the answer is right with ") + stand +
                        " in the place of what its own kernels compute: they copy, write the same for all inputs, or "
                        "what they write is not used");
      return false;
    }
  }
  subject.reset();
  tell_share();
  return true;
}

// By CUPTI, in a process of its own. Of no weight: what fails here leaves the share out.
void GpuEvaluation::tell_share() {
  Result<ProfilerPlace> place = find_profiler(gpu_.place_.python);
  Result<profiler::Side> side = place ? profile_own(*place) : Result<profiler::Side>(place.failure());
  if (!side || side->busy_s <= 0) {
    return;
  }
  double own_s = 0;
  for (const profiler::Kernel& kernel : side->kernels) {
    const std::string name = plain_name(kernel.name);
    const bool own = !name.empty() && std::any_of(program_.sources.begin(), program_.sources.end(),
                                                  [&](const std::string& text) { return defines_kernel(text, name); });
    own_s += own ? kernel.seconds : 0;
  }
  verdict_.own_share = std::clamp(own_s / side->busy_s, 0.0, 1.0);
}

}  // namespace khost::judge::gpu
