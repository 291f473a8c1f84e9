// Running programs from tests: outputs, exit codes, and no program outlives its limit.
#include "tests/support/run_program.h"

#include "tests/support/catch.h"

using namespace miniddp::testing;
using std::chrono::seconds;

TEST_CASE("run_program: outputs and exit code") {
  const ProgramResult result = run_program({"sh", "-c", "echo one; echo \"$WORD\"; echo trouble >&2; exit 7"}, seconds(20), {{"WORD", "two"}});
  CHECK(result.exit_code == 7);
  CHECK_FALSE(result.timed_out);
  CHECK(split_lines(result.output) == std::vector<std::string>{"one", "two"});
  CHECK(result.errors == "trouble\n");
}

TEST_CASE("run_program: much output does not block") {
  const ProgramResult result = run_program({"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; head -c 300000 /dev/zero | tr '\\0' y >&2"}, seconds(20));
  CHECK(result.output == std::string(300000, 'x'));
  CHECK(result.errors == std::string(300000, 'y'));
}

TEST_CASE("run_program: a program that hangs is killed with what it started") {
  const ProgramResult result = run_program({"sh", "-c", "sleep 97 & echo $!; wait"}, seconds(1));
  CHECK(result.timed_out);
  REQUIRE(split_lines(result.output).size() == 1);
  // kill -0 fails once the grandchild is gone; a killed one may stay a zombie until its new parent collects it.
  const std::string grandchild = split_lines(result.output)[0];
  const std::string gone = "for i in $(seq 50); do case \"$(cut -d' ' -f3 /proc/" + grandchild + "/stat 2>/dev/null)\" in ''|Z) exit 0;; esac; sleep 0.1; done; exit 1";
  CHECK(run_program({"sh", "-c", gone}, seconds(20)).exit_code == 0);
}

TEST_CASE("run_program: a program that does not exist, and one ended by a signal") {
  CHECK(run_program({"/no/such/program"}, seconds(20)).exit_code == 127);
  CHECK(run_program({"sh", "-c", "kill -TERM $$"}, seconds(20)).exit_code == 128 + 15);
}
