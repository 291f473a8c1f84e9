#include "tests/support/gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/autograd/node.h"
#include "common/nn/functional.h"

namespace miniddp::testing {

Tensor random_tensor(const Shape& shape, unsigned seed, DType dtype, Device device) {
  const auto numel = static_cast<size_t>(numel_of(shape));
  std::mt19937 engine(seed);
  // A shuffled grid: distinct values, none at zero.
  std::vector<double> values(numel);
  for (size_t i = 0; i < numel; ++i) values[i] = -1 + (2.0 * static_cast<double>(i) + 1) / static_cast<double>(numel) + 1e-3;
  for (size_t i = numel; i > 1; --i) std::swap(values[i - 1], values[engine() % i]);
  return Tensor::from(values, shape, device).to(dtype);
}

double largest_gradient_error(const std::function<Tensor(const std::vector<Tensor>&)>& function, std::vector<Tensor> inputs, double step) {
  for (Tensor& input : inputs) input = input.detach().clone();  // the caller's tensors keep their gradients
  Tensor weights;
  const auto value = [&] {
    Tensor out = function(inputs);
    if (!weights.defined()) weights = random_tensor(out.shape(), 99, out.dtype(), out.device());
    return functional::sum(functional::mul(out, weights));
  };
  for (Tensor& input : inputs) input.set_requires_grad();
  value().backward();

  double largest = 0;
  bool all_zero = true;
  NoGrad no_grad;
  for (Tensor& input : inputs) {
    const Tensor grad = input.grad();
    if (!grad.defined() || grad.shape() != input.shape()) return std::numeric_limits<double>::infinity();
    const std::vector<double> found = grad.to_vector<double>();
    const std::vector<double> original = input.to_vector<double>();
    for (size_t i = 0; i < original.size(); ++i) {
      std::vector<double> moved = original;
      const auto at = [&](double x) {
        moved[i] = x;
        input.copy_(Tensor::from(moved, input.shape(), input.device()));
        return value().item<double>();
      };
      const double quotient = (at(original[i] + step) - at(original[i] - step)) / (2 * step);
      at(original[i]);
      all_zero = all_zero && std::abs(quotient) < 1e-9;
      const double error = std::abs(found[i] - quotient) / std::max(1.0, std::abs(quotient));
      if (!(error <= largest)) largest = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    }
  }
  check(!all_zero, "every difference quotient is zero: the check would prove nothing");
  return largest;
}

}  // namespace miniddp::testing
