// Starts N ranks of one program on this machine and looks after them until the last has ended.
//
// Three kinds of process: the front (what the user started) forks a supervisor, which forks the ranks. Each
// of the first two notices when the other is killed, even by SIGKILL, and ends every process below; so
// nothing is left behind.
#pragma once

#include <string>
#include <vector>

namespace miniddp {

struct LaunchOptions {
  /// Ranks to start; WORLD_SIZE.
  int nproc = 0;
  /// The program, looked up in PATH when it has no slash, and its arguments.
  std::vector<std::string> command;
  /// MASTER_ADDR: where rank 0's store listens.
  std::string master_addr = "127.0.0.1";
  /// MASTER_PORT. 0: the launcher opens a listening socket on a free port and hands the socket itself to rank
  /// 0 (its number is in MINIDDP_STORE_FD). The port is never free between choice and use, so nobody else can
  /// take it.
  int master_port = 0;
  /// Seconds between SIGTERM and SIGKILL when ranks must be ended.
  double grace = 5;
  /// Seconds after which all ranks are ended and the launch has failed; 0: no limit.
  double timeout = 0;
  /// Writes "[rank 1] " before each line of output.
  bool prefix = true;
  /// False: says nothing at the start.
  bool announce = true;
  /// False: says nothing about a rank that failed; the exit code tells.
  bool report_failures = true;
};

/// Reads `launch`'s command line (without the program's own name). Throws UsageError.
LaunchOptions parse_launch_arguments(const std::vector<std::string>& arguments);

/// What --help prints.
std::string launch_help();

/// Runs the ranks to their end. Every rank gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT, MINIDDP_RUN_ID and, unless it is set already, OMP_NUM_THREADS = cores / nproc. Returns 0 if
/// all ranks did; else the exit code of the first that failed, 128 + signal if it was killed; 124 if the time
/// limit was reached. Throws Error if nothing could be started. Forks: to be called before the process has
/// threads, and it makes no CUDA call (a CUDA context does not survive fork).
int launch(const LaunchOptions& options);

}  // namespace miniddp
