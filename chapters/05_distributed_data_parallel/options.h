// Chapter 05's own options.
#pragma once

#include "chapters/04_process_group/init_process_group.h"
#include "chapters/05_distributed_data_parallel/distributed_data_parallel.h"
#include "common/training/options.h"

namespace miniddp {

struct DistributedOptions : TrainingOptions {
  InitOptions init;
  DdpOptions ddp;
  CommHook compress;  // --compress
};

/// Throws UsageError on a wrong command line; --help prints the help and exits.
DistributedOptions parse_distributed_options(int argc, char** argv);

/// cpu:0, or the GPU with this process's number on its machine. Throws DeviceError if there is no such GPU, and says how to share one.
Device device_of_rank(const TrainingOptions& options);

}  // namespace miniddp
