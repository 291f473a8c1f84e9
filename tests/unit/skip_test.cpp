// The rule that skipped tests are told apart from passed ones.
#include "tests/support/skip.h"

#include <sys/wait.h>

#include <cstdlib>
#include <string>

using miniddp::test::is_required;

namespace {

// Exit status of this test program when only the hidden case below runs.
int status_of_hidden_case(const std::string& environment) {
  const std::string command =
      environment + " " MINIDDP_BINARY_DIR "/bin/unit_tests '[.skipped]' >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("skip: hidden case for the tests below", "[.skipped]") { SKIP_TEST("UNICORN", "there are none"); }

TEST_CASE("skip: a skipped case exits with 77, a required one fails") {
  CHECK(status_of_hidden_case("env -u REQUIRE_UNICORN") == 77);
  CHECK(status_of_hidden_case("env REQUIRE_UNICORN=0") == 77);
  CHECK(status_of_hidden_case("env REQUIRE_UNICORN=1") == 1);
}

TEST_CASE("skip: a name that matches no test case fails") {
  const int status = std::system(MINIDDP_BINARY_DIR "/bin/unit_tests 'no such case' >/dev/null 2>&1");
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
}

TEST_CASE("skip: commas, [brackets] and \"quotes\" in a name, (and) colons: all work") { CHECK(!is_required("")); }
