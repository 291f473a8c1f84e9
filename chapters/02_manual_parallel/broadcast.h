// Broadcast and reduce-add of many tensors at once: what replicate does forward, and what its backward does.
// Source: torch.nn.parallel.comm and its autograd function Broadcast.
#pragma once

#include <vector>

#include "common/tensor/tensor.h"

namespace miniddp {

/// Tensors travel in flat buffers of about this many bytes: one large copy costs less than many small ones.
inline constexpr size_t coalescing_bytes = 10 * 1024 * 1024;

/// copies[d][t]: tensor t on devices[d]. Tensors must be on devices[0]; there nothing is copied: copies[0][t] shares t's memory. Every
/// other place in the list gets a copy of its own, even if its device is the same.
/// Differentiable: backward sums the copies' gradients (reduce_add_coalesced). Throws DeviceError for a tensor elsewhere.
/// `kind` is what a profile calls the bytes.
std::vector<std::vector<Tensor>> broadcast_coalesced(const std::vector<Tensor>& tensors, const std::vector<Device>& devices,
                                                     size_t buffer_bytes = coalescing_bytes, const char* kind = "parameters");

/// The sums over d of gradients[d][t], on `target`, added up strictly from left to right, so that the result is the same in every run and
/// for every buffer size. An undefined gradient counts as zeros; `like[t]` says the shape and the dtype of each.
std::vector<Tensor> reduce_add_coalesced(const std::vector<std::vector<Tensor>>& gradients, const std::vector<Tensor>& like, Device target,
                                         const std::vector<Device>& devices, size_t buffer_bytes = coalescing_bytes);

}  // namespace miniddp
