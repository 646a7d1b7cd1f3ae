// A zygote as the judge's references have, for cases that need one.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <memory>

#include "sandbox/judge/zygote.h"
#include "tests/lua_cases.h"

namespace khost::tests {

// Null, and the case is skipped by name, where no Python with torch is known.
inline std::unique_ptr<judge::Zygote> reference_zygote() {
  const char* python = getenv("KHOST_PYTHON");
  if (python == nullptr) {
    skip("needs KHOST_PYTHON");
    return nullptr;
  }
  Result<std::unique_ptr<judge::Zygote>> zygote =
      judge::Zygote::start({python, KHOST_SOURCE_DIR}, "reference", false, nullptr);
  REQUIRE_MESSAGE(zygote, zygote.failure().message);
  return std::move(*zygote);
}

}  // namespace khost::tests
