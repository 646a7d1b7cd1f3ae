// Structured log: an event is a short stable word with fields. It goes to the terminal as one line for people and,
// once a folder is known, to <folder>/log.jsonl as one line for programs; metrics go to TensorBoard event files.
// Any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "host/base/json.h"
#include "host/base/result.h"
#include "host/log/tensorboard.h"
#include "host/log/terminal.h"

namespace khost {

enum class Level { debug, info, warn, error };

std::string level_name(Level level);
Result<Level> parse_level(const std::string& name);

class Log {
 public:
  using Clock = std::function<double()>;  // seconds since 1970

  explicit Log(std::shared_ptr<Terminal> terminal, Clock clock = wall_clock());
  Log(const Log&) = delete;
  ~Log();

  // Appends to <folder>/log.jsonl and writes event files to <folder>/tensorboard from now on.
  Status open(const std::string& folder);
  // The least level shown on the terminal; the file gets all of them.
  void set_level(Level level);

  void write(Level level, const std::string& event, const Json& fields = Json::object());
  void debug(const std::string& event, const Json& fields = Json::object()) { write(Level::debug, event, fields); }
  void info(const std::string& event, const Json& fields = Json::object()) { write(Level::info, event, fields); }
  void warn(const std::string& event, const Json& fields = Json::object()) { write(Level::warn, event, fields); }
  void error(const std::string& event, const Json& fields = Json::object()) { write(Level::error, event, fields); }

  // Nothing happens before `open`.
  void metric(const std::string& name, double value, int64_t step);

  const std::shared_ptr<Terminal>& terminal() const { return terminal_; }
  static Clock wall_clock();

 private:
  std::shared_ptr<Terminal> terminal_;
  Clock clock_;
  std::mutex mutex_;
  Level level_ = Level::info;
  int file_ = -1;
  std::unique_ptr<EventWriter> events_;
};

// The log of this process.
Log& process_log();

// "03:15:22 warn  judge_lost  attempt=2 reason=\"gone away\"": the line for people, in UTC.
std::string format_line(double time_s, Level level, const std::string& event, const Json& fields, bool colour);

// JSON on one line; bytes that are not UTF-8 become replacement characters instead of an exception.
std::string dump_json(const Json& value);

}  // namespace khost
