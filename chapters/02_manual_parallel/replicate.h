// Replicate: one copy of the network on each device.
// Source: torch.nn.parallel.replicate.
#pragma once

#include <memory>
#include <vector>

#include "common/nn/module.h"

namespace miniddp {

using Replicas = std::vector<std::unique_ptr<Module>>;

/// One copy of `network`, which must be on devices[0], for each device. A copy is good for one forward and its backward.
/// - The copies' parameters are not leaves: they come from the original ones by a broadcast that autograd knows, and backward adds their
///   gradients up in the original's. Parameters that are one (tied) stay one. With gradients switched off nothing is recorded.
/// - Replica 0 shares the memory of the original's parameters and buffers: what it changes in place (BatchNorm's statistics) stays. What
///   the others change goes with them.
/// - Plain members are copied: what a replica sets there is lost.
/// Throws DeviceError if a parameter or buffer is not on devices[0].
Replicas replicate(const Module& network, const std::vector<Device>& devices);

}  // namespace miniddp
