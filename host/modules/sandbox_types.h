// What Lua gives to and gets from sandbox.cpp: handles, options and results, with the names of their fields.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "host/base/json.h"
#include "host/lua/bind.h"
#include "sandbox/jail/jail.h"
#include "sandbox/workspace/shell.h"
#include "sandbox/workspace/workspace.h"

namespace khost::sandbox {

// What Lua holds: the workspace, and its shells, which must end before it.
struct LuaWorkspace {
  std::shared_ptr<Workspace> workspace;  // of the VM's thread; null when closed

  // Shells are opened on other threads. Made with the first one: most episodes wait without any.
  struct Shells {
    std::mutex mutex;
    bool closed = false;
    std::vector<std::weak_ptr<Shell>> list;
  };
  std::shared_ptr<Shells> shells;

  Workspace& get() const {
    if (!workspace) {
      throw lua::ArgError("the workspace is closed");
    }
    return *workspace;
  }
};

struct LuaWorkspaceOptions {
  std::map<std::string, std::string> files;
  std::vector<std::string> writable = WorkspaceOptions{}.writable;
  double bytes = static_cast<double>(WorkspaceOptions{}.bytes);
  double most_files = static_cast<double>(WorkspaceOptions{}.most_files);
};

struct LuaShellOptions {
  std::map<std::string, std::string> environment;
  std::vector<std::string> readable_prefixes;
  std::vector<std::string> devices;
  Limits limits;
  double timeout_s = ShellOptions{}.timeout_s;
};

struct GrepOptions {
  bool ignore_case = false;
  bool multiline = false;
};

struct JobOptions {
  double timeout_s = 600;
};

struct LuaFile {
  std::string path;
  double bytes = 0;
  double mtime_s = 0;
  bool folder = false;
};

struct LuaMatches {
  std::string path;
  std::vector<size_t> lines;
};

struct LuaRequest {
  long id = 0;
  Json request;
};

constexpr const char* class_name(lua::Tag<LuaWorkspace>) {
  return "Workspace";
}
constexpr const char* class_name(lua::Tag<Shell>) {
  return "Shell";
}

constexpr auto fields(lua::Tag<LuaWorkspaceOptions>) {
  using O = LuaWorkspaceOptions;
  return std::tuple(lua::field("files", &O::files), lua::field("writable", &O::writable),
                    lua::field("bytes", &O::bytes), lua::field("most_files", &O::most_files));
}
constexpr auto fields(lua::Tag<Limits>) {
  return std::tuple(lua::field("cpu_s", &Limits::cpu_s), lua::field("memory_bytes", &Limits::memory_bytes),
                    lua::field("processes", &Limits::processes), lua::field("file_bytes", &Limits::file_bytes),
                    lua::field("open_files", &Limits::open_files), lua::field("tmp_bytes", &Limits::tmp_bytes));
}
constexpr auto fields(lua::Tag<LuaShellOptions>) {
  using O = LuaShellOptions;
  return std::tuple(lua::field("environment", &O::environment), lua::field("readable_prefixes", &O::readable_prefixes),
                    lua::field("devices", &O::devices), lua::field("limits", &O::limits),
                    lua::field("timeout_s", &O::timeout_s));
}
constexpr auto fields(lua::Tag<RunOptions>) {
  return std::tuple(lua::field("timeout_s", &RunOptions::timeout_s), lua::field("input", &RunOptions::input),
                    lua::field("output_bytes", &RunOptions::output_bytes));
}
constexpr auto fields(lua::Tag<GrepOptions>) {
  return std::tuple(lua::field("ignore_case", &GrepOptions::ignore_case),
                    lua::field("multiline", &GrepOptions::multiline));
}
constexpr auto fields(lua::Tag<JobOptions>) {
  return std::tuple(lua::field("timeout_s", &JobOptions::timeout_s));
}
constexpr auto fields(lua::Tag<RunResult>) {
  using R = RunResult;
  return std::tuple(lua::field("code", &R::code), lua::field("output", &R::output),
                    lua::field("truncated", &R::truncated), lua::field("timed_out", &R::timed_out),
                    lua::field("state_lost", &R::state_lost), lua::field("wall_s", &R::wall_s),
                    lua::field("cwd", &R::cwd), lua::field("full_path", &R::full_path),
                    lua::field("notice", &R::notice));
}
constexpr auto fields(lua::Tag<JobOutput>) {
  using O = JobOutput;
  return std::tuple(lua::field("output", &O::output), lua::field("lost_bytes", &O::lost_bytes),
                    lua::field("status", &O::status), lua::field("code", &O::code), lua::field("wall_s", &O::wall_s));
}
constexpr auto fields(lua::Tag<LuaFile>) {
  return std::tuple(lua::field("path", &LuaFile::path), lua::field("bytes", &LuaFile::bytes),
                    lua::field("mtime_s", &LuaFile::mtime_s), lua::field("folder", &LuaFile::folder));
}
constexpr auto fields(lua::Tag<LuaMatches>) {
  return std::tuple(lua::field("path", &LuaMatches::path), lua::field("lines", &LuaMatches::lines));
}
constexpr auto fields(lua::Tag<LuaRequest>) {
  return std::tuple(lua::field("id", &LuaRequest::id), lua::field("request", &LuaRequest::request));
}

}  // namespace khost::sandbox
