// One rank: its process, its two output pipes, and how it ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "common/launch/launch.h"
#include "common/launch/line_splitter.h"

namespace miniddp {

/// What all ranks of a launch have in common.
struct LaunchPlan {
  LaunchOptions options;
  int master_port = 0;
  /// The open store socket, -1 if the port was given.
  int store_socket = -1;
  /// Tells this run from every other; rank 0's store refuses members of another run.
  std::string run_id;
  /// OMP_NUM_THREADS for the ranks; 0 if the user has set it.
  int omp_threads = 0;
};

/// Chooses port, run id and threads, and opens the store's socket. Throws Error, UsageError.
LaunchPlan make_plan(const LaunchOptions& options);

class RankProcess {
 public:
  using Clock = std::chrono::steady_clock;

  /// Forks and executes the plan's program as one rank, in a process group of its own. Throws Error if fork
  /// fails; a program that cannot be executed is a rank that ends with 127.
  RankProcess(const LaunchPlan& plan, int rank);
  ~RankProcess();
  RankProcess(RankProcess&& other) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  /// The read ends of its stdout and stderr; -1 when at their end.
  int output() const { return pipes_[0]; }
  int error_output() const { return pipes_[1]; }

  /// Copies what is there, without waiting, line by line to our own stdout and stderr.
  void forward_output();
  /// Writes lines that were begun and never ended.
  void finish_output();
  const LastLines& last_lines() const { return last_lines_; }

  bool running() const { return running_; }
  /// Records waitpid's status.
  void ended(int status);
  Clock::time_point end_time() const { return end_time_; }
  bool failed() const { return !running_ && status_ != 0; }
  bool killed_by_signal() const;
  /// Its exit code; 128 + signal if it was killed.
  int exit_code() const;
  /// "exit code 3", "killed by signal 9 (Killed)".
  std::string how_it_ended() const;
  /// Sends a signal to the whole process group.
  void signal_group(int signal) const;

 private:
  std::string prefix() const;

  int rank_;
  bool prefixed_;
  pid_t pid_ = -1;
  int pipes_[2] = {-1, -1};
  LineSplitter splitters_[2];
  LastLines last_lines_;
  bool running_ = true;
  int status_ = 0;
  Clock::time_point end_time_;
};

}  // namespace miniddp
