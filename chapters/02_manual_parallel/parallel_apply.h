// Parallel apply: every replica works on its chunk, all at the same time.
// Source: torch.nn.parallel.parallel_apply.
#pragma once

#include <functional>
#include <vector>

#include "chapters/02_manual_parallel/replicate.h"
#include "common/nn/module.h"
#include "common/nn/value.h"

namespace miniddp {

/// outputs[i] = replicas[i](inputs[i]), each on the worker thread of devices[i]; a single one on the calling thread. The workers record
/// gradients if the caller does. Two replicas on one device take turns.
/// Errors: when all are done, that of the lowest replica is thrown as "Caught ShapeError in replica 2 on device cpu:2: …" (the same type
/// if it is one of the project's own, else Error). The workers can be used again.
std::vector<Tensor> parallel_apply(const Replicas& replicas, const std::vector<Tensor>& inputs, const std::vector<Device>& devices);
std::vector<Value> parallel_apply(const Replicas& replicas, const std::vector<Inputs>& inputs, const std::vector<Device>& devices);

/// The same for any work: calls body(i) for each device, on its worker.
void parallel_for_devices(const std::vector<Device>& devices, const std::function<void(size_t replica)>& body);

}  // namespace miniddp
