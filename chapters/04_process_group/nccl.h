// The "nccl" backend: collectives between GPUs, on the GPU's own terms.
#pragma once

#include <memory>

#include "chapters/04_process_group/host_process_group.h"

namespace miniddp {

/// A group whose tensors are on this rank's GPU. Every rank of the group calls it. Throws DistBackendError if
/// this build has no NCCL.
std::shared_ptr<ProcessGroup> make_nccl_group(int rank, int size, Device device,
                                              std::shared_ptr<TcpStore> store, std::shared_ptr<Store> keys,
                                              Milliseconds timeout);

}  // namespace miniddp
