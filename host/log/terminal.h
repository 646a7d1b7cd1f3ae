// The terminal as log lines and progress bars share it: lines scroll, a block of live lines stays below them.
// Any thread; the mutex keeps lines and the block from mixing.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace khost {

struct TerminalOptions {
  int fd = 2;
  bool live = false;  // a terminal that understands cursor movement: the live block is drawn
  bool colour = false;
  int columns = 80;
};

// What `fd` is: NO_COLOR and TERM=dumb are respected.
TerminalOptions inspect_terminal(int fd);

class Terminal {
 public:
  explicit Terminal(TerminalOptions options) : options_(options) {}
  Terminal(const Terminal&) = delete;
  ~Terminal();

  const TerminalOptions& options() const { return options_; }
  // A line that stays. `fd` is another descriptor that shows on the same screen, usually standard output.
  void line(const std::string& text) { line_to(options_.fd, text); }
  void line_to(int fd, const std::string& text);
  // Replaces the live block. Lines are cut at the width of the terminal. Nothing is drawn when not live.
  void show(std::vector<std::string> lines);

 private:
  void erase();
  void draw();

  TerminalOptions options_;
  std::mutex mutex_;
  std::vector<std::string> block_;
  size_t drawn_ = 0;  // lines of the block on the screen
};

// The terminal of this process's standard error.
std::shared_ptr<Terminal> process_terminal();

// Writes all of it, whatever signals and short writes happen; false when the descriptor is broken.
bool write_all(int fd, const std::string& text);

// "0.4 s", "42 s", "3 min 05 s", "2 h 10 min".
std::string duration_text(double seconds);

}  // namespace khost
