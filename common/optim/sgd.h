// Stochastic gradient descent, as torch.optim.SGD defines it.
#pragma once

#include <vector>

#include "common/kernels/kernels.h"
#include "common/tensor/tensor.h"

namespace miniddp {

/// Per parameter p with gradient g:  g += weight_decay * p;  v = momentum * v + (1 - dampening) * g  (the first v is g itself);
/// g = nesterov ? g + momentum * v : v;  p -= lr * g. A parameter without a gradient is left alone.
class SGD {
 public:
  /// All parameters on one device. Throws Error for a negative rate, or nesterov without momentum or with dampening (PyTorch's rules).
  SGD(std::vector<Tensor> parameters, SgdParams options);

  void step();
  /// Forgets the gradients, or fills them with zeros.
  void zero_grad(bool set_to_none = true);

  const SgdParams& options() const { return options_; }
  void set_lr(double lr) { options_.lr = lr; }

  /// The momentum buffers, one for each parameter; undefined before the parameter's first step. For checkpoints.
  const std::vector<Tensor>& momentum_buffers() const { return buffers_; }
  /// Throws ShapeError unless every defined buffer looks like its parameter.
  void set_momentum_buffers(std::vector<Tensor> buffers);

 private:
  std::vector<Tensor> parameters_;
  std::vector<Tensor> buffers_;
  SgdParams options_;
};

}  // namespace miniddp
