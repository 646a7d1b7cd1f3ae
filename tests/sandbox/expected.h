// What is written beside the candidates of tests/data/kernels: the verdict that each must get.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "host/base/json.h"
#include "tests/sandbox/abi_fixture.h"

namespace khost::sandbox::test {

// A value, or a list of which one must be met.
inline bool meets(const Json& wanted, const Json& got) {
  return wanted.is_array() ? std::find(wanted.begin(), wanted.end(), got) != wanted.end() : wanted == got;
}

// The candidates of tests/data/kernels below `root`, a checkout. Names are paths there, "cpu/good/row_softmax".
class Expectations {
 public:
  explicit Expectations(const std::filesystem::path& root)
      : folder_(root / "tests/data/kernels"), open_(Json::parse(read_text(folder_ / "open.json"))) {}

  std::filesystem::path folder(const std::string& name) const { return folder_ / name; }

  // Names of a group that have an expectation, sorted.
  std::set<std::string> names(const std::string& group) const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / group)) {
      if (std::filesystem::exists(entry.path() / "expected.json")) {
        names.insert(group + "/" + entry.path().filename().string());
      }
    }
    return names;
  }

  Json of(const std::string& name) const { return Json::parse(read_text(folder_ / name / "expected.json")); }

  // Whether a verdict is the one that is written there.
  bool met(const std::string& name, const Json& verdict) const {
    const Json wanted = of(name);
    for (const char* key : {"status", "stage", "reason"}) {
      if (wanted.contains(key) && !meets(wanted[key], verdict.value(key, ""))) {
        return false;
      }
    }
    return verdict.value("detail", "").find(wanted.value("says", "")) != std::string::npos;
  }

  // Who must get its own verdict behind this one before the same judge; "" for nobody.
  std::string victim(const std::string& name) const { return of(name).value("victim", ""); }

  // Why this outcome cannot be had yet; "" where it must be met.
  std::string open(const std::string& name) const { return open_.value(name, ""); }
  const Json& all_open() const { return open_; }

 private:
  std::filesystem::path folder_;
  Json open_;
};

}  // namespace khost::sandbox::test
