// The test program: doctest cases, and each function of tests/lua/*_test.lua as a case of its own.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

#include <mutex>
#include <string>
#include <vector>

#include "tests/lua_cases.h"
#include "tests/selection.h"

namespace {

int passed = 0;
int failed = 0;
int skipped = 0;
std::vector<std::string> failures;  // one line for each failed test, printed last
bool named = false;                 // whether the command line chooses tests

// Counts cases; the names of the skipped ones are printed, with the reason their own MESSAGE gives.
struct Counter : doctest::IReporter {
  explicit Counter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& data) override {
    khost::tests::begin_case(data);
    name_ = data.m_name;
    first_.clear();
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (khost::tests::take_skip()) {
      skipped++;
    } else if (stats.failure_flags == 0) {
      passed++;
    } else {
      failed++;
      failures.push_back(name_ + (first_.empty() ? "" : ": " + first_));
    }
  }
  void test_case_exception(const doctest::TestCaseException& thrown) override {
    keep_first(std::string("threw ") + thrown.error_string.c_str());
  }
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& data) override {
    if (data.m_failed) {
      keep_first(std::string(data.m_file) + ":" + std::to_string(data.m_line) + ": " + data.m_expr +
                 (data.m_decomp.size() > 0 ? std::string(" (") + data.m_decomp.c_str() + ")" : ""));
    }
  }
  void log_message(const doctest::MessageData& data) override {
    if (data.m_severity != doctest::assertType::is_warn) {
      keep_first(std::string(data.m_file) + ":" + std::to_string(data.m_line) + ": " + data.m_string.c_str());
    }
  }
  void test_case_skipped(const doctest::TestCaseData& data) override {
    if (data.m_skip && !named) {
      std::printf("skipped: %s (takes minutes: ./khost test --slow, or -R NAME)\n", data.m_name);
      skipped++;
    }
  }

 private:
  void keep_first(const std::string& what) {
    const std::lock_guard<std::mutex> guard(mutex_);  // threads of a test assert too
    if (first_.empty()) {
      first_ = what;
    }
  }

  std::mutex mutex_;
  std::string name_;
  std::string first_;
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
  for (const std::string& failure : failures) {
    std::printf("failed: %s\n", failure.c_str());
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return result;
}
