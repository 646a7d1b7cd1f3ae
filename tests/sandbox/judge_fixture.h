// One khost-judge for all cases of a test program, with a cache and a lease of its own, and the fixtures of
// tests/data/kernels.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "sandbox/jail/jail.h"
#include "tests/sandbox/abi_fixture.h"

extern char** environ;

namespace khost::sandbox::test {

// A child process that speaks the judge's frames. Requests are answered in any order.
class JudgeProcess {
 public:
  JudgeProcess() {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
      throw std::runtime_error("pipe2");
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    const std::string program = self_directory() + "/khost-judge";
    std::vector<std::string> words = {
        program, "--python", python(), "--root", root(), "--lease", shared_cache() + "/lease", "--jobs", "2"};
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    std::vector<std::string> settings = {"XDG_CACHE_HOME=" + shared_cache(), "KHOST_ROOT=" + root()};
    std::vector<char*> environment;
    for (std::string& setting : settings) {
      environment.push_back(setting.data());
    }
    for (char** entry = environ; *entry != nullptr; entry++) {
      environment.push_back(*entry);  // what stands first counts
    }
    environment.push_back(nullptr);
    const int error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    to_ = to[1];
    from_ = from[0];
    if (error != 0) {
      throw std::runtime_error("start " + program);
    }
  }
  JudgeProcess(const JudgeProcess&) = delete;
  JudgeProcess& operator=(const JudgeProcess&) = delete;
  ~JudgeProcess() {
    close(to_);  // it leaves when nobody asks any more
    close(from_);
    waitpid(pid_, nullptr, 0);
  }

  int send(const std::string& kind, Json body) {
    body["id"] = ++last_id_;
    body["kind"] = kind;
    const std::string text = body.dump(-1, ' ', false, Json::error_handler_t::replace);  // files may hold any bytes
    const auto size = static_cast<std::uint32_t>(text.size());
    put(&size, 4);
    put(text.data(), text.size());
    return last_id_;
  }

  // The result, or {"error": …}.
  Json wait(int id) {
    while (answers_.count(id) == 0) {
      std::uint32_t size = 0;
      get(&size, 4);
      std::string text(size, '\0');
      get(text.data(), size);
      Json answer = Json::parse(text);
      answers_[answer.at("id").get<int>()] = answer.contains("result") ? answer["result"] : answer;
    }
    return answers_[id];
  }

  Json ask(const std::string& kind, const Json& body) { return wait(send(kind, body)); }

  static const char* python() { return getenv("KHOST_PYTHON"); }
  static std::string root() {
    const char* root = getenv("KHOST_ROOT");
    return root != nullptr ? root : KHOST_SOURCE_DIR;
  }

  static JudgeProcess& shared() {
    shared_cache();  // outlives the process
    static JudgeProcess process;
    return process;
  }

 private:
  void put(const void* data, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes;) {
      const ssize_t n = write(to_, static_cast<const char*>(data) + at, bytes - at);
      if (n <= 0) {
        throw std::runtime_error("the judge is gone");
      }
      at += static_cast<std::size_t>(n);
    }
  }
  void get(void* data, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes;) {
      const ssize_t n = read(from_, static_cast<char*>(data) + at, bytes - at);
      if (n <= 0) {
        throw std::runtime_error("the judge is gone");
      }
      at += static_cast<std::size_t>(n);
    }
  }

  pid_t pid_ = 0;
  int to_ = -1, from_ = -1, last_id_ = 0;
  std::map<int, Json> answers_;
};

// {"task", "files"} of a fixture, for example "cpu/good/row_softmax".
inline Json fixture(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(JudgeProcess::root()) / "tests/data/kernels" / name;
  Json files = Json::object();
  for (const auto& [path, text] : candidate_files(folder)) {
    if (path.rfind("kernels/", 0) == 0 || path == "model_new.py") {
      files[path] = text;
    }
  }
  return {{"task", {{"source", read_text(folder / "model.py")}, {"name", name}}}, {"files", files}};
}

}  // namespace khost::sandbox::test
