// Progress for people: live bars with rate and time left on a terminal, a plain line about every five seconds
// elsewhere. Bars may be used from any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/log/terminal.h"

namespace khost {

class Bar;

class Progress : public std::enable_shared_from_this<Progress> {
 public:
  using Clock = std::function<double()>;  // monotonic seconds

  explicit Progress(std::shared_ptr<Terminal> terminal, Clock clock = steady_clock());
  std::shared_ptr<Bar> begin(std::string title, std::optional<int64_t> total);
  static Clock steady_clock();

 private:
  friend class Bar;
  void changed(Bar& bar);
  void finished(Bar& bar, const std::string& line);

  std::shared_ptr<Terminal> terminal_;
  Clock clock_;
  std::mutex mutex_;
  std::vector<Bar*> bars_;  // alive and unfinished, oldest first
  double drawn_s_ = -1e9;   // when the live block was drawn
};

class Bar {
 public:
  Bar(std::shared_ptr<Progress> progress, std::string title, std::optional<int64_t> total);
  Bar(const Bar&) = delete;
  ~Bar();

  void add(int64_t n, const Json& fields = Json::object());
  void note(std::string text);
  void finish(const std::string& text = "");

 private:
  friend class Progress;
  std::string figures(double now) const;
  std::string live_line(double now) const;
  std::string plain_line(double now) const { return title_ + ": " + figures(now); }

  std::shared_ptr<Progress> progress_;
  std::string title_;
  std::optional<int64_t> total_;
  int64_t done_ = 0;
  Json fields_ = Json::object();
  std::string note_;
  double begun_s_ = 0;
  double printed_s_ = 0;  // when a plain line was printed
  bool finished_ = false;
};

// The bars of this process.
std::shared_ptr<Progress> process_progress();

}  // namespace khost
