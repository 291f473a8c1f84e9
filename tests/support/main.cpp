// main() of every test program.
#ifdef MINIDDP_CATCH2_V2
#define CATCH_CONFIG_RUNNER
#endif
#include "tests/support/catch.h"
#ifndef MINIDDP_CATCH2_V2
#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#endif

#include <cstdio>
#include <cstring>

#include "tests/support/skip.h"

namespace {

#ifdef MINIDDP_CATCH2_V2
using ListenerBase = Catch::TestEventListenerBase;
#else
using ListenerBase = Catch::EventListenerBase;
#endif

int started = 0;

struct CountTestCases : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo&) override { ++started; }
};

// Options that print and run nothing; ctest's list of tests comes from them.
bool only_lists(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const char* word = argv[i];
    if (std::strncmp(word, "--list-", 7) == 0 || std::strcmp(word, "--help") == 0 || std::strcmp(word, "-h") == 0 ||
        std::strcmp(word, "-?") == 0 || std::strcmp(word, "-l") == 0 || std::strcmp(word, "-t") == 0 ||
        std::strcmp(word, "--libidentify") == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

CATCH_REGISTER_LISTENER(CountTestCases)

// 0: passed. 1: failed, or nothing matched. 77: every test case that ran was skipped.
// (Catch2's own status is the number of failures, which could be 77 too.)
int main(int argc, char** argv) {
  const int status = Catch::Session().run(argc, argv);
  if (only_lists(argc, argv)) return status;
  if (status != 0) return 1;
  if (started == 0) {
    std::fprintf(stderr, "error: no test case ran (ctest cannot find names with ';' or '\\\\', see tests/README.md)\n");
    return 1;
  }
  const int skipped = miniddp::test::skip_count();
  if (skipped > 0) std::printf("%d of %d test cases skipped\n", skipped, started);
  return skipped == started ? 77 : 0;
}
