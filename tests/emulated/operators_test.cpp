// Every operator of the CUDA backend against the CPU's, on random uneven shapes.
#include <algorithm>
#include <cmath>

#include "common/nn/functional.h"
#include "tests/emulated/operators.h"
#include "tests/support/compare.h"

using namespace miniddp;
using namespace miniddp::testing;
namespace F = miniddp::functional;

TEST_CASE("operators: add, mul, scale, sum, mean and relu") {
  NEEDS_GPUS(1);
  Sizes size(1);
  for (int round = 0; round < rounds; ++round) {
    const Shape shape{size(1, 13), size(1, 700)};
    const std::string at = " of " + to_string(shape);
    const Tensor a = random_floats(shape, size.seed()), b = random_floats(shape, size.seed());
    check_operator("add" + at, {a, b}, [](const Tensors& in) { return F::add(in[0], in[1]); });
    check_operator("mul" + at, {a, b}, [](const Tensors& in) { return F::mul(in[0], in[1]); });
    check_operator("scale" + at, {a}, [](const Tensors& in) { return F::scale(in[0], -2.5); });
    check_operator("sum" + at, {a}, [](const Tensors& in) { return F::sum(in[0]); }, 1e-5);  // it cancels
    check_operator("mean" + at, {a}, [](const Tensors& in) { return F::mean(in[0]); }, 1e-5);
    check_operator("relu" + at, {a}, [](const Tensors& in) { return F::relu(F::scale(in[0], 3)); });
    check_operator("one input twice" + at, {a}, [](const Tensors& in) { return F::add(F::mul(in[0], in[0]), in[0]); });
  }
}

TEST_CASE("operators: relu and max_pool2d let NaN pass") {
  NEEDS_GPUS(1);
  const Tensor x = Tensor::from({NAN, -1, 2, 0.5f}, {1, 1, 2, 2}, gpu0);
  CHECK(std::isnan(F::relu(x).to_vector<float>()[0]));
  CHECK(F::relu(x).to_vector<float>()[1] == 0);
  CHECK(std::isnan(F::max_pool2d(x, 2).to_vector<float>()[0]));
}

TEST_CASE("operators: linear") {
  NEEDS_GPUS(1);
  Sizes size(2);
  for (int round = 0; round < rounds; ++round) {
    const int64_t n = size(1, 70), inputs = size(1, 90), outputs = size(1, 70);
    const std::string at = " (" + std::to_string(n) + ", " + std::to_string(inputs) + ") to " + std::to_string(outputs);
    const Tensor x = random_floats({n, inputs}, size.seed()), w = random_floats({outputs, inputs}, size.seed());
    check_operator("linear" + at, {x, w, random_floats({outputs}, size.seed())},
                   [](const Tensors& in) { return F::linear(in[0], in[1], in[2]); });
    check_operator("linear without bias" + at, {x, w}, [](const Tensors& in) { return F::linear(in[0], in[1]); });
  }
}

TEST_CASE("operators: linear of sizes that go to cuBLAS") {
  NEEDS_GPUS(1);
  Sizes size(3);
  for (int round = 0; round < (rounds + 1) / 2; ++round) {
    const int64_t n = size(33, 70), inputs = size(150, 400), outputs = size(110, 140);
    check_operator("linear", {random_floats({n, inputs}, size.seed()), random_floats({outputs, inputs}, size.seed()),
                              random_floats({outputs}, size.seed())},
                   [](const Tensors& in) { return F::linear(in[0], in[1], in[2]); });
  }
}

namespace {

void check_conv2d(const Shape& x, int64_t outputs, int64_t kernel, Conv2dParams params, bool bias, unsigned seed) {
  const std::string what = "conv2d of " + to_string(x) + " to " + std::to_string(outputs) + " channels, kernel " +
                           std::to_string(kernel) + ", stride " + std::to_string(params.stride) + ", padding " +
                           std::to_string(params.padding) + (bias ? "" : ", no bias");
  check_operator(what, {random_floats(x, seed), random_floats({outputs, x[1], kernel, kernel}, seed + 1),
                        bias ? random_floats({outputs}, seed + 2) : Tensor()},
                 [=](const Tensors& in) { return F::conv2d(in[0], in[1], in[2], params); });
}

}  // namespace

TEST_CASE("operators: conv2d with few channels, by implicit products") {
  NEEDS_GPUS(1);
  Sizes size(4);
  for (int round = 0; round < rounds; ++round) {
    const int64_t kernel = size.of({1, 2, 3, 5});
    check_conv2d({size(1, 5), size(1, 3), size(kernel, 13), size(kernel, 11)}, size(1, 15), kernel,
                 {size(1, 3), size(0, std::min<int64_t>(2, kernel - 1))},
                 round % 3 != 0, size.seed());
  }
  // More rows than the small tiles have.
  check_conv2d({2, 2, 7, 5}, 31, 3, {1, 1}, true, 5);
  check_conv2d({2, 2, 5, 7}, 67, 2, {2, 0}, true, 6);
}

TEST_CASE("operators: conv2d with many channels, by im2col and cuBLAS") {
  NEEDS_GPUS(1);
  Sizes size(7);
  for (int round = 0; round < rounds; ++round) {
    const int64_t kernel = size.of({3, 5});
    check_conv2d({size(1, 4), size(8, 13), size(kernel, 11), size(kernel, 9)}, size(16, 37), kernel, {size(1, 2), size(0, 2)},
                 round % 3 != 0, size.seed());
  }
}

TEST_CASE("operators: max_pool2d, windows apart and overlapping") {
  NEEDS_GPUS(1);
  Sizes size(8);
  for (int round = 0; round < rounds; ++round) {
    const int64_t kernel = size(1, 4), stride = size(1, 3);
    const Shape shape{size(1, 4), size(1, 5), size(kernel, 13), size(kernel, 11)};
    check_operator("max_pool2d of " + to_string(shape) + ", kernel " + std::to_string(kernel) + ", stride " + std::to_string(stride),
                   {random_floats(shape, size.seed())}, [=](const Tensors& in) { return F::max_pool2d(in[0], kernel, stride); });
  }
}

TEST_CASE("operators: max_pool2d takes the first of equals") {
  NEEDS_GPUS(1);
  check_operator("equal values", {Tensor::full({2, 3, 5, 5}, 0.75)}, [](const Tensors& in) { return F::max_pool2d(in[0], 3, 1); });
}

TEST_CASE("operators: log_softmax, nll_loss and cross_entropy") {
  NEEDS_GPUS(1);
  Sizes size(9);
  for (int round = 0; round < rounds; ++round) {
    const int64_t rows = size(1, 70), classes = size(2, 77);
    const std::string at = " of (" + std::to_string(rows) + ", " + std::to_string(classes) + ")";
    const Tensor x = random_floats({rows, classes}, size.seed()), target = random_targets(rows, classes, size.seed());
    check_operator("log_softmax" + at, {x}, [](const Tensors& in) { return F::log_softmax(F::scale(in[0], 5)); });
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      check_operator("nll_loss" + at, {F::log_softmax(x), target},
                     [=](const Tensors& in) { return F::nll_loss(in[0], in[1], reduction); });
      check_operator("cross_entropy" + at, {x, target}, [=](const Tensors& in) { return F::cross_entropy(in[0], in[1], reduction); });
    }
  }
}

TEST_CASE("operators: log_softmax of large scores does not overflow") {
  NEEDS_GPUS(1);
  check_operator("large", {random_floats({7, 13}, 10)}, [](const Tensors& in) { return F::log_softmax(F::scale(in[0], 1000)); }, 1e-6, 2e-5);
}

TEST_CASE("operators: batch_norm, training and evaluation") {
  NEEDS_GPUS(1);
  Sizes size(11);
  for (int round = 0; round < rounds; ++round) {
    const int64_t channels = size(1, 9);
    const Shape shape = round % 2 == 0 ? Shape{size(2, 5), channels, size(2, 9), size(1, 7)} : Shape{size(2, 40), channels};
    const Tensor x = random_floats(shape, size.seed()), w = random_floats({channels}, size.seed()), b = random_floats({channels}, size.seed());
    for (const bool training : {true, false}) {
      const auto norm = [&](const Tensors& in) {
        Tensor mean = Tensor::full({channels}, 0.25, in[0].dtype(), in[0].device());
        Tensor var = Tensor::full({channels}, 0.75, in[0].dtype(), in[0].device());
        return F::batch_norm(in[0], in[1], in[2], mean, var, training);
      };
      // With few values a channel the normalised ones are large where the variance is small.
      check_operator("batch_norm of " + to_string(shape), {x, w, b}, norm, 1e-5, 1e-4);
      const auto running = [&](const Tensors& in) {
        Tensor mean = Tensor::full({channels}, 0.25, in[0].dtype(), in[0].device());
        Tensor var = Tensor::full({channels}, 0.75, in[0].dtype(), in[0].device());
        F::batch_norm(in[0], in[1], in[2], mean, var, training);
        return F::add(mean, var);
      };
      check_operator("running statistics of " + to_string(shape), {x, w, b}, running);
    }
  }
}
