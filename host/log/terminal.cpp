#include "host/log/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace khost {

TerminalOptions inspect_terminal(int fd) {
  TerminalOptions options;
  options.fd = fd;
  const char* term = getenv("TERM");
  bool dumb = !term || std::string(term) == "dumb";
  options.live = isatty(fd) && !dumb;
  options.colour = options.live && !getenv("NO_COLOR");
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.columns = size.ws_col;
  }
  return options;
}

Terminal::~Terminal() {
  erase();
}

void Terminal::line_to(int fd, const std::string& text) {
  std::lock_guard lock(mutex_);
  erase();
  write_all(fd, text + "\n");
  draw();
}

void Terminal::show(std::vector<std::string> lines) {
  std::lock_guard lock(mutex_);
  if (!options_.live) {
    return;
  }
  erase();
  block_ = std::move(lines);
  draw();
}

void Terminal::erase() {
  if (drawn_ == 0) {
    return;
  }
  // The cursor stands behind the last line of the block.
  std::string out = "\r";
  if (drawn_ > 1) {
    out += "\033[" + std::to_string(drawn_ - 1) + "A";
  }
  write_all(options_.fd, out + "\033[J");
  drawn_ = 0;
}

void Terminal::draw() {
  if (!options_.live || block_.empty()) {
    return;
  }
  std::string out;
  for (const auto& text : block_) {
    out += (out.empty() ? "" : "\n") + text.substr(0, static_cast<size_t>(options_.columns - 1));
  }
  write_all(options_.fd, out);
  drawn_ = block_.size();
}

std::shared_ptr<Terminal> process_terminal() {
  static std::shared_ptr<Terminal> terminal = std::make_shared<Terminal>(inspect_terminal(2));
  return terminal;
}

bool write_all(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    done += static_cast<size_t>(n);
  }
  return true;
}

std::string duration_text(double seconds) {
  char text[48];
  if (!std::isfinite(seconds) || seconds < 0) {
    return "?";
  }
  if (seconds < 10) {
    snprintf(text, sizeof text, "%.1f s", seconds);
    return text;
  }
  long whole = std::lround(seconds);
  if (whole < 60) {
    snprintf(text, sizeof text, "%ld s", whole);
  } else if (whole < 3600) {
    snprintf(text, sizeof text, "%ld min %02ld s", whole / 60, whole % 60);
  } else {
    snprintf(text, sizeof text, "%ld h %02ld min", whole / 3600, whole / 60 % 60);
  }
  return text;
}

}  // namespace khost
