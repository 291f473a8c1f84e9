#include "common/nn/layers.h"

#include <cmath>

#include "common/autograd/node.h"

namespace miniddp {
namespace {

// PyTorch's default: weight and bias both uniform in ±1/sqrt(fan_in). (Its weight bound comes from kaiming_uniform with a = sqrt(5);
// rounded to float32 the two bounds are the same number for every fan_in.)
Tensor uniform_parameter(const Shape& shape, int64_t fan_in) {
  std::vector<float> values(static_cast<size_t>(numel_of(shape)));
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)));
  default_generator().uniform_(values, -bound, bound);
  return Tensor::from(values, shape);
}

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias)
    : weight(uniform_parameter({out_features, in_features}, in_features)) {
  if (with_bias) bias = uniform_parameter({out_features}, in_features);
  register_parameter("weight", &Linear::weight);
  if (with_bias) register_parameter("bias", &Linear::bias);
}

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, Conv2dParams params, bool with_bias)
    : weight(uniform_parameter({out_channels, in_channels, kernel_size, kernel_size}, in_channels * kernel_size * kernel_size)),
      params_(params) {
  if (with_bias) bias = uniform_parameter({out_channels}, in_channels * kernel_size * kernel_size);
  register_parameter("weight", &Conv2d::weight);
  if (with_bias) register_parameter("bias", &Conv2d::bias);
}

BatchNorm2d::BatchNorm2d(int64_t channels, double eps, double momentum)
    : weight(Tensor::ones({channels})),
      bias(Tensor::zeros({channels})),
      running_mean(Tensor::zeros({channels})),
      running_var(Tensor::ones({channels})),
      num_batches_tracked(Tensor::zeros({}, DType::int64)),
      eps_(eps),
      momentum_(momentum) {
  register_parameter("weight", &BatchNorm2d::weight);
  register_parameter("bias", &BatchNorm2d::bias);
  register_buffer("running_mean", &BatchNorm2d::running_mean);
  register_buffer("running_var", &BatchNorm2d::running_var);
  register_buffer("num_batches_tracked", &BatchNorm2d::num_batches_tracked);
}

Tensor BatchNorm2d::forward(const Tensor& x) {
  if (is_training()) num_batches_tracked.fill_(num_batches_tracked.item<double>() + 1);
  return functional::batch_norm(x, weight, bias, running_mean, running_var, is_training(), momentum_, eps_);
}

}  // namespace miniddp
