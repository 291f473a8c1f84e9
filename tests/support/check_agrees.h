// A comparison as an assertion.
#pragma once

#include <string>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace miniddp::testing {

/// A failure says which value differs and, if given, of what.
inline void check_agrees(const Comparison& result, const std::string& what = "") {
  INFO(what << (what.empty() ? "" : ": ") << result.message);
  CHECK(result.passed);
}

}  // namespace miniddp::testing
