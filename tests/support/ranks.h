// Runs a function in N processes, one for each rank, from inside a test.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace miniddp::testing {

/// How a rank ended.
struct RankOutcome {
  /// True if the function returned.
  bool returned = false;
  /// What it returned, or what() of what it threw; "" if it was killed.
  std::string text;
  /// The signal that killed it; 0 if none. SIGKILL at the time limit.
  int signal = 0;
  /// Seconds from the start of all ranks to the end of this one.
  double seconds = 0;
};

/// The function's result goes back to the test; it may throw. REQUIRE and CHECK do not work in it: return
/// what is to be checked.
using RankFunction = std::function<std::string(int rank)>;

/// Forks `world_size` processes with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and so on set as a launcher
/// would: rank 0 inherits an open socket, so that tests side by side cannot take each other's ports. All are
/// killed at the limit, and with the test. The test must have no threads of its own when it calls this.
/// `environment` ("NAME=value") goes to all ranks.
std::vector<RankOutcome> run_ranks(int world_size, const RankFunction& function,
                                   std::chrono::seconds limit = std::chrono::seconds(60),
                                   const std::vector<std::string>& environment = {});

/// Runs them, and throws Error naming rank and reason unless every rank returned. Returns their results.
std::vector<std::string> run_ranks_all(int world_size, const RankFunction& function,
                                       std::chrono::seconds limit = std::chrono::seconds(60),
                                       const std::vector<std::string>& environment = {});

/// Lines for INFO: how each rank ended.
std::string describe(const std::vector<RankOutcome>& outcomes);

}  // namespace miniddp::testing
