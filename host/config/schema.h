// Fields that a recipe declares for its configuration: kind, limits, default, help. Plain data, any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost {

struct Field {
  enum class Kind { number, integer, text, choice, flag, list, group };
  Kind kind = Kind::text;
  std::optional<Json> standard;  // what holds when no file sets the key; none: the key must be set
  std::optional<double> min, max;
  std::vector<std::string> choices;
  std::map<std::string, Field> fields;  // of a group
  std::string help;
};

using Schema = std::map<std::string, Field>;

// {name = {kind, default?, min?, max?, choices?, fields?, help?}}: the form in which scripts declare them.
Result<Schema> parse_schema(const Json& description);

// Empty when the value is legal, otherwise what would be: "must be at least 1".
std::string check_field(const Field& field, const Json& value);

}  // namespace khost
