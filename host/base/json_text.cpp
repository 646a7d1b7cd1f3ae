#include "host/base/json_text.h"

#include <algorithm>
#include <string>

#include "host/base/json.h"

namespace khost {
namespace {

constexpr std::size_t kShownBytes = 80;

struct Extent {
  int depth = 0;          // brackets that are open at once, at most
  std::size_t parts = 0;  // lists, objects and fields
};

// Reads on until the depth is passed: what comes then is refused anyway.
Extent extent_of(std::string_view text, int most_depth) {
  Extent extent;
  int open = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size() && extent.depth <= most_depth; i++) {
    const char c = text[i];
    if (quoted) {
      i += c == '\\' ? 1 : 0;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      extent.depth = std::max(extent.depth, ++open);
      extent.parts++;
    } else if (c == ']' || c == '}') {
      open--;
    } else if (c == ':') {
      extent.parts++;
    }
  }
  return extent;
}

}  // namespace

bool nested_at_most(std::string_view text, int depth) {
  return extent_of(text, depth).depth <= depth;
}

Result<Json> parse_json(std::string_view text, std::size_t most_parts) {
  const Extent extent = extent_of(text, kMostNesting);
  if (extent.depth > kMostNesting) {
    return Failure{"JSON is nested deeper than " + std::to_string(kMostNesting) + " levels", "bad_input"};
  }
  if (extent.parts > most_parts) {
    return Failure{"JSON has more than " + std::to_string(most_parts) + " lists, objects and fields", "bad_input"};
  }
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return Failure{"not valid JSON: " + std::string(text.substr(0, kShownBytes)), "bad_input"};
  }
  return value;
}

}  // namespace khost
