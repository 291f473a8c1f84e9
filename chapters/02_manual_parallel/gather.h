// Gather: the replicas' outputs become one tensor on one device.
// Source: torch.nn.parallel.gather.
#pragma once

#include <vector>

#include "common/nn/value.h"
#include "common/tensor/tensor.h"

namespace miniddp {

/// Puts outputs (b0, …), (b1, …), … one after another along `dim`, on `target`: (b0 + b1 + …, …). Scalars become a vector with one value
/// for each replica, with PyTorch's warning. Differentiable: backward scatters the gradient with the outputs' own sizes.
/// Throws ShapeError where the other dimensions differ, Error for no outputs or different dtypes.
Tensor gather(const std::vector<Tensor>& outputs, Device target, int64_t dim = 0);

/// The same for nested outputs: tensors are gathered, containers keep the kind that replica 0's has, None stays None.
/// Throws Error where replicas return different kinds, lengths or keys, or something that cannot be gathered.
Value gather(const std::vector<Value>& outputs, Device target, int64_t dim = 0);

}  // namespace miniddp
