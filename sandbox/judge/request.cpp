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

Json answer_of(const Verdict& verdict, Purpose purpose, const std::string& text) {
  Json result = verdict.to_json();
  if (purpose != Purpose::verdict) {
    result["kind"] = purpose == Purpose::profile ? "profile" : "verify";
    result["ok"] = verdict.ok();
    result["text"] = text;
  }
  return result;
}

}  // namespace khost::judge
