// The "nccl" backend: collectives between GPUs, on the GPU's own terms.
#pragma once

#include <memory>

#include "chapters/04_process_group/process_group.h"
#include "chapters/04_process_group/tcp_store.h"

namespace miniddp {

/// A group whose tensors are on this rank's GPU, `device`. Every rank of the group calls it; the ranks find each other through `keys`.
/// Operations run on a stream of their own; wait() makes the device's compute stream wait and lets the host go on, as in PyTorch (only a
/// barrier's makes the host wait). A watchdog polls: at the time limit, on an error of NCCL or when a rank dies anywhere, it aborts the
/// communicator, and every later call throws the cause. Two ranks of one group need two GPUs: NCCL refuses to share one.
/// Throws DistBackendError if this build has no NCCL, or if the ranks share a GPU.
std::shared_ptr<ProcessGroup> make_nccl_group(int rank, int size, Device device, std::shared_ptr<TcpStore> store,
                                              std::shared_ptr<Store> keys);

}  // namespace miniddp
