// The test program: doctest cases, and each function of tests/lua/*_test.lua as a case of its own.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/lua_cases.h"
#include "tests/second_try.h"
#include "tests/selection.h"

namespace {

std::vector<std::string> passes;
int skipped = 0;
std::vector<khost::tests::Failure> failures;
bool named = false;  // whether the command line chooses tests

// What INFO and CAPTURE say at an assertion that failed, on one line and no longer than a log bears.
std::string captured() {
  constexpr size_t kMost = 1500;
  std::string text;
  const auto* const* contexts = doctest::IReporter::get_active_contexts();
  for (int i = 0; i < doctest::IReporter::get_num_active_contexts(); i++) {
    std::ostringstream line;
    contexts[i]->stringify(&line);
    text += "; " + line.str();
  }
  return text.size() > kMost ? text.substr(0, kMost) + "…" : text;
}

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
      passes.push_back(name_);
    } else {
      failures.push_back({name_, first_});
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
                 (data.m_decomp.size() > 0 ? std::string(" (") + data.m_decomp.c_str() + ")" : "") + captured());
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
  using khost::tests::Failure;
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a run that is killed has said what it saw
  doctest::Context context(argc, argv);
  context.setOption("no-intro", true);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  std::vector<std::string> words;  // of khost's own; doctest's options begin with a dash
  std::string again;               // the file of a second try
  for (const std::string& argument : arguments) {
    if (argument.starts_with(khost::tests::kAgain)) {
      again = argument.substr(std::strlen(khost::tests::kAgain));
    } else if (!argument.starts_with("-")) {
      words.push_back(argument);
    }
    named = named || argument.starts_with("-tc") || argument.starts_with("--test-case");
  }
  khost::tests::register_lua_cases();
  khost::tests::keep_chosen(words);
  if (!again.empty()) {
    khost::tests::keep_named(again);
  }
  const int result = context.run();
  if (context.shouldExit()) {
    return result;
  }
  if (!again.empty()) {
    khost::tests::write_passed(again, passes);
    return result;
  }
  if (passes.empty() && failures.empty() && skipped == 0) {
    std::fprintf(stderr, "no test is chosen by these words and names\n");
    return 1;
  }
  const bool tried = !failures.empty() && failures.size() <= khost::tests::kMostTriedAgain;
  if (tried) {
    std::printf("%zu failed, tried once more\n", failures.size());
  }
  const std::vector<Failure> left = tried ? khost::tests::tried_again(failures, arguments) : failures;
  for (const Failure& failure : failures) {
    const bool still = std::any_of(left.begin(), left.end(), [&](const Failure& f) { return f.test == failure.test; });
    std::printf("%s: %s%s%s\n", still ? "failed" : "flaky, passed when tried again", failure.test.c_str(),
                failure.what.empty() ? "" : ": ", failure.what.c_str());
  }
  const std::size_t flaky = failures.size() - left.size();
  std::printf("%zu passed, %zu failed, %d skipped\n", passes.size() + flaky, left.size(), skipped);
  return left.empty() && flaky > 0 ? 0 : result;
}
