// Lua face of host/log/log.h: events, loggers with fields, metrics.
#include "host/log/log.h"

#include <cstdio>

#include "host/log/plain_text.h"
#include "host/lua/bind.h"
#include "host/modules/modules.h"

namespace khost::lua {

namespace {

struct Logger {
  Json fields;
};
constexpr const char* class_name(Tag<Logger>) {
  return "Logger";
}

struct LogOptions {
  std::optional<std::string> folder;
  std::optional<std::string> level;
};
constexpr auto fields(Tag<LogOptions>) {
  return std::tuple(field("folder", &LogOptions::folder), field("level", &LogOptions::level));
}

Json named(Json values) {
  if (values.is_null()) {
    return Json::object();
  }
  if (!values.is_object()) {
    throw ArgError("argument 2: fields must have names");
  }
  return values;
}

template <Level level>
void event(std::string name, Json values) {
  process_log().write(level, name, named(std::move(values)));
}

template <Level level>
void logger_event(std::shared_ptr<Logger> logger, std::string name, Json values) {
  Json all = logger->fields;
  all.update(named(std::move(values)));
  process_log().write(level, name, all);
}

std::shared_ptr<Logger> with(Json values) {
  return std::make_shared<Logger>(Logger{named(std::move(values))});
}

Status open(LogOptions options) {
  if (options.level) {
    auto level = parse_level(*options.level);
    if (!level) {
      throw ArgError(level.failure().message);
    }
    process_log().set_level(*level);
  }
  return options.folder ? process_log().open(*options.folder) : ok();
}

void metric(std::string name, double value, int64_t step) {
  process_log().metric(name, value, step);
}

void print(std::string text) {
  fflush(stdout);
  process_terminal()->line_to(1, plain_text(text));
}

}  // namespace

}  // namespace khost::lua

namespace khost::modules {

void open_log(lua_State* L) {
  using namespace lua;
  add_class<Logger>(L, {def<logger_event<Level::debug>>("debug"), def<logger_event<Level::info>>("info"),
                        def<logger_event<Level::warn>>("warn"), def<logger_event<Level::error>>("error")});
  lua_newtable(L);
  add(L, {def<open>("open"), def<event<Level::debug>>("debug"), def<event<Level::info>>("info"),
          def<event<Level::warn>>("warn"), def<event<Level::error>>("error"), def<with>("with"), def<metric>("metric"),
          def<print>("print")});
}

}  // namespace khost::modules
