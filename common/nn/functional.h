// Operations with gradients, as torch.nn.functional. Shapes and devices are checked here; kernels do the work.
// Errors: ShapeError for shapes that do not fit (both are named), DeviceError when devices mix.
#pragma once

#include "common/core/generator.h"
#include "common/kernels/kernels.h"
#include "common/tensor/tensor.h"

namespace miniddp::functional {

/// Elementwise, equal shapes.
Tensor add(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
/// x * factor.
Tensor scale(const Tensor& x, double factor);
/// Scalars.
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);

Tensor relu(const Tensor& x);
/// Of a temporary: works in place if nobody else holds its memory and no gradient is recorded. Halves the peak of an evaluation.
Tensor relu(Tensor&& x);

/// x (N, I), weight (O, I), bias (O) or undefined -> (N, O).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
/// x (N, C, H, W), weight (O, C, K, K), bias (O) or undefined -> (N, O, OH, OW).
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv2dParams params = {});
/// x (N, C, H, W) -> (N, C, OH, OW); floor division, as PyTorch's default.
Tensor max_pool2d(const Tensor& x, int64_t kernel, int64_t stride = 0);
/// Every dimension from `start` on becomes one.
Tensor flatten(const Tensor& x, int64_t start = 1);

/// Each element is dropped with probability p, the others grow by 1/(1-p). Draws from the generator of x's device unless one is given;
/// draws nothing when not training or p is 0 or 1.
Tensor dropout(const Tensor& x, double p, bool training, Generator* generator = nullptr);
/// Whole planes of x (N, C, H, W) at a time. A 2-D x is dropped element by element, as PyTorch does (with a warning there).
Tensor dropout2d(const Tensor& x, double p, bool training, Generator* generator = nullptr);

/// x (N, C), along dimension 1.
Tensor log_softmax(const Tensor& x);
/// x (N, C) log-probabilities, target (N) int64 -> scalar.
Tensor nll_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
/// nll_loss of log_softmax.
Tensor cross_entropy(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);

/// A loss of a network's output (N, C) and targets (N): cross_entropy or nll_loss.
using LossFunction = Tensor (*)(const Tensor& output, const Tensor& target, Reduction reduction);

/// x (N, C, …). Training: normalises with the batch's statistics and moves the running ones in place by `momentum` (the variance
/// unbiased); otherwise normalises with the running ones. Throws ShapeError when training with one value per channel.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& running_mean, Tensor& running_var, bool training,
                  double momentum = 0.1, double eps = 1e-5);

}  // namespace miniddp::functional
