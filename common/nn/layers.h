// Layers with parameters, initialised as PyTorch does it: the same seed gives the same weights, bit for bit.
#pragma once

#include "common/nn/functional.h"
#include "common/nn/module.h"

namespace miniddp {

/// weight (out, in), bias (out). Draws the weight first, then the bias, from the CPU's default generator.
class Linear : public Cloneable<Linear> {
 public:
  Linear(int64_t in_features, int64_t out_features, bool bias = true);
  Tensor forward(const Tensor& x) override { return functional::linear(x, weight, bias); }

  Tensor weight, bias;
};

/// weight (out, in, K, K), bias (out).
class Conv2d : public Cloneable<Conv2d> {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, Conv2dParams params = {}, bool bias = true);
  Tensor forward(const Tensor& x) override { return functional::conv2d(x, weight, bias, params_); }

  Tensor weight, bias;

 private:
  Conv2dParams params_;
};

/// Over dimension 1 of (N, C, …). Buffers running_mean, running_var, num_batches_tracked.
class BatchNorm2d : public Cloneable<BatchNorm2d> {
 public:
  explicit BatchNorm2d(int64_t channels, double eps = 1e-5, double momentum = 0.1);
  Tensor forward(const Tensor& x) override;

  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  double eps_, momentum_;
};

/// Elements dropped while training, with the generator of the input's device.
class Dropout : public Cloneable<Dropout> {
 public:
  explicit Dropout(double p = 0.5) : p_(p) {}
  Tensor forward(const Tensor& x) override { return functional::dropout(x, p_, is_training()); }

 private:
  double p_;
};

/// Whole channels dropped while training.
class Dropout2d : public Cloneable<Dropout2d> {
 public:
  explicit Dropout2d(double p = 0.5) : p_(p) {}
  Tensor forward(const Tensor& x) override { return functional::dropout2d(x, p_, is_training()); }

 private:
  double p_;
};

}  // namespace miniddp
