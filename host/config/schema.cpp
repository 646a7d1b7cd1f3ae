#include "host/config/schema.h"

#include <algorithm>

#include "host/config/nearest.h"
#include "host/config/toml.h"

namespace khost {

namespace {

const std::map<std::string, Field::Kind> kKinds = {{"number", Field::Kind::number}, {"integer", Field::Kind::integer},
                                                   {"text", Field::Kind::text},     {"choice", Field::Kind::choice},
                                                   {"flag", Field::Kind::flag},     {"list", Field::Kind::list},
                                                   {"group", Field::Kind::group}};

Failure wrong(const std::string& name, const std::string& what) {
  return Failure{"schema field '" + name + "' " + what, "bad_input"};
}

std::string number_text(double value) {
  Json number = value;
  if (value == static_cast<int64_t>(value)) {
    number = static_cast<int64_t>(value);
  }
  return number.dump();
}

Result<Field> parse_field(const std::string& name, const Json& description) {
  static const std::vector<std::string> keys = {"kind", "default", "min", "max", "choices", "fields", "help"};
  if (!description.is_object()) {
    return wrong(name, "must be a table, got " + type_word(description));
  }
  for (const auto& [key, value] : description.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return wrong(name, "has the unknown key '" + key + "'; did you mean '" + nearest(key, keys) + "'?");
    }
  }
  std::string kind = description.value("kind", "");
  auto found = kKinds.find(kind);
  if (found == kKinds.end()) {
    return wrong(name, "has the unknown kind '" + kind + "'");
  }
  Field field;
  field.kind = found->second;
  field.help = description.value("help", "");
  if (description.contains("min")) {
    field.min = description["min"].get<double>();
  }
  if (description.contains("max")) {
    field.max = description["max"].get<double>();
  }
  if (description.contains("choices")) {
    field.choices = description["choices"].get<std::vector<std::string>>();
  }
  if (field.kind == Field::Kind::choice && field.choices.empty()) {
    return wrong(name, "is a choice without choices");
  }
  if (field.kind == Field::Kind::group) {
    auto fields = parse_schema(description.value("fields", Json::object()));
    if (!fields) {
      return fields.failure();
    }
    field.fields = std::move(fields).value();
  }
  if (description.contains("default")) {
    Json standard = description["default"];
    if (field.kind == Field::Kind::list && standard.is_object() && standard.empty()) {
      standard = Json::array();  // Lua's {} is both
    }
    std::string complaint = check_field(field, standard);
    if (!complaint.empty()) {
      return wrong(name, "has a default that " + complaint);
    }
    field.standard = standard;
  }
  return field;
}

}  // namespace

Result<Schema> parse_schema(const Json& description) {
  Schema schema;
  if (!description.is_object() && !description.empty()) {
    return Failure{"a schema must be a table of fields", "bad_input"};
  }
  for (const auto& [name, value] : description.items()) {
    auto field = parse_field(name, value);
    if (!field) {
      return field.failure();
    }
    schema[name] = std::move(field).value();
  }
  return schema;
}

std::string check_field(const Field& field, const Json& value) {
  bool fits = true;
  switch (field.kind) {
    case Field::Kind::number:
      fits = value.is_number();
      break;
    case Field::Kind::integer:
      fits = value.is_number_integer();
      break;
    case Field::Kind::text:
    case Field::Kind::choice:
      fits = value.is_string();
      break;
    case Field::Kind::flag:
      fits = value.is_boolean();
      break;
    case Field::Kind::list:
      fits = value.is_array();
      break;
    case Field::Kind::group:
      fits = value.is_object();
      break;
  }
  if (!fits) {
    static const std::map<Field::Kind, std::string> words = {
        {Field::Kind::number, "a number"}, {Field::Kind::integer, "a whole number"},      {Field::Kind::text, "text"},
        {Field::Kind::choice, "text"},     {Field::Kind::flag, "a flag (true or false)"}, {Field::Kind::list, "a list"},
        {Field::Kind::group, "a table"}};
    return "must be " + words.at(field.kind) + ", got " + type_word(value) + " " + value.dump();
  }
  if (field.kind == Field::Kind::choice &&
      std::find(field.choices.begin(), field.choices.end(), value.get<std::string>()) == field.choices.end()) {
    std::string legal;
    for (const auto& choice : field.choices) {
      legal += (legal.empty() ? "" : ", ") + choice;
    }
    return "must be one of " + legal + ", got " + value.dump();
  }
  if (field.min && value.is_number() && value.get<double>() < *field.min) {
    return "must be at least " + number_text(*field.min) + ", got " + value.dump();
  }
  if (field.max && value.is_number() && value.get<double>() > *field.max) {
    return "must be at most " + number_text(*field.max) + ", got " + value.dump();
  }
  return "";
}

}  // namespace khost
