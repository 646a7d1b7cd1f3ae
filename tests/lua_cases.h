// The bridge from doctest to Lua specs, and the way a test says that it cannot run here.
#pragma once

#include <doctest/doctest.h>

#include <string>

namespace khost::tests {

// Registers a doctest case for each function of each tests/lua/*_test.lua. Call before the context runs.
void register_lua_cases();

// To be told of each case that begins: it says which Lua function the next one runs.
void begin_case(const doctest::TestCaseData& data);

// Marks the running case as skipped and prints why. The case returns after it.
void skip(const std::string& reason);
bool take_skip();  // whether the case that just ended was skipped

}  // namespace khost::tests
