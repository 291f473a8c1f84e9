// Tests that cannot run on this machine: skipped with a reason, never passed over in silence.
#pragma once

#include <string>

#include "tests/support/catch.h"

namespace miniddp::test {

/// True if the environment says REQUIRE_<what>=1: then a missing `what` fails the test instead of skipping it.
bool is_required(const std::string& what);

/// Prints the reason and counts this test case as skipped.
void note_skip(const std::string& what, const std::string& reason);

/// Test cases skipped so far.
int skip_count();

}  // namespace miniddp::test

/// Ends the test case as skipped: SKIP_TEST("PYTORCH", "python3 cannot import torch"). Only in the body of a test
/// case. ctest shows it as "Skipped"; with REQUIRE_PYTORCH=1 in the environment it fails.
#define SKIP_TEST(what, reason)                                               \
  do {                                                                        \
    if (::miniddp::test::is_required(what)) FAIL(what " is required: " << (reason)); \
    ::miniddp::test::note_skip(what, reason);                                 \
    SUCCEED("skipped");                                                       \
    return;                                                                   \
  } while (false)
