#include "host/log/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "host/config/nearest.h"
#include "host/log/plain_text.h"

namespace khost {

namespace {

const char* const kLevels[] = {"debug", "info", "warn", "error"};
constexpr size_t kFieldBytes = 240;  // of one field on the terminal; the file has all of it

// Two blanks follow each line end, since a stranger's text could hold what looks like a line of this log.
std::string indented(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (const char one : text) {
    out += one;
    if (one == '\n') {
      out += "  ";
    }
  }
  return out;
}

std::string field_text(const Json& value) {
  if (value.is_number_float()) {
    char text[32];
    snprintf(text, sizeof text, "%.6g", value.get<double>());
    return text;
  }
  std::string text = value.is_string() ? value.get<std::string>() : dump_json(value);
  bool bare = value.is_string() && !text.empty() && text.find_first_of(" \t\n\"=") == std::string::npos;
  // Several lines (a traceback, a compiler's message) are read more easily as they are.
  bool several_lines = value.is_string() && text.find('\n') != std::string::npos;
  if (several_lines) {
    return "\n" + text;
  }
  if (text.size() > kFieldBytes) {
    text = text.substr(0, kFieldBytes) + "…";
  }
  return bare || !value.is_string() ? text : dump_json(Json(text));
}

}  // namespace

std::string level_name(Level level) {
  return kLevels[static_cast<int>(level)];
}

Result<Level> parse_level(const std::string& name) {
  for (int i = 0; i < 4; ++i) {
    if (name == kLevels[i]) {
      return static_cast<Level>(i);
    }
  }
  return Failure{
      "unknown log level '" + name + "'; did you mean '" + nearest(name, {"debug", "info", "warn", "error"}) + "'?",
      "bad_input"};
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string format_line(double time_s, Level level, const std::string& event, const Json& fields, bool colour) {
  static const char* const colours[] = {"\033[2m", "\033[32m", "\033[33m", "\033[31m"};
  time_t whole = static_cast<time_t>(time_s);
  tm parts{};
  gmtime_r(&whole, &parts);
  char clock[16];
  strftime(clock, sizeof clock, "%H:%M:%S", &parts);
  std::string name = level_name(level);
  std::string line = std::string(clock) + " ";
  line += colour ? colours[static_cast<int>(level)] + name + "\033[0m" : name;
  std::string text = event;
  bool first = true;
  for (const auto& [key, value] : fields.items()) {
    text += (first ? "  " : " ") + key + "=" + field_text(value);
    first = false;
  }
  return line + std::string(6 - name.size(), ' ') + indented(plain_text(text));
}

Log::Clock Log::wall_clock() {
  return [] { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); };
}

Log::Log(std::shared_ptr<Terminal> terminal, Clock clock) : terminal_(std::move(terminal)), clock_(std::move(clock)) {}

Log::~Log() {
  if (file_ >= 0) {
    close(file_);
  }
}

Status Log::open(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string path = folder + "/log.jsonl";
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) {
    return Failure{"cannot open '" + path + "': " + strerror(errno), "io"};
  }
  auto events = EventWriter::create(folder + "/tensorboard", clock_());
  if (!events) {
    close(file);
    return events.failure();
  }
  std::lock_guard lock(mutex_);
  if (file_ >= 0) {
    close(file_);
  }
  file_ = file;
  events_ = std::move(events).value();
  return ok();
}

void Log::set_level(Level level) {
  std::lock_guard lock(mutex_);
  level_ = level;
}

void Log::write(Level level, const std::string& event, const Json& fields) {
  double now = clock_();
  std::lock_guard lock(mutex_);
  if (file_ >= 0) {
    char time[48];
    snprintf(time, sizeof time, "%.3f", now);
    std::string line =
        std::string("{\"time_s\":") + time + ",\"level\":\"" + level_name(level) + "\",\"event\":" + dump_json(event);
    if (fields.is_object() && !fields.empty()) {
      line += "," + dump_json(fields).substr(1);
    } else {
      line += "}";
    }
    // One write a line: O_APPEND keeps lines of several processes whole.
    write_all(file_, line + "\n");
  }
  if (level >= level_) {
    terminal_->line(format_line(now, level, event, fields, terminal_->options().colour));
  }
}

void Log::metric(const std::string& name, double value, int64_t step) {
  double now = clock_();
  std::lock_guard lock(mutex_);
  if (events_) {
    events_->scalar(name, value, step, now);
  }
}

Log& process_log() {
  static Log log(process_terminal());
  return log;
}

}  // namespace khost
