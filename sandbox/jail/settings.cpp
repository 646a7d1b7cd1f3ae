#include "sandbox/jail/settings.h"

#include "host/base/json.h"

namespace khost::sandbox {

std::string settings_text(const JailSpec& spec, Route route, uid_t uid) {
  Json environment = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
                      {"HOME", "/tmp"},
                      {"USER", "khost"},  // getpass and Inductor ask for it before they ask for the uid's entry
                      {"LANG", "C.UTF-8"},
                      {"TMPDIR", "/tmp"}};
  for (const auto& [name, value] : spec.environment) {
    environment[name] = value;
  }
  Json inside = Json::array();
  for (const auto& fd : spec.fds) {
    inside.push_back(fd.second);
  }
  const Limits& limits = spec.limits;
  const Json settings = {{"drop", route == Route::root},
                         {"uid", uid},
                         {"argv", spec.argv},
                         {"cwd", spec.cwd},
                         {"environment", environment},
                         {"fds", inside},
                         {"threads_only", spec.threads_only},
                         {"allow_memfd", spec.allow_memfd},
                         {"limit_address_space", spec.limit_address_space},
                         {"limits",
                          {{"cpu_s", limits.cpu_s},
                           {"memory_bytes", limits.memory_bytes},
                           {"processes", limits.processes},
                           {"file_bytes", limits.file_bytes},
                           {"open_files", limits.open_files}}}};
  return settings.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace khost::sandbox
