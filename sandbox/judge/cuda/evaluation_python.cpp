// A candidate in Python: what it builds, and the process that it is given.
#include <future>

#include "host/base/sha256.h"
#include "sandbox/build/extension.h"
#include "sandbox/judge/cuda/calibration.h"
#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/service/service.h"
#include "sandbox/judge/task/planning.h"

namespace khost::judge::gpu {
namespace {

constexpr const char* kFile = "model_new.py";
constexpr const char* kWorkspace = "cuda_extension";  // also the key of its library

// What the candidate's file asked for in a jail without a GPU. Its process is the candidate's, so nothing but text is
// taken from it.
Result<Json> recorded(Service& service, const Json& request) {
  Result<Zygote*> zygote = service.device_recorders();
  Result<Child> child = zygote ? (*zygote)->spawn() : zygote.failure();
  if (!child) {
    return child.failure();
  }
  Result<Json> answer = child->call({{"kind", "candidate_record"}, {"request", request}}, {}, kModuleTimeout_s);
  if (!answer) {
    return Failure{answer.failure().message, answer.failure().code == "timeout" ? "timeout" : "build"};
  }
  if (answer->is_object() && answer->contains("error") && (*answer)["error"].is_object()) {
    Complaint complaint = complaint_of((*answer)["error"]);
    return Failure{std::move(complaint.message),
                   refusal_of(complaint.reason, Stage::build) ? complaint.reason : "build"};
  }
  return answer;
}

std::vector<std::string> words(const Json& object, const char* key) {
  std::vector<std::string> result;
  if (object.contains(key) && object[key].is_array()) {
    for (const Json& word : object[key]) {
      if (word.is_string()) {
        result.push_back(word.get<std::string>());
      }
    }
  }
  return result;
}

Result<std::pair<std::string, sandbox::ExtensionRequest>> extension_of(const Json& asked) {
  if (!asked.is_object() || !asked.contains("name") || !asked["name"].is_string() || !asked.contains("key") ||
      !asked["key"].is_string() || !asked.contains("sources") || !asked["sources"].is_object()) {
    return Failure{"an extension was not described", "build"};
  }
  sandbox::ExtensionRequest request;
  request.name = asked["name"].get<std::string>();
  for (const auto& [path, text] : asked["sources"].items()) {
    if (text.is_string()) {
      request.sources[path] = text.get<std::string>();
    }
  }
  request.cflags = words(asked, "cflags");
  request.cuda_cflags = words(asked, "cuda_cflags");
  request.ldflags = words(asked, "ldflags");
  return std::pair{asked["key"].get<std::string>(), request};
}

bool exports_launchers(const std::map<std::string, std::string>& files) {
  for (const auto& [path, text] : files) {
    if (path != kFile && text.find("KHOST_EXPORT") != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

// The request says which, or the workspace does: launchers of the direct ABI make a plan.
bool GpuEvaluation::choose_subject() {
  const std::string wanted = request_.value("subject", "auto");
  if (wanted != "auto" && wanted != "plan" && wanted != "python") {
    verdict_.fail(Outcome::void_, Stage::build, Reason::bad_input, "subject is auto, plan or python");
    return false;
  }
  python_ = wanted == "python" || (wanted == "auto" && files_.count(kFile) > 0 && !exports_launchers(files_));
  verdict_.evidence["subject"] = python_ ? "python" : "plan";
  if (python_) {
    verdict_.evidence["provenance"] = "in-process";
    if (files_.count(kFile) == 0) {
      verdict_.fail(Outcome::build_failed, Stage::build, Reason::bad_input,
                    "a candidate in Python is a model_new.py with ModelNew");
      return false;
    }
  }
  return true;
}

bool GpuEvaluation::build_extensions() {
  if (task_->session->init().is_null()) {
    verdict_.fail(
        Outcome::bad_task, Stage::build, Reason::init,
        "get_init_inputs gives other things than numbers, texts and lists: a candidate in Python cannot be given "
        "them");
    return false;
  }
  program_.source = files_.at(kFile);
  program_.init = task_->session->init();
  Result<Json> asked = recorded(
      gpu_.service_,
      {{"source", program_.source}, {"init", program_.init}, {"inputs", task_->session->layouts().inputs.to_json()}});
  if (!asked) {
    verdict_.fail(Stage::build, blame_build(asked.failure()));
    return false;
  }
  std::vector<std::pair<std::string, sandbox::ExtensionRequest>> requests;
  if (asked->contains("extensions") && (*asked)["extensions"].is_array()) {
    for (const Json& one : (*asked)["extensions"]) {
      Result<std::pair<std::string, sandbox::ExtensionRequest>> request = extension_of(one);
      if (!request) {
        verdict_.fail(Stage::build, blame_build(request.failure()));
        return false;
      }
      requests.push_back(std::move(*request));
    }
  }
  if (asked->value("workspace", false)) {
    Result<sandbox::ExtensionRequest> request = sandbox::workspace_extension(files_);
    if (!request) {
      verdict_.fail(Stage::build, blame_build(request.failure()));
      return false;
    }
    requests.emplace_back(kWorkspace, std::move(*request));
  }
  std::vector<std::future<Result<sandbox::Built>>> building;
  for (auto& [key, request] : requests) {
    request.python = gpu_.place_.python;
    request.arch = device_->architecture();
    building.push_back(std::async(std::launch::async, [&one = request] { return sandbox::build_extension(one); }));
  }
  std::string all = program_.source;
  std::optional<Failure> failed;
  for (std::size_t i = 0; i < building.size(); i++) {
    Result<sandbox::Built> built = building[i].get();
    if (!built) {
      failed = failed ? failed : std::optional(built.failure());
      continue;
    }
    program_.libraries.emplace_back(requests[i].first, built->path);
    for (const auto& [path, text] : requests[i].second.sources) {
      program_.sources.push_back(text);
    }
    all += built->hash;
  }
  if (failed) {
    verdict_.fail(Stage::build, blame_build(*failed));
    return false;
  }
  built_.hash = sha256_hex(all);
  verdict_.evidence["artefact_hash"] = built_.hash;
  verdict_.evidence["extensions"] = requests.size();
  return limit_operators();
}

// Takes a Python process that serves this candidate alone and has imported torch and nothing else.
bool GpuEvaluation::take_python() {
  Result<std::unique_ptr<Zygote>> python = gpu_.pythons_.take(view_of(*device_));
  if (!python) {
    return void_for(Stage::plan, python.failure());
  }
  own_zygote_ = std::move(*python);
  return true;
}

Result<std::unique_ptr<Candidate>> GpuEvaluation::start_candidate(const Profiling* profiling) {
  if (!python_) {
    const bool ahead = profiling == nullptr && !idle_subjects_.empty();
    Result<IdleSubject> blank = ahead                  ? Result<IdleSubject>(std::move(idle_subjects_.front()))
                                : profiling == nullptr ? idle_subject()
                                                       : IdleSubject::open(*device_, queues_, profiling);
    if (ahead) {
      idle_subjects_.pop_front();
    }
    return blank ? Candidate::start(std::move(*blank), task_->session.get(), plan_, built_.path) : blank.failure();
  }
  Result<std::unique_ptr<PythonCandidate>> started =
      PythonCandidate::start(*device_, task_->session.get(), *own_zygote_, program_, profiling);
  if (!started) {
    return started.failure();
  }
  return std::unique_ptr<Candidate>(std::move(*started));
}

// What an empty candidate in Python takes, in a process like a candidate's.
Status GpuEvaluation::calibrate_python() {
  if (!python_ || gpu_.cost_.candidate_s > 0) {
    return ok();
  }
  Result<std::unique_ptr<PythonCandidate>> empty = PythonCandidate::start(*device_, nullptr, *own_zygote_, {});
  if (!empty) {
    return empty.failure();
  }
  Result<double> seconds = calibrate_candidate(*device_, **empty);
  if (!seconds) {
    return seconds.failure();
  }
  gpu_.cost_.candidate_s = *seconds;
  gpu_.cost_.evidence["empty_python_s"] = *seconds;
  return ok();
}

}  // namespace khost::judge::gpu
