// Lua face of sandbox/: workspaces, shells in them, requests of programs inside (scripts/meta/khost.sandbox.lua).
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/json_text.h"
#include "host/host.h"
#include "host/lua/bind.h"
#include "host/lua/task.h"
#include "host/modules/modules.h"
#include "host/modules/sandbox_types.h"
#include "host/modules/workers.h"
#include "sandbox/jail/jail.h"
#include "sandbox/jail/output_cut.h"
#include "sandbox/search.h"
#include "sandbox/shell.h"
#include "sandbox/workspace.h"

namespace khost::sandbox {

using lua::Resume;

namespace {

constexpr size_t kMostRequestParts = 10000;  // of what a program inside asks: a word or two and some numbers

using WorkspacePtr = std::shared_ptr<LuaWorkspace>;
using ShellPtr = std::shared_ptr<Shell>;

// Answers with the result or the failure of work that ran on a thread of its own.
template <class T>
void answer(const Resume<T>& done, Result<T> result) {
  if (result) {
    done(std::move(result).value());
  } else {
    done.fail(result.failure());
  }
}

LuaFile lua_file(const FileEntry& entry) {
  return {entry.path, static_cast<double>(entry.bytes), static_cast<double>(entry.mtime_ns) * 1e-9, entry.folder};
}

void open_workspace(Resume<WorkspacePtr> done, lua_State* L, std::optional<std::string> template_folder,
                    LuaWorkspaceOptions options) {
  WorkspaceOptions wanted;
  wanted.template_folder = template_folder.value_or("");
  if (!wanted.template_folder.empty() && wanted.template_folder[0] != '/') {
    wanted.template_folder = Host::of(L).root() + "/" + wanted.template_folder;
  }
  wanted.files = std::move(options.files);
  wanted.writable = std::move(options.writable);
  wanted.bytes = static_cast<size_t>(options.bytes);
  wanted.most_files = static_cast<size_t>(options.most_files);
  submit_blocking([done, wanted] {
    Result<std::shared_ptr<Workspace>> made = Workspace::create(wanted);
    if (made) {
      const auto holder = std::make_shared<LuaWorkspace>();
      holder->workspace = *made;
      done(holder);
    } else {
      done.fail(made.failure());
    }
  });
}

void open_shell(Resume<ShellPtr> done, WorkspacePtr holder, LuaShellOptions options) {
  holder->get();
  ShellOptions wanted{options.environment, options.readable_prefixes, options.devices, options.limits,
                      options.timeout_s};
  if (!holder->shells) {
    holder->shells = std::make_shared<LuaWorkspace::Shells>();
  }
  submit_blocking([done, workspace = holder->workspace, shells = holder->shells, wanted] {
    Result<ShellPtr> shell = Shell::open(workspace, wanted);
    if (shell) {
      const std::lock_guard lock(shells->mutex);
      if (shells->closed) {
        return done.fail({"the workspace is closed", "gone"});
      }
      shells->list.push_back(*shell);
    }
    answer(done, std::move(shell));
  });
}

Result<std::string> read_file(WorkspacePtr holder, std::string path) {
  return holder->get().read(path);
}
Status write_file(WorkspacePtr holder, std::string path, std::string text) {
  return holder->get().write(path, text);
}
Status put_file(WorkspacePtr holder, std::string path, std::string text) {
  return holder->get().put(path, text);
}
Status remove_file(WorkspacePtr holder, std::string path) {
  return holder->get().remove(path);
}
bool is_protected(WorkspacePtr holder, std::string path) {
  return holder->get().is_protected(path);
}

Result<LuaFile> file_entry(WorkspacePtr holder, std::string path) {
  const Result<FileEntry> entry = holder->get().entry(path);
  return entry ? Result<LuaFile>(lua_file(entry.value())) : entry.failure();
}

Result<std::vector<LuaFile>> files(WorkspacePtr holder, std::optional<std::string> under) {
  const Result<std::vector<FileEntry>> found = holder->get().files(under.value_or(""));
  if (!found) {
    return found.failure();
  }
  std::vector<LuaFile> list;
  for (const FileEntry& entry : found.value()) {
    list.push_back(lua_file(entry));
  }
  return list;
}

Result<std::map<std::string, std::string>> snapshot(WorkspacePtr holder) {
  return holder->get().snapshot();
}
Status restore(WorkspacePtr holder, std::map<std::string, std::string> saved) {
  return holder->get().restore(saved);
}
Status answer_request(WorkspacePtr holder, long id, std::string text) {
  return holder->get().answer(id, text);
}

// Returns at once; jails end and files go on another thread.
void close_workspace(WorkspacePtr holder) {
  std::vector<ShellPtr> shells;
  if (holder->shells) {
    const std::lock_guard lock(holder->shells->mutex);
    holder->shells->closed = true;
    for (const std::weak_ptr<Shell>& weak : holder->shells->list) {
      if (ShellPtr shell = weak.lock()) {
        shells.push_back(std::move(shell));
      }
    }
    holder->shells->list.clear();
  }
  submit_blocking([shells = std::move(shells), workspace = std::exchange(holder->workspace, nullptr)] {
    for (const ShellPtr& shell : shells) {
      shell->close();
    }
  });
}

// Looks for a request every 30 ms while its task waits.
struct RequestPoll : std::enable_shared_from_this<RequestPoll> {
  RequestPoll(boost::asio::io_context& io, Resume<LuaRequest> answer_to, WorkspacePtr from, double timeout_s)
      : timer(io),
        done(std::move(answer_to)),
        holder(std::move(from)),
        deadline(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                        std::chrono::duration<double>(timeout_s))) {}

  void step() {
    if (!holder->workspace) {
      return done.fail({"the workspace is closed", "gone"});
    }
    if (const std::optional<Request> request = holder->workspace->take_request()) {
      Result<Json> parsed = parse_json(request->text, kMostRequestParts);
      const bool is_object = parsed && parsed->is_object();
      return done(LuaRequest{request->id,
                             is_object ? std::move(*parsed) : Json{{"malformed", "a request is one JSON object"}}});
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return done.fail({"no request came", "timeout"});
    }
    timer.expires_after(std::chrono::milliseconds(30));
    timer.async_wait([self = shared_from_this()](const boost::system::error_code& stopped) {
      if (!stopped) {
        self->step();
      }
    });
  }

  boost::asio::steady_timer timer;
  Resume<LuaRequest> done;
  WorkspacePtr holder;
  std::chrono::steady_clock::time_point deadline;
};

void take_request(Resume<LuaRequest> done, lua_State* L, WorkspacePtr holder, std::optional<double> timeout_s) {
  const auto waiting = std::make_shared<RequestPoll>(Host::of(L).io(), done, holder, timeout_s.value_or(1e7));
  done.on_cancel([weak = std::weak_ptr<RequestPoll>(waiting)] {
    if (const auto poll = weak.lock()) {
      poll->timer.cancel();
    }
  });
  waiting->step();
}

void run_command(Resume<RunResult> done, ShellPtr shell, std::string command, RunOptions options) {
  done.on_cancel([weak = std::weak_ptr<Shell>(shell)] {
    if (const ShellPtr running = weak.lock()) {
      running->cancel();
    }
  });
  submit_blocking([done, shell, command, options] { answer(done, shell->run(command, options)); });
}

void start_job(Resume<std::string> done, ShellPtr shell, std::string command, JobOptions options) {
  submit_blocking([done, shell, command, options] { answer(done, shell->start_job(command, options.timeout_s)); });
}

Result<JobOutput> job_output(ShellPtr shell, std::string id) {
  const std::shared_ptr<Job> job = shell->job(id);
  if (!job) {
    return Failure{"no background job " + id, "bad_input"};
  }
  return job->take();
}

void kill_job(Resume<JobOutput> done, ShellPtr shell, std::string id) {
  submit_blocking([done, shell, id] {
    if (const std::shared_ptr<Job> job = shell->job(id)) {
      job->kill();
      done(job->take());
    } else {
      done.fail({"no background job " + id, "bad_input"});
    }
  });
}

std::vector<std::string> list_jobs(ShellPtr shell) {
  return shell->jobs();
}

void close_shell(ShellPtr shell) {
  shell->cancel();
  submit_blocking([shell] { shell->close(); });
}

// For each of the paths that holds a match, in order: the numbers of its matching lines.
Result<std::vector<LuaMatches>> grep(WorkspacePtr holder, std::vector<std::string> paths, std::string pattern,
                                     GrepOptions options) {
  const Result<Pattern> compiled = Pattern::compile(pattern, {options.ignore_case, options.multiline});
  if (!compiled) {
    return compiled.failure();
  }
  std::vector<LuaMatches> found;
  for (const std::string& path : paths) {
    const Result<std::string> text = holder->get().read(path);
    if (!text || text.value().substr(0, 8192).find('\0') != std::string::npos) {
      continue;  // gone meanwhile, too large, or binary
    }
    const Result<std::vector<size_t>> lines = compiled.value().matching_lines(text.value());
    if (!lines) {
      return lines.failure();
    }
    if (!lines.value().empty()) {
      found.push_back({path, lines.value()});
    }
  }
  return found;
}

std::string clean(std::string text, std::optional<double> most_bytes) {
  return cut_middle(clean_output(text), static_cast<size_t>(most_bytes.value_or(1e15)));
}

void available(Resume<bool> done) {
  submit_blocking([done] {
    const Status status = jail_available();
    if (status) {
      done(true);
    } else {
      done.fail(status.failure());
    }
  });
}

}  // namespace
}  // namespace khost::sandbox

namespace khost::modules {

void open_sandbox(lua_State* L) {
  using namespace khost::sandbox;
  using lua::def;
  lua::add_class<LuaWorkspace>(
      L, {def<open_shell>("shell"), def<read_file>("read"), def<write_file>("write"), def<put_file>("put"),
          def<remove_file>("remove"), def<is_protected>("protected"), def<file_entry>("entry"), def<files>("files"),
          def<grep>("grep"), def<snapshot>("snapshot"), def<restore>("restore"), def<take_request>("take_request"),
          def<answer_request>("answer"), def<close_workspace>("close")});
  lua::add_class<Shell>(L, {def<run_command>("run"), def<start_job>("start"), def<job_output>("output"),
                            def<kill_job>("kill"), def<list_jobs>("jobs"), def<close_shell>("close")});
  lua_newtable(L);
  lua::add(L, {def<open_workspace>("workspace"), def<available>("available"), def<clean>("clean"),
               def<filter_lines>("filter_lines")});
  finish_in_lua(L, "sandbox.lua");
}

}  // namespace khost::modules
