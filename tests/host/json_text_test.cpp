#include "host/base/json_text.h"

#include <doctest/doctest.h>

#include <string>

#include "host/base/json.h"

namespace khost {
namespace {

TEST_CASE("a text that opens too many brackets at once is known before it is parsed") {
  CHECK(nested_at_most(R"({"a": [1, {"b": "[[[[\"[["}], "c": [[2]]})", 3));
  CHECK_FALSE(nested_at_most(R"({"a": [1, {"b": [2]}]})", 3));
  CHECK(nested_at_most("]]]][[[", 3));
  CHECK_FALSE(nested_at_most(std::string(100000, '['), kMostNesting));
  CHECK(parse_json(std::string(100000, '[')).failure().message.find("deeper than 200") != std::string::npos);
}

TEST_CASE("lists, objects and fields of a text are counted where a most is given") {
  const std::string text = R"({"a": [[], {}, "[]:{}"], "b": 1})";  // two objects, two lists, two fields
  CHECK(parse_json(text, 6));
  const Result<Json> refused = parse_json(text, 5);
  REQUIRE_FALSE(refused);
  CHECK(refused.failure().message.find("more than 5 lists, objects and fields") != std::string::npos);
  CHECK(parse_json("[" + std::string(2000, '1') + ",1,2,3]", 1));  // elements do not count
}

TEST_CASE("what is no JSON is told with its beginning alone") {
  const Result<Json> refused = parse_json("{" + std::string(1000, 'x'));
  REQUIRE_FALSE(refused);
  CHECK(refused.failure().code == "bad_input");
  CHECK(refused.failure().message.size() < 120);
  CHECK_FALSE(parse_json(std::string("[1e400]")));
  CHECK_FALSE(parse_json(std::string("[\"\xff\"]")));
}

}  // namespace
}  // namespace khost
