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

// The option by which the second process learns its tests: a file with a name on each line. When the process ends, the
// file holds those that failed again.
inline constexpr const char* kAgain = "--again=";

// Runs this program with `arguments` and the names of the failures. Returns those that failed again: all of them where
// the process did not come to its end.
std::vector<Failure> tried_again(const std::vector<Failure>& failures, const std::vector<std::string>& arguments);

// In the second process: leaves only the registered tests that the file names; and writes what failed of them. Raise
// std::runtime_error with the path where it cannot be read or written.
void keep_named(const std::string& path);
void write_failed(const std::string& path, const std::vector<Failure>& failures);

}  // namespace khost::tests
