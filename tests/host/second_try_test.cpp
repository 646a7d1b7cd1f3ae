// A test that fails is tried once more: this program runs itself on tests that exist for nobody else.
#include "tests/second_try.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/host/child.h"

namespace khost::tests {
namespace {

namespace fs = std::filesystem;

// A file that the first try leaves. The tests are registered where this names one.
constexpr const char* kMark = "KHOST_TEST_SECOND_TRY";

void fails_once() {
  const bool second = fs::exists(std::getenv(kMark));
  std::ofstream(std::getenv(kMark)) << "tried\n";
  CAPTURE(second);
  CHECK(second);
}

void fails_always() {
  CHECK(std::getenv(kMark) == nullptr);
}

int add(const char* name, void (*test)()) {
  using doctest::detail::regTest;
  using doctest::detail::TestCase;
  using doctest::detail::TestSuite;
  return std::getenv(kMark) == nullptr ? 0 : regTest(TestCase(test, __FILE__, __LINE__, TestSuite()) * name);
}

// A test that the second process does not have.
void is_gone_then() {
  std::ofstream(std::getenv(kMark)) << "tried\n";
  CHECK(std::getenv(kMark) == nullptr);
}

bool first_process() {
  return std::getenv(kMark) != nullptr && !fs::exists(std::getenv(kMark));
}

const int kGone = first_process() ? add("second try: is gone then", is_gone_then) : 0;
const int kOnce = add("second try: fails once", fails_once);
const int kAlways = add("second try: fails always", fails_always);

int run(const fs::path& mark, const std::string& names, std::string& text) {
  fs::remove(mark);
  Child child({"/proc/self/exe", "--test-case=" + names}, {{kMark, mark.string()}});
  const int code = child.wait(60);
  text = child.text();
  fs::remove(mark);
  return code;
}

TEST_CASE("a test that fails is tried once more, and chance is told by name") {
  const fs::path mark = fs::temp_directory_path() / ("khost-second-try-" + std::to_string(getpid()));
  std::string text;
  CHECK(run(mark, "second try: fails once", text) == 0);
  CAPTURE(text);
  CHECK(text.find("flaky, passed when tried again: second try: fails once: ") != std::string::npos);
  CHECK(text.find("second := false") != std::string::npos);
  CHECK(text.ends_with("\n1 passed, 0 failed, 0 skipped\n"));

  CHECK(run(mark, "second try: is gone then", text) == 1);
  CAPTURE(text);
  CHECK(text.find("\nfailed: second try: is gone then: ") != std::string::npos);

  CHECK(run(mark, "second try: fails *", text) == 1);
  CAPTURE(text);
  CHECK(text.find("\nfailed: second try: fails always: ") != std::string::npos);
  CHECK(text.ends_with("\n1 passed, 1 failed, 0 skipped\n"));
}

}  // namespace
}  // namespace khost::tests
