#include "host/config/toml.h"

// toml++ 3.3 asserts that a table's header begins with a key, and reports right behind it when one does not.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <fstream>
#include <sstream>

namespace khost {

namespace {

Json convert(const toml::node& node, const std::string& prefix, std::map<std::string, int>* lines) {
  if (const auto* table = node.as_table()) {
    Json out = Json::object();
    for (const auto& [key, child] : *table) {
      std::string name = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
      if (lines) {
        // The key's own place: a dotted or implicit table has none of its own.
        (*lines)[name] = static_cast<int>(key.source().begin.line);
      }
      out[std::string(key.str())] = convert(child, name, lines);
    }
    return out;
  }
  if (const auto* array = node.as_array()) {
    Json out = Json::array();
    for (const auto& child : *array) {
      out.push_back(convert(child, prefix, nullptr));
    }
    return out;
  }
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* number = node.as_integer()) {
    return number->get();
  }
  if (const auto* number = node.as_floating_point()) {
    return number->get();
  }
  if (const auto* flag = node.as_boolean()) {
    return flag->get();
  }
  std::ostringstream text;
  if (const auto* date = node.as_date()) {
    text << date->get();
  } else if (const auto* time = node.as_time()) {
    text << time->get();
  } else if (const auto* both = node.as_date_time()) {
    text << both->get();
  }
  return text.str();
}

}  // namespace

Result<TomlDocument> parse_toml(const std::string& text, const std::string& name) {
  try {
    toml::table table = toml::parse(text, name);
    TomlDocument document;
    document.value = convert(table, "", &document.lines);
    return document;
  } catch (const toml::parse_error& error) {
    auto where = error.source().begin;
    return Failure{name + ":" + std::to_string(where.line) + ": " + std::string(error.description()), "bad_input"};
  }
}

Result<TomlDocument> read_toml(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Failure{"cannot read '" + path + "'", "bad_input"};
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse_toml(text.str(), path);
}

Json parse_toml_value(const std::string& text) {
  try {
    toml::table table = toml::parse("v = " + text);
    // "1\nw = 2" would be a document of its own.
    if (table.size() == 1) {
      return convert(*table.get("v"), "", nullptr);
    }
  } catch (const toml::parse_error&) {
    // Not TOML: a bare word such as `runs/today`.
  }
  return text;
}

std::string type_word(const Json& value) {
  switch (value.type()) {
    case Json::value_t::string:
      return "text";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return "a whole number";
    case Json::value_t::number_float:
      return "a number";
    case Json::value_t::boolean:
      return "a flag (true or false)";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::object:
      return "a table";
    default:
      return "nothing";
  }
}

}  // namespace khost
