// Zygotes as the judge has them, for cases that need one.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <memory>
#include <string>

#include "sandbox/judge/task/zygote.h"
#include "tests/lua_cases.h"

namespace khost::tests {

// Null, and the case is skipped by name, where no Python with torch is known.
inline std::unique_ptr<judge::Zygote> zygote_for_tests(const std::string& name, judge::Serves serves) {
  const char* python = getenv("KHOST_PYTHON");
  if (python == nullptr) {
    skip("needs KHOST_PYTHON");
    return nullptr;
  }
  Result<std::unique_ptr<judge::Zygote>> zygote = judge::Zygote::start({python, KHOST_SOURCE_DIR}, name, serves);
  REQUIRE_MESSAGE(zygote, zygote.failure().message);
  return std::move(*zygote);
}

inline std::unique_ptr<judge::Zygote> reference_zygote() {
  return zygote_for_tests("reference", judge::Serves::tasks);
}

}  // namespace khost::tests
