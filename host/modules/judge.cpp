// khost.judge: a khost-judge process as an object. Requests wait; several may be in flight.
#include <boost/asio/read.hpp>
#include <boost/asio/readable_pipe.hpp>
#include <boost/asio/writable_pipe.hpp>
#include <boost/asio/write.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <thread>

#include "host/base/json.h"
#include "host/host.h"
#include "host/modules/modules.h"
#include "host/process.h"
#include "sandbox/judge/verdict/words.h"
#include "sandbox/quiet.h"

namespace khost::modules {
namespace {

namespace asio = boost::asio;
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

// The process, its two pipes and who waits for which answer. Lives on the loop's thread. A process that died is
// started again by the next request; what was in flight is answered with code "gone".
class JudgeProcess : public std::enable_shared_from_this<JudgeProcess> {
 public:
  JudgeProcess(Host& host, OpenOptions options)
      : host_(host), options_(std::move(options)), out_(host.io()), in_(host.io()) {}
  ~JudgeProcess() { stop(); }

  void request(Resume<Json> done, Json body) {
    if (pid_ <= 0) {
      if (Status started = start(); !started) {
        done.fail(started.failure());
        return;
      }
    }
    const uint64_t id = ++last_id_;
    body["id"] = id;
    waiting_.emplace(id, done);
    done.on_cancel([self = weak_from_this(), id] {
      if (auto judge = self.lock()) {
        judge->waiting_.erase(id);
      }
    });
    const std::string text = body.dump(-1, ' ', false, Json::error_handler_t::replace);
    const auto size = static_cast<uint32_t>(text.size());
    std::string frame(reinterpret_cast<const char*>(&size), 4);
    outgoing_.push_back(frame + text);
    if (outgoing_.size() == 1) {
      write_next();
    }
  }

  void stop() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);  // jails die with it
      ::waitpid(pid_, nullptr, 0);
      pid_ = 0;
      sandbox::continue_jails();  // the agents' shells, if it was timing
    }
    boost::system::error_code ignored;
    out_.close(ignored);
    in_.close(ignored);
    outgoing_.clear();
    ++life_;
  }

 private:
  Status start() {
    const std::string program = host_.build_dir() + "/khost-judge";
    const std::vector<std::string> words = {program,
                                            "--python",
                                            options_.python,
                                            "--root",
                                            host_.root(),
                                            "--lease",
                                            host_.lease_path(),
                                            "--jobs",
                                            std::to_string(options_.jobs),
                                            "--host",
                                            std::to_string(::getpid()),
                                            "--memory-mb",
                                            std::to_string(options_.limits.memory_mb),
                                            "--processes",
                                            std::to_string(options_.limits.processes),
                                            "--tmp-mb",
                                            std::to_string(options_.limits.tmp_mb)};
    Result<TalkingProgram> judge = start_talking(words);
    if (!judge) {
      return judge.failure();
    }
    pid_ = judge->pid;
    out_.assign(judge->to);
    in_.assign(judge->from);
    read_next();
    return ok();
  }

  void write_next() {
    asio::async_write(out_, asio::buffer(outgoing_.front()),
                      [self = weak_from_this(), life = life_](const boost::system::error_code& error, size_t) {
                        const auto judge = self.lock();
                        if (!judge || error || judge->life_ != life || judge->outgoing_.empty()) {
                          return;  // the reader notices a death
                        }
                        judge->outgoing_.pop_front();
                        if (!judge->outgoing_.empty()) {
                          judge->write_next();
                        }
                      });
  }

  void read_next() {
    asio::async_read(in_, asio::buffer(&size_, 4), [self = weak_from_this(), life = life_](const auto& error, size_t) {
      const auto judge = self.lock();
      if (!judge || judge->life_ != life) {
        return;
      }
      if (error) {
        judge->lose();
        return;
      }
      judge->body_.resize(judge->size_);
      asio::async_read(judge->in_, asio::buffer(judge->body_), [self, life](const auto& again, size_t) {
        const auto alive = self.lock();
        if (!alive || alive->life_ != life) {
          return;
        }
        if (again) {
          alive->lose();
          return;
        }
        alive->answer();
        alive->read_next();
      });
    });
  }

  void answer() {
    const Json frame = Json::parse(body_, nullptr, false);
    const auto found = frame.is_object() ? waiting_.find(frame.value("id", uint64_t{0})) : waiting_.end();
    if (found == waiting_.end()) {
      return;  // cancelled meanwhile
    }
    const Resume<Json> done = found->second;
    waiting_.erase(found);
    if (frame.contains("result")) {
      done(frame["result"]);
    } else {
      const Json error = frame.value("error", Json::object());
      done.fail({error.value("message", "the judge gave no reason"), error.value("code", "host")});
    }
  }

  void lose() {
    stop();
    const auto lost = std::move(waiting_);
    waiting_.clear();
    for (const auto& [id, done] : lost) {
      done.fail({"the judge died while it worked on this request", "gone"});
    }
  }

  Host& host_;
  OpenOptions options_;
  pid_t pid_ = 0;
  // Counts processes. What was begun with one completes after its end, perhaps when the next one has started, whose
  // requests it must not touch.
  uint64_t life_ = 0;
  asio::writable_pipe out_;
  asio::readable_pipe in_;
  std::deque<std::string> outgoing_;
  std::map<uint64_t, Resume<Json>> waiting_;
  uint64_t last_id_ = 0;
  uint32_t size_ = 0;
  std::string body_;
};
constexpr const char* class_name(Tag<JudgeProcess>) {
  return "Judge";
}

Result<std::shared_ptr<JudgeProcess>> open(lua_State* L, OpenOptions options) {
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
  return std::make_shared<JudgeProcess>(Host::of(L), std::move(options));
}

void request(Resume<Json> done, std::shared_ptr<JudgeProcess> judge, std::string kind, Json body) {
  if (!body.is_object()) {
    throw lua::ArgError("request: a table with the request's fields expected");
  }
  body["kind"] = kind;
  judge->request(std::move(done), std::move(body));
}

void close(std::shared_ptr<JudgeProcess> judge) {
  judge->stop();
}

}  // namespace

void open_judge(lua_State* L) {
  lua::add_class<JudgeProcess>(L, {lua::def<request>("request"), lua::def<close>("close")});
  lua_newtable(L);
  lua::add(L, {lua::def<open>("open")});
  // What a verdict's words mean: the judge's own table.
  lua::Codec<Json>::push(L, judge::statuses_to_json());
  lua_setfield(L, -2, "statuses");
  lua::Codec<Json>::push(L, judge::reasons_to_json());
  lua_setfield(L, -2, "reasons");
}

}  // namespace khost::modules
