// khost.judge: a khost-judge process as an object. Requests wait; several may be in flight.
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "host/base/json.h"
#include "host/host.h"
#include "host/judge/judge_process.h"
#include "host/modules/modules.h"
#include "sandbox/judge/verdict/words.h"

namespace khost::modules {
namespace {

using lua::field;
using lua::Resume;
using lua::Tag;

// Of a candidate's process, as khost.toml has them.
struct CandidateLimits {
  int memory_mb = 4096;
  int processes = 64;
  int tmp_mb = 256;
};
constexpr auto fields(Tag<CandidateLimits>) {
  using L = CandidateLimits;
  return std::tuple(field("memory_mb", &L::memory_mb), field("processes", &L::processes), field("tmp_mb", &L::tmp_mb));
}

struct OpenOptions {
  std::string python;  // default: KHOST_PYTHON
  int jobs = 3;        // requests worked on at the same time; 0: as many as there are cores
  CandidateLimits limits;
};
constexpr auto fields(Tag<OpenOptions>) {
  return std::tuple(field("python", &OpenOptions::python), field("jobs", &OpenOptions::jobs),
                    field("limits", &OpenOptions::limits));
}

// The binder finds a class by the namespace of its own.
class Judge : public JudgeProcess {
 public:
  using JudgeProcess::JudgeProcess;
};
constexpr const char* class_name(Tag<Judge>) {
  return "Judge";
}

std::vector<std::string> command_line(const Host& host, const OpenOptions& options) {
  const CandidateLimits& limits = options.limits;
  return {host.build_dir() + "/khost-judge",
          "--python",
          options.python,
          "--root",
          host.root(),
          "--lease",
          host.lease_path(),
          "--jobs",
          std::to_string(options.jobs),
          "--host",
          std::to_string(::getpid()),
          "--memory-mb",
          std::to_string(limits.memory_mb),
          "--processes",
          std::to_string(limits.processes),
          "--tmp-mb",
          std::to_string(limits.tmp_mb)};
}

Result<std::shared_ptr<Judge>> open(lua_State* L, OpenOptions options) {
  if (options.python.empty()) {
    const char* python = std::getenv("KHOST_PYTHON");
    options.python = python == nullptr ? "" : python;
  }
  if (options.python.empty()) {
    return Failure{"the judge needs a Python with PyTorch: start khost by ./khost, or set KHOST_PYTHON", "bad_input"};
  }
  const CandidateLimits& limits = options.limits;
  if (options.jobs < 0 || limits.memory_mb < 1 || limits.processes < 1 || limits.tmp_mb < 1) {
    return Failure{"jobs is at least 0, memory_mb, processes and tmp_mb at least 1", "bad_input"};
  }
  if (options.jobs == 0) {
    options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  Host& host = Host::of(L);
  return std::make_shared<Judge>(host.io(), command_line(host, options));
}

void request(Resume<Json> done, std::shared_ptr<Judge> judge, std::string kind, Json body) {
  if (!body.is_object()) {
    throw lua::ArgError("request: a table with the request's fields expected");
  }
  body["kind"] = kind;
  Result<std::uint64_t> id = judge->request(std::move(body), [done](Result<Json> answer) {
    if (answer) {
      done(std::move(*answer));
    } else {
      done.fail(answer.failure());
    }
  });
  if (!id) {
    done.fail(id.failure());
    return;
  }
  done.on_cancel([self = std::weak_ptr<Judge>(judge), id = *id] {
    if (const auto alive = self.lock()) {
      alive->forget(id);
    }
  });
}

void close(std::shared_ptr<Judge> judge) {
  judge->stop();
}

}  // namespace

void open_judge(lua_State* L) {
  lua::add_class<Judge>(L, {lua::def<request>("request"), lua::def<close>("close")});
  lua_newtable(L);
  lua::add(L, {lua::def<open>("open")});
  // What a verdict's words mean: the judge's own table.
  lua::Codec<Json>::push(L, judge::statuses_to_json());
  lua_setfield(L, -2, "statuses");
  lua::Codec<Json>::push(L, judge::reasons_to_json());
  lua_setfield(L, -2, "reasons");
}

}  // namespace khost::modules
