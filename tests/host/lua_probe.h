// What the tests of the runtime share: a host of its own for each test, and Lua text run in it as the root task.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "host/host.h"
#include "host/lua/bind.h"
#include "host/lua/task.h"

namespace khost::tests {

// What scripts said through probe.say since the last take_said().
inline std::vector<std::string>& said() {
  static std::vector<std::string> lines;
  return lines;
}

inline std::string take_said() {
  std::string text;
  for (const std::string& line : said()) {
    text += (text.empty() ? "" : "|") + line;
  }
  said().clear();
  return text;
}

inline HostOptions probe_options() {
  HostOptions options;
  options.root = KHOST_SOURCE_DIR;
  return options;
}

// A host with `khost.probe`: the given functions and classes, and say(text).
class ProbeHost {
 public:
  explicit ProbeHost(lua_CFunction open, HostOptions options = probe_options())
      : folder_(std::filesystem::temp_directory_path() / ("khost-probe-" + std::to_string(getpid()))),
        host_(std::move(options)) {
    std::filesystem::create_directories(folder_);
    host_.vm().preload("khost.probe", open);
    said().clear();
  }
  ~ProbeHost() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Runs `body` as the root task's function. Line 1 of "probe.lua" is the prelude, the body begins on line 2; it
  // sees probe, sched and raises(fn), which returns the message of the error that fn must raise. Returns the exit
  // code and keeps what was said for take_said().
  int run(const std::string& body) {
    const std::string path = (folder_ / "probe.lua").string();
    std::ofstream(path) << "local probe, sched, json = require 'khost.probe', require 'khost.sched', require "
                           "'khost.json' local function raises(fn, ...) local ok, m = pcall(fn, ...) assert(not ok, "
                           "'nothing was raised') return tostring(m) end return { run = function()\n"
                        << body << "\nend }\n";
    return host_.run_script(path, {});
  }

  Host& host() { return host_; }

 private:
  std::filesystem::path folder_;
  Host host_;
};

inline void say(std::string text) {
  said().push_back(std::move(text));
}

// True when the text holds the part; both are shown when it fails.
inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace khost::tests
