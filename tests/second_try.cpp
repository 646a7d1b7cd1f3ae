#include "tests/second_try.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "tests/selection.h"

extern char** environ;

namespace khost::tests {
namespace {

constexpr const char* kPassed = ".passed";

std::set<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("cannot read " + path);
  }
  std::set<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.insert(line);
  }
  return lines;
}

void write_lines(const std::string& path, const std::vector<std::string>& lines) {
  std::ofstream file(path, std::ios::trunc);
  for (const std::string& line : lines) {
    file << line << '\n';
  }
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write " + path);
  }
}

// Whether the program came to its end: 0 or 1, as doctest exits.
bool ran(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "khost_tests");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  pointers.push_back(nullptr);
  pid_t pid = 0;
  int status = 0;
  return posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, pointers.data(), environ) == 0 &&
         waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) <= 1;
}

}  // namespace

std::vector<Failure> tried_again(const std::vector<Failure>& failures, const std::vector<std::string>& arguments) {
  const std::string path = std::filesystem::temp_directory_path() / ("khost-tests-again-" + std::to_string(getpid()));
  std::vector<std::string> names;
  for (const Failure& failure : failures) {
    names.push_back(failure.test);
  }
  write_lines(path, names);
  write_lines(path + kPassed, {});
  std::vector<std::string> options = arguments;
  options.push_back(kAgain + path);
  const std::set<std::string> passed = ran(options) ? lines_of(path + kPassed) : std::set<std::string>();
  std::filesystem::remove(path);
  std::filesystem::remove(path + kPassed);
  std::vector<Failure> left;
  std::copy_if(failures.begin(), failures.end(), std::back_inserter(left),
               [&](const Failure& failure) { return !passed.contains(failure.test); });
  return left;
}

void keep_named(const std::string& path) {
  const std::set<std::string> names = lines_of(path);
  keep_tests([&](const doctest::detail::TestCase& test) { return names.contains(test.m_name); });
}

void write_passed(const std::string& path, const std::vector<std::string>& names) {
  write_lines(path + kPassed, names);
}

}  // namespace khost::tests
