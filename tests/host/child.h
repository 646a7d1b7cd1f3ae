// A real process of a test, with both its output streams read into one text.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace khost::tests {

// Started in a process group of its own, killed with it at the latest when the object dies.
class Child {
 public:
  Child(std::vector<std::string> words, const std::map<std::string, std::string>& environment = {},
        const std::string& folder = "")
      : begin_(std::chrono::steady_clock::now()) {
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      dup2(ends[1], 1);
      dup2(ends[1], 2);
      for (const auto& [name, value] : environment) {
        setenv(name.c_str(), value.c_str(), 1);
      }
      if (!folder.empty() && chdir(folder.c_str()) != 0) {
        _exit(126);
      }
      std::vector<char*> argv;
      for (std::string& word : words) {
        argv.push_back(word.data());
      }
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    from_ = ends[0];
  }
  Child(const Child&) = delete;
  ~Child() {
    if (!ended_) {
      ::kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(from_);
  }

  pid_t pid() const { return pid_; }
  const std::string& text() const { return text_; }
  bool has(const std::string& part) const { return text_.find(part) != std::string::npos; }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  void signal(int number) const { ::kill(pid_, number); }

  // Reads until the text holds the part; false when the time is over or the process has closed its output.
  bool until(const std::string& part, double seconds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!has(part)) {
      if (std::chrono::steady_clock::now() > deadline || !read_some(0.1)) {
        return has(part);
      }
    }
    return true;
  }

  // Waits for the end; the exit code, 128 + n after signal n, -1 when the time was over (and it was killed).
  int wait(double seconds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    bool open = true;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        ::kill(-pid_, SIGKILL);
        waitpid(pid_, &status, 0);
        ended_ = true;
        return -1;
      }
      if (open) {
        open = read_some(0.05);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
    ended_ = true;
    while (read_some(0)) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  // False when nothing more will come (or nothing is there, with 0 seconds).
  bool read_some(double seconds) {
    pollfd watched{from_, POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(seconds * 1000)) <= 0) {
      return seconds > 0;
    }
    std::array<char, 65536> block{};
    const ssize_t n = read(from_, block.data(), block.size());
    if (n > 0) {
      text_.append(block.data(), static_cast<size_t>(n));
    }
    return n > 0;
  }

  std::chrono::steady_clock::time_point begin_;
  pid_t pid_ = 0;
  int from_ = -1;
  bool ended_ = false;
  std::string text_;
};

}  // namespace khost::tests
