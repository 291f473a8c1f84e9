// Ranks that are processes; and what real NCCL hangs on, which the emulator reports.
#include "tests/support/catch.h"
#include "tests/support/run_program.h"

namespace miniddp::testing {
namespace {

void check_scenario(const char* scenario, const char* message, const char* streams = "threads", const char* timeout = "60") {
  const ProgramResult result =
      run_program({NCCL_RANKS, scenario}, std::chrono::seconds(100),
                  {{"MINIDDP_EMULATOR_STREAMS", streams}, {"MINIDDP_EMULATOR_NCCL_TIMEOUT", timeout}});
  INFO(scenario << ": " << result.summary());
  CHECK_FALSE(result.timed_out);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.errors, Catch::Matchers::ContainsSubstring(message));
}

}  // namespace

TEST_CASE("nccl: three processes, every operation") {
  for (const char* streams : {"threads", "lazy", "delay:1", "eager"}) check_scenario("everything", "", streams);
}

TEST_CASE("nccl: a rank that ends is named at once") { check_scenario("a rank dies", "has ended"); }

TEST_CASE("nccl: a rank that has left is named at once") {
  check_scenario("a rank leaves", "rank 2 has destroyed its communicator");
}

TEST_CASE("nccl: a rank that never calls is named after the time limit") {
  check_scenario("a rank never calls", "has waited 2 s for rank 2, which has not called", "threads", "2");
}

TEST_CASE("nccl: a rank that never joins is named after the time limit") {
  check_scenario("a rank never joins", "for rank 2, which has not called", "threads", "2");
}

TEST_CASE("nccl: ranks that disagree are told about what") {
  check_scenario("counts differ", "AllReduce of 10 elements");
  check_scenario("operations differ", "calls Broadcast of 10 elements");
  check_scenario("message lengths differ", "sends 40 bytes to rank 1, which receives 44");
}

TEST_CASE("nccl: an abort releases the ranks that wait") { check_scenario("abort", ""); }

TEST_CASE("nccl: one thread for two ranks needs a group") {
  check_scenario("no group", "that needs ncclGroupStart and ncclGroupEnd");
}

}  // namespace miniddp::testing
