// A khost-judge process: its two pipes and who waits for which answer. Lives on the event loop's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/readable_pipe.hpp>
#include <boost/asio/writable_pipe.hpp>
#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost {

// Many requests may be in flight. A process that died is started again by the next request; what was in flight is
// answered with the failure code "gone".
class JudgeProcess : public std::enable_shared_from_this<JudgeProcess> {
 public:
  using Done = std::function<void(Result<Json>)>;

  // `words`: the program and its arguments.
  JudgeProcess(boost::asio::io_context& io, std::vector<std::string> words);
  JudgeProcess(const JudgeProcess&) = delete;
  JudgeProcess& operator=(const JudgeProcess&) = delete;
  ~JudgeProcess();

  // Sends a request, with the number that is given back as its "id", and calls `done` once, never before this returns.
  // Fails when the program cannot be started; then `done` is not called.
  Result<std::uint64_t> request(Json body, Done done);
  // Nobody waits for this answer any more.
  void forget(std::uint64_t id) { waiting_.erase(id); }
  // Ends the process and its jails at once. Who waits is told, from the loop, that the judge is gone.
  void stop();

 private:
  Status start();
  void write_next();
  void read_next();
  void answer();
  void end();

  boost::asio::io_context& io_;
  std::vector<std::string> words_;
  pid_t pid_ = 0;
  // Counts processes. What was begun with one completes after its end, perhaps when the next one has started, whose
  // requests it must not touch.
  std::uint64_t life_ = 0;
  boost::asio::writable_pipe out_;
  boost::asio::readable_pipe in_;
  std::deque<std::string> outgoing_;
  std::map<std::uint64_t, Done> waiting_;
  std::uint64_t last_id_ = 0;
  std::uint32_t size_ = 0;
  std::string body_;
};

}  // namespace khost
