// torch.distributed's functions: from environment variables to a process group.
#pragma once

#include <memory>
#include <string>

#include "chapters/04_process_group/process_group.h"
#include "chapters/04_process_group/rendezvous.h"

namespace miniddp {

struct InitOptions {
  /// "gloo" (the Gloo library), "ring" (by hand, over TCP) or "nccl" (GPUs).
  std::string backend = "gloo";
  /// "env://" or "tcp://host:port".
  std::string init_method = "env://";
  /// -1: read from the environment.
  int rank = -1;
  int world_size = -1;
  /// Until all ranks have joined and are connected.
  Milliseconds rendezvous_timeout{60'000};
  /// Of each operation.
  Milliseconds timeout{300'000};
};

/// Makes the default group; every process of the run calls it. Throws Error with PyTorch's messages for
/// missing variables, an unknown backend and a second call; what rendezvous() throws.
ProcessGroup& init_process_group(const InitOptions& options = {});

/// The default group. Throws Error before init_process_group.
ProcessGroup& default_process_group();
bool is_initialized();

/// This process's number on its machine: its GPU's index. Throws Error before init_process_group.
int local_rank();

/// Another group of the same ranks, with a backend of its own. Every rank calls it, in the same order.
std::shared_ptr<ProcessGroup> new_group(const std::string& backend);

/// Says goodbye and closes the connections. Also done at the end of the program. Rank 0 stays a little, while
/// others leave.
void destroy_process_group();

/// destroy_process_group at the end of a scope, also when an exception passes: the others hear at once.
class ProcessGroupGuard {
 public:
  explicit ProcessGroupGuard(const InitOptions& options = {}) { init_process_group(options); }
  ~ProcessGroupGuard() { destroy_process_group(); }
  ProcessGroupGuard(const ProcessGroupGuard&) = delete;
  ProcessGroupGuard& operator=(const ProcessGroupGuard&) = delete;
};

}  // namespace miniddp
