// Gradients against finite differences, in double.
#pragma once

#include <functional>
#include <random>
#include <vector>

#include "common/tensor/tensor.h"

namespace miniddp::testing {

/// Random values in [-1, 1), no two closer than needed for a max-pool or relu to keep its choice under a small step.
Tensor random_tensor(const Shape& shape, unsigned seed, DType dtype = DType::float64, Device device = {});

/// Checks every element of every input: the gradient of `function(inputs)` (any shape; weighted by fixed random numbers) against central
/// differences. Returns the largest |difference| / max(1, |difference quotient|); infinity if a gradient is missing or NaN. Throws Error
/// if all difference quotients are zero: such a check would prove nothing.
double largest_gradient_error(const std::function<Tensor(const std::vector<Tensor>&)>& function, std::vector<Tensor> inputs,
                              double step = 1e-6);

}  // namespace miniddp::testing
