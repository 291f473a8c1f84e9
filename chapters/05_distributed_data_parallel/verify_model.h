// Before training: do all ranks have the same model, and then rank 0's weights?
#pragma once

#include <vector>

#include "chapters/04_process_group/process_group.h"
#include "common/nn/module.h"

namespace miniddp {

/// Compares number, shapes and dtypes of the parameters over all ranks. If they differ every rank throws Error, naming the ranks and what they
/// have. (PyTorch's check of shapes raises on the differing rank alone; the others wait for it until their time limit.)
void verify_model_across_ranks(ProcessGroup& group, const NamedTensors& parameters);

/// Overwrites `tensors` with rank `root`'s, those of one dtype together in one flat tensor.
void broadcast_coalesced(ProcessGroup& group, const std::vector<Tensor>& tensors, int root = 0);

}  // namespace miniddp
