// Which tests a command line chooses: folders or files, and labels.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

namespace khost::tests {

// A label of a test is its folder (host, lua, …) or a word of its file's name: tests/sandbox/cuda_judge_test.cpp has
// sandbox, cuda and judge.
bool has_label(const std::string& file, const std::string& label);

// Whether a file is the place, which is a file or a folder from the root of the repository, or stands below it.
bool stands_in(const std::string& file, const std::string& place);

// Leaves only the registered tests that one of the words chooses: a word with a slash is a place, another one a label.
// Where both are given a test must have one of each. Without words all stay. Call before the context runs.
void keep_chosen(const std::vector<std::string>& words);

// Leaves only the registered tests of which this says yes.
void keep_tests(const std::function<bool(const doctest::detail::TestCase&)>& kept);

}  // namespace khost::tests
