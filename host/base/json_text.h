// JSON that somebody else wrote: a request, an answer of a server, a model's folder, a line of an untrusted process.
// What such a text can cost is bounded before it is parsed.
#pragma once

#include <cstddef>
#include <string_view>

#include "host/base/json_fwd.h"
#include "host/base/result.h"

namespace khost {

// Values that are nested deeper exhaust the stack where they are copied or become tables.
inline constexpr int kMostNesting = 200;
inline constexpr std::size_t kAnyParts = static_cast<std::size_t>(-1);

// Whether the text opens at most `depth` brackets at once. Brackets inside of strings do not count.
bool nested_at_most(std::string_view text, int depth);

// The value of a text that is nested at most kMostNesting levels deep and has at most `most_parts` lists, objects and
// fields of objects together. Each of them takes a hundred bytes and more, whatever few bytes of text it has; elements
// of lists do not count, since a list of numbers takes little more than its text. Code bad_input.
Result<Json> parse_json(std::string_view text, std::size_t most_parts = kAnyParts);

}  // namespace khost
