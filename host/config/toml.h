// TOML text as plain data, with the line of every key. The only file that includes toml++ is toml.cpp.
#pragma once

#include <map>
#include <string>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost {

struct TomlDocument {
  Json value = Json::object();
  std::map<std::string, int> lines;  // dotted name of every table and value, outside arrays -> line
};

// `name` stands for the text in messages ("smoke.toml:3: …"). Dates become text. Failures have code "bad_input".
Result<TomlDocument> parse_toml(const std::string& text, const std::string& name);
Result<TomlDocument> read_toml(const std::string& path);

// One TOML value as it would stand behind `=`; text that is none is taken as a string.
Json parse_toml_value(const std::string& text);

// "text", "whole number", "number", "flag", "list", "table": what messages call the type of a value.
std::string type_word(const Json& value);

}  // namespace khost
