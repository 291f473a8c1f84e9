// Watches the ranks: forwards their output, notices the first failure, ends the others.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/launch/rank_process.h"

namespace miniddp {

class Supervisor {
 public:
  explicit Supervisor(LaunchPlan plan);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Starts the ranks and returns the launch's exit code once the last process below us has gone.
  int run();

 private:
  using Clock = RankProcess::Clock;

  void start_ranks();
  int running() const;
  /// Waits for output, a signal or the next time limit, and handles what came.
  void step();
  void handle_signals();
  void reap();
  void begin_stop();
  void check_limits();
  int report();

  LaunchPlan plan_;
  std::vector<RankProcess> ranks_;
  int signals_ = -1;  // signalfd
  Clock::time_point start_;
  std::optional<int> first_failure_;  // index into ranks_
  std::optional<Clock::time_point> kill_at_;
  bool killed_ = false;
  int interrupted_by_ = 0;
  bool timed_out_ = false;
};

}  // namespace miniddp
