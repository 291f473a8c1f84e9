// Runs a graph backward.
#pragma once

#include <functional>
#include <vector>

#include "common/tensor/tensor.h"

namespace miniddp {

/// Backward from several roots at once. `gradients[i]` may be undefined for a scalar root. Nodes run in dependency order; contributions
/// to one tensor add up in a fixed order (latest operation first), so results do not depend on timing. A graph on one device runs on the
/// calling thread; with several devices each has a worker, so that replicas run side by side. An error in a node ends the run, waits
/// for the others and is rethrown.
void backward(const std::vector<Tensor>& roots, const std::vector<Tensor>& gradients = {}, bool retain_graph = false);

/// To be called from a hook or a backward function: `callback` runs on the calling thread of backward() once all nodes are done.
void queue_backward_callback(std::function<void()> callback);

}  // namespace miniddp
