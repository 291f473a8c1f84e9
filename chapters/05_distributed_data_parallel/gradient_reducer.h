// What DistributedDataParallel asks of the thing that averages its gradients.
#pragma once

#include <vector>

#include "common/tensor/tensor.h"

namespace miniddp {

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  /// Before a forward pass. If `sync`, the backward pass that follows averages; otherwise gradients stay local (no_sync).
  virtual void prepare_for_forward(bool sync) { sync_ = sync; }
  /// After that forward pass, with its outputs.
  virtual void prepare_for_backward(const std::vector<Tensor>& /*outputs*/) {}
  /// Throws Error if the last backward pass left something undone: for the end of a run.
  virtual void check_finished() const {}

 protected:
  bool sync_ = false;
};

}  // namespace miniddp
