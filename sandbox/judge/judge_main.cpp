// khost-judge: the trusted measuring process. Frames of requests on stdin, frames of answers on stdout, log on stderr.
//
//   khost-judge --python PYTHON --root DIR --lease FILE [--jobs N]
//
//   {"id": 7, "kind": "evaluate", …}  ->  {"id": 7, "result": {…}} or {"id": 7, "error": {"message", "code"}}
#include <sys/prctl.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "sandbox/judge/frame.h"
#include "sandbox/judge/judge.h"

namespace {

using khost::Failure;
using khost::Json;

Json handle(khost::judge::Judge& judge, const Json& request) {
  Json answer = {{"id", request.value("id", Json())}};
  try {
    auto result = judge.handle(request);
    if (result) {
      answer["result"] = std::move(*result);
    } else {
      answer["error"] = {{"message", result.failure().message}, {"code", result.failure().code}};
    }
  } catch (const std::exception& error) {
    answer["error"] = {{"message", error.what()}, {"code", "host"}};
  }
  return answer;
}

int run(const std::map<std::string, std::string>& options) {
  khost::judge::Judge judge({options.at("--python"), options.at("--root"), options.at("--lease")});
  boost::asio::thread_pool pool(static_cast<std::size_t>(std::stoi(options.at("--jobs"))));
  std::mutex output;
  while (true) {
    auto request = khost::judge::receive_frame(STDIN_FILENO);
    if (!request) {
      break;
    }
    boost::asio::post(pool, [&, request = std::move(*request)] {
      const Json answer = handle(judge, request);
      const std::lock_guard lock(output);
      if (!khost::judge::send_frame(STDOUT_FILENO, answer)) {
        std::_Exit(1);
      }
    });
  }
  // Nobody is left to read what is still being worked on; jails die with this process.
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A signal to the terminal's group is the host's to answer; it closes our input when it is done.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  std::map<std::string, std::string> options = {{"--jobs", "2"}};
  for (int i = 1; i + 1 < argc; i += 2) {
    options[argv[i]] = argv[i + 1];
  }
  for (const char* name : {"--python", "--root", "--lease"}) {
    if (options.count(name) == 0) {
      std::fprintf(stderr, "khost-judge: %s is missing\n", name);
      return 2;
    }
  }
  return run(options);
}
