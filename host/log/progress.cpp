#include "host/log/progress.h"

#include <algorithm>
#include <chrono>

#include "host/log/plain_text.h"

namespace khost {

namespace {

constexpr double kRedraw_s = 0.1;
constexpr double kPlainLine_s = 5;
constexpr int kBarWidth = 20;

std::string number(double value) {
  char text[32];
  snprintf(text, sizeof text, value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : "%.2f", value);
  return text;
}

std::string value_text(const Json& value) {
  if (value.is_string()) {
    return plain_text(value.get<std::string>());
  }
  if (value.is_number_float()) {
    char text[32];
    snprintf(text, sizeof text, "%.4g", value.get<double>());
    return text;
  }
  return plain_text(value.dump());
}

}  // namespace

Progress::Progress(std::shared_ptr<Terminal> terminal, Clock clock)
    : terminal_(std::move(terminal)), clock_(std::move(clock)) {}

Progress::Clock Progress::steady_clock() {
  return [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
}

std::shared_ptr<Bar> Progress::begin(std::string title, std::optional<int64_t> total) {
  auto bar = std::make_shared<Bar>(shared_from_this(), std::move(title), total);
  std::lock_guard lock(mutex_);
  bar->begun_s_ = bar->printed_s_ = clock_();
  bars_.push_back(bar.get());
  changed(*bar);
  return bar;
}

// Called with the mutex held.
void Progress::changed(Bar& bar) {
  double now = clock_();
  if (!terminal_->options().live) {
    if (now - bar.printed_s_ >= kPlainLine_s) {
      bar.printed_s_ = now;
      terminal_->line(bar.plain_line(now));
    }
    return;
  }
  if (now - drawn_s_ < kRedraw_s) {
    return;
  }
  drawn_s_ = now;
  std::vector<std::string> lines;
  for (const Bar* each : bars_) {
    lines.push_back(each->live_line(now));
  }
  terminal_->show(std::move(lines));
}

// Called with the mutex held.
void Progress::finished(Bar& bar, const std::string& line) {
  bars_.erase(std::find(bars_.begin(), bars_.end(), &bar));
  std::vector<std::string> lines;
  for (const Bar* each : bars_) {
    lines.push_back(each->live_line(clock_()));
  }
  terminal_->show(std::move(lines));
  if (!line.empty()) {
    terminal_->line(line);
  }
}

Bar::Bar(std::shared_ptr<Progress> progress, std::string title, std::optional<int64_t> total)
    : progress_(std::move(progress)), title_(plain_text(title)), total_(total) {}

Bar::~Bar() {
  finish();
}

void Bar::add(int64_t n, const Json& fields) {
  std::lock_guard lock(progress_->mutex_);
  if (finished_) {
    return;
  }
  done_ += n;
  if (fields.is_object()) {
    fields_.update(fields);
  }
  progress_->changed(*this);
}

void Bar::note(std::string text) {
  std::lock_guard lock(progress_->mutex_);
  if (!finished_) {
    note_ = std::move(text);
    progress_->changed(*this);
  }
}

void Bar::finish(const std::string& text) {
  std::lock_guard lock(progress_->mutex_);
  if (finished_) {
    return;
  }
  finished_ = true;
  double seconds = progress_->clock_() - begun_s_;
  std::string line = title_ + ": " + std::to_string(done_);
  if (total_ && *total_ != done_) {
    line += "/" + std::to_string(*total_);
  }
  line += " in " + duration_text(seconds);
  if (done_ > 0 && seconds > 0.5) {
    line += " (" + number(static_cast<double>(done_) / seconds) + "/s)";
  }
  for (const auto& [key, value] : fields_.items()) {
    line += ", " + key + " " + value_text(value);
  }
  progress_->finished(*this, line + (text.empty() ? "" : ", " + text));
}

std::string Bar::figures(double now) const {
  double seconds = now - begun_s_;
  double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  std::string out = std::to_string(done_);
  if (total_) {
    out += "/" + std::to_string(*total_);
  }
  if (done_ > 0) {
    // Slow work reads better as seconds a piece.
    out += rate >= 0.1 ? ", " + number(rate) + "/s" : ", " + duration_text(1 / rate) + " each";
    if (total_ && *total_ > done_) {
      out += ", " + duration_text(static_cast<double>(*total_ - done_) / rate) + " left";
    }
  } else if (seconds >= 1) {
    out += ", " + duration_text(seconds) + " so far";
  }
  for (const auto& [key, value] : fields_.items()) {
    out += ", " + key + " " + value_text(value);
  }
  return out + (note_.empty() ? "" : ", " + note_);
}

std::string Bar::live_line(double now) const {
  std::string bar;
  if (total_ && *total_ > 0) {
    auto filled = std::clamp<int64_t>(done_ * kBarWidth / *total_, 0, kBarWidth);
    bar = "[" + std::string(static_cast<size_t>(filled), '#') +
          std::string(static_cast<size_t>(kBarWidth - filled), '.') + "] ";
  }
  return title_ + " " + bar + figures(now);
}

std::shared_ptr<Progress> process_progress() {
  static std::shared_ptr<Progress> progress = std::make_shared<Progress>(process_terminal());
  return progress;
}

}  // namespace khost
