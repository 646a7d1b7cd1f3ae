#include "sandbox/judge/task/planning.h"

#include "sandbox/abi/derive.h"
#include "sandbox/jail/output_cut.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/evaluation/limits.h"

namespace khost::judge {
namespace {

bool is_source(const std::string& path) {
  const std::string end = path.substr(path.rfind('.') == std::string::npos ? path.size() : path.rfind('.'));
  return end == ".cpp" || end == ".cc" || end == ".cu";
}

Result<sandbox::Plan> record(const PlanRequest& request, const std::function<Result<Zygote*>()>& recorder) {
  Result<Zygote*> zygote = recorder();
  Result<Child> child = zygote ? (*zygote)->spawn() : zygote.failure();
  if (!child) {
    return child.failure();
  }
  const Json body = {{"model_source", request.session.source()},
                     {"model_new_source", request.files.at("model_new.py")},
                     {"signatures", request.built.signatures},
                     {"rules", request.rules},
                     {"inputs", request.session.layouts().inputs.to_json()},
                     {"state", request.session.layouts().state.to_json()}};
  child->bound_answers(kMostRecorded);
  Result<Json> answer = child->call({{"kind", "record"}, {"request", body}}, {}, kPlanTimeout_s);
  if (!answer) {
    return Failure{answer.failure().message, "plan"};
  }
  if (answer->is_object() && answer->contains("error")) {
    Complaint complaint = complaint_of((*answer)["error"]);
    Failure failure{std::move(complaint.message), std::move(complaint.reason)};
    if (is_ours(failure)) {  // the candidate runs there, and does not say what is the machine's fault
      failure.code = "error";
    }
    return failure;
  }
  return sandbox::Plan::parse(*answer);
}

Result<sandbox::Plan> derive(const PlanRequest& request) {
  std::vector<std::string> sources;
  int kernels = 0;
  for (const auto& [path, text] : request.files) {
    sources.insert(is_source(path) ? sources.begin() : sources.end(), text);
    kernels += is_source(path) ? 1 : 0;
  }
  if (kernels != 1 || request.built.signatures.size() != 1) {
    return Failure{"without model_new.py there is one kernel file with one exported launcher", "bad_input"};
  }
  const auto& [symbol, signature] = *request.built.signatures.begin();
  const Layouts& layouts = request.session.layouts();
  return sandbox::derive_plan({std::move(sources), symbol, signature, layouts.inputs, layouts.state, layouts.outputs});
}

}  // namespace

Result<int> reference_operators(const Session& session, Zygote& recorder) {
  Result<Child> child = recorder.spawn();
  if (!child) {
    return child.failure();
  }
  const Json body = {{"model_source", session.source()},
                     {"signatures", Json::object()},
                     {"rules", "mixed"},
                     {"inputs", session.layouts().inputs.to_json()},
                     {"state", session.layouts().state.to_json()}};
  Result<Json> answer = child->call({{"kind", "record"}, {"request", body}}, {}, kPlanTimeout_s);
  if (!answer) {
    return answer.failure();
  }
  if (!answer->is_object() || !answer->contains("computing") || !(*answer)["computing"].is_number_integer()) {
    const bool told = answer->is_object() && answer->contains("error") && (*answer)["error"].is_object();
    return Failure{
        "by the rule set mixed no torch operators may stand beside own kernels here, since the reference's cannot be "
        "counted without data: " +
            (told ? (*answer)["error"].value("message", "") : "no answer"),
        "uncounted"};
  }
  return (*answer)["computing"].get<int>();
}

Complaint complaint_of(const Json& error) {
  Complaint result;
  const auto text = [&error](const char* key) {
    const bool there = error.is_object() && error.contains(key) && error[key].is_string();
    return there ? error[key].get<std::string>() : std::string();
  };
  if (std::string reason = text("reason"); !reason.empty()) {
    result.reason = std::move(reason);
  }
  const bool line = error.is_object() && error.contains("line") && error["line"].is_number_integer();
  result.message = "model_new.py" + (line ? " line " + error["line"].dump() : std::string()) + ": " +
                   sandbox::words_of_a_stranger(text("message"));
  return result;
}

Result<sandbox::Plan> plan_of(const PlanRequest& request, const std::function<Result<Zygote*>()>& recorder) {
  Result<sandbox::Plan> plan = request.files.count("model_new.py") > 0 ? record(request, recorder) : derive(request);
  if (!plan) {
    return plan;
  }
  const Layouts& layouts = request.session.layouts();
  if (Status bound = plan->bind(request.built.signatures, layouts.inputs, layouts.state); !bound) {
    return bound.failure();
  }
  if (Status same = sandbox::match_outputs(plan->outputs, layouts.outputs); !same) {
    return Failure{same.failure().message, "shape"};
  }
  if (Status small = sandbox::bound_outputs(plan->outputs, layouts.outputs); !small) {
    return small.failure();
  }
  return plan;
}

}  // namespace khost::judge
