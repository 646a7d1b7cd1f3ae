// Tests that failed are tried once more, in a fresh process: what then passes depends on chance or on a busy machine.
// It counts as passed and is told as flaky, by name and with what it failed of, so that it gets mended.
#pragma once

#include <string>
#include <vector>

namespace khost::tests {

struct Failure {
  std::string test;  // its name
  std::string what;  // what failed first in it, with the place
};

// More failures than this are no matter of chance and are not tried again.
inline constexpr size_t kMostTriedAgain = 5;

// The option by which the second process learns its tests: a file with a name on each line. It writes what passes to a
// file beside that one, so that a test which it lacks, or does not come to, has not passed.
inline constexpr const char* kAgain = "--again=";

// Runs this program with `arguments` and the names of the failures. Returns those that did not pass then: all of them
// where the process did not come to its end.
std::vector<Failure> tried_again(const std::vector<Failure>& failures, const std::vector<std::string>& arguments);

// In the second process: leaves only the registered tests that the file names; and writes what passed of them. Raise
// std::runtime_error with the path where it cannot be read or written.
void keep_named(const std::string& path);
void write_passed(const std::string& path, const std::vector<std::string>& names);

}  // namespace khost::tests
