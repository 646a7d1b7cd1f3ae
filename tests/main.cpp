// The test program: doctest cases, and each function of tests/lua/*_test.lua as a case of its own.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

#include <string>
#include <vector>

#include "tests/lua_cases.h"
#include "tests/selection.h"

namespace {

int passed = 0;
int failed = 0;
int skipped = 0;
bool named = false;  // whether the command line chooses tests

// Counts cases; the names of the skipped ones are printed, with the reason their own MESSAGE gives.
struct Counter : doctest::IReporter {
  explicit Counter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& data) override { khost::tests::begin_case(data); }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (khost::tests::take_skip()) {
      skipped++;
    } else if (stats.failure_flags == 0) {
      passed++;
    } else {
      failed++;
    }
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData& data) override {
    if (data.m_skip && !named) {
      std::printf("skipped: %s (takes minutes: ./khost test --slow, or -R NAME)\n", data.m_name);
      skipped++;
    }
  }
};

DOCTEST_REGISTER_LISTENER("counter", 1, Counter);

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a run that is killed has said what it saw
  doctest::Context context(argc, argv);
  context.setOption("no-intro", true);
  std::vector<std::string> words;  // of khost's own; doctest's options begin with a dash
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] != '-') {
      words.emplace_back(argv[i]);
    }
    named = named || std::strncmp(argv[i], "-tc", 3) == 0 || std::strncmp(argv[i], "--test-case", 11) == 0;
  }
  khost::tests::register_lua_cases();
  khost::tests::keep_chosen(words);
  const int result = context.run();
  if (context.shouldExit()) {
    return result;
  }
  if (passed + failed + skipped == 0) {
    std::fprintf(stderr, "no test is chosen by these words and names\n");
    return 1;
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return result;
}
