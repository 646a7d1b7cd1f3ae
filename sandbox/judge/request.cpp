#include "sandbox/judge/request.h"

namespace khost::judge {

std::map<std::string, std::string> candidate_files(const Json& files) {
  std::map<std::string, std::string> result;
  for (const auto& [path, text] : files.items()) {
    if (text.is_string() && (path.rfind("kernels/", 0) == 0 || path == "model_new.py")) {
      result[path] = text.get<std::string>();
    }
  }
  return result;
}

bool wants_times(const Json& request, Purpose purpose) {
  return purpose == Purpose::profile || (purpose == Purpose::verdict && request.value("measure", true));
}

bool is_ours(const Failure& why) {
  return why.code == "gone" || why.code == "host" || why.code == "io";
}

void fail_build(sandbox::Verdict& verdict, const Failure& why) {
  verdict.fail(why.code == "policy" ? "policy"
               : is_ours(why)       ? "void"
                                    : "build_failed",
               "build", why.code, why.message);
}

void fail_plan(sandbox::Verdict& verdict, const Failure& why) {
  const bool policy = why.code.rfind("policy", 0) == 0;
  verdict.fail(policy                ? "policy"
               : why.code == "shape" ? "wrong"
               : is_ours(why)        ? "void"
                                     : "build_failed",
               "plan", policy && why.code.size() > 7 ? why.code.substr(7) : why.code, why.message);
}

Json answer_of(const sandbox::Verdict& verdict, Purpose purpose, const std::string& text) {
  Json result = verdict.to_json();
  if (purpose != Purpose::verdict) {
    result["kind"] = purpose == Purpose::profile ? "profile" : "verify";
    result["ok"] = verdict.status == "ok";
    result["text"] = text;
  }
  return result;
}

}  // namespace khost::judge
