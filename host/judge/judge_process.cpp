#include "host/judge/judge_process.h"

#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <signal.h>
#include <sys/wait.h>

#include <utility>

#include "host/process.h"
#include "sandbox/jail/quiet.h"
#include "sandbox/judge/service/frames.h"

namespace khost {

namespace asio = boost::asio;

JudgeProcess::JudgeProcess(asio::io_context& io, std::vector<std::string> words)
    : io_(io), words_(std::move(words)), out_(io), in_(io) {}

JudgeProcess::~JudgeProcess() {
  end();
}

Result<std::uint64_t> JudgeProcess::request(Json body, Done done) {
  if (pid_ <= 0) {
    if (Status started = start(); !started) {
      return started.failure();
    }
  }
  const std::uint64_t id = ++last_id_;
  body["id"] = id;
  const std::string text = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() >= judge::kMostRequestBytes) {  // the judge would end, and with it what others asked
    return Failure{"the request has " + std::to_string(text.size() >> 20) + " MiB; a judge takes less than " +
                       std::to_string(judge::kMostRequestBytes >> 20),
                   "bad_input"};
  }
  waiting_.emplace(id, std::move(done));
  const auto size = static_cast<std::uint32_t>(text.size());
  outgoing_.push_back(std::string(reinterpret_cast<const char*>(&size), 4) + text);
  if (outgoing_.size() == 1) {
    write_next();
  }
  return id;
}

void JudgeProcess::end() {
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

void JudgeProcess::stop() {
  end();
  if (waiting_.empty()) {
    return;
  }
  asio::post(io_, [lost = std::exchange(waiting_, {})] {
    for (const auto& [id, done] : lost) {
      done(Failure{"the judge died while it worked on this request", "gone"});
    }
  });
}

Status JudgeProcess::start() {
  Result<TalkingProgram> judge = start_talking(words_);
  if (!judge) {
    return judge.failure();
  }
  pid_ = judge->pid;
  out_.assign(judge->to);
  in_.assign(judge->from);
  read_next();
  return ok();
}

void JudgeProcess::write_next() {
  asio::async_write(out_, asio::buffer(outgoing_.front()),
                    [self = weak_from_this(), life = life_](const boost::system::error_code& error, std::size_t) {
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

void JudgeProcess::read_next() {
  asio::async_read(
      in_, asio::buffer(&size_, 4), [self = weak_from_this(), life = life_](const auto& error, std::size_t) {
        const auto judge = self.lock();
        if (!judge || judge->life_ != life) {
          return;
        }
        if (error) {
          judge->stop();
          return;
        }
        judge->body_.resize(judge->size_);
        asio::async_read(judge->in_, asio::buffer(judge->body_), [self, life](const auto& again, std::size_t) {
          const auto alive = self.lock();
          if (!alive || alive->life_ != life) {
            return;
          }
          if (again) {
            alive->stop();
            return;
          }
          alive->answer();
          alive->read_next();
        });
      });
}

void JudgeProcess::answer() {
  const Json frame = Json::parse(body_, nullptr, false);
  const auto found = frame.is_object() ? waiting_.find(frame.value("id", std::uint64_t{0})) : waiting_.end();
  if (found == waiting_.end()) {
    return;  // forgotten meanwhile
  }
  const Done done = std::move(found->second);
  waiting_.erase(found);
  if (frame.contains("result")) {
    done(frame["result"]);
  } else {
    const Json error = frame.value("error", Json::object());
    done(Failure{error.value("message", "the judge gave no reason"), error.value("code", "host")});
  }
}

}  // namespace khost
