// Every operator's backward, in double, against finite differences, on uneven shapes.
#include "common/nn/functional.h"
#include "common/nn/layers.h"
#include "tests/support/catch.h"
#include "tests/support/gradients.h"

using namespace miniddp;
using namespace miniddp::testing;
namespace F = miniddp::functional;
using Tensors = std::vector<Tensor>;

static constexpr double tolerance = 1e-7;

TEST_CASE("add, mul, scale, sum and mean") {
  const Tensors two{random_tensor({3, 7}, 1), random_tensor({3, 7}, 2)};
  CHECK(largest_gradient_error([](const Tensors& in) { return F::add(in[0], in[1]); }, two) <= tolerance);
  CHECK(largest_gradient_error([](const Tensors& in) { return F::mul(in[0], in[1]); }, two) <= tolerance);
  CHECK(largest_gradient_error([](const Tensors& in) { return F::scale(in[0], -2.5); }, {two[0]}) <= tolerance);
  CHECK(largest_gradient_error([](const Tensors& in) { return F::sum(in[0]); }, {two[0]}) <= tolerance);
  CHECK(largest_gradient_error([](const Tensors& in) { return F::mean(in[0]); }, {two[0]}) <= tolerance);
}

TEST_CASE("one tensor used twice: contributions add up") {
  CHECK(largest_gradient_error([](const Tensors& in) { return F::add(F::mul(in[0], in[0]), in[0]); }, {random_tensor({5, 3}, 3)}) <=
        tolerance);
}

TEST_CASE("relu") {
  CHECK(largest_gradient_error([](const Tensors& in) { return F::relu(in[0]); }, {random_tensor({13, 7}, 4)}) <= tolerance);
}

TEST_CASE("views: view, flatten, narrow, clone") {
  const Tensor x = random_tensor({5, 2, 3}, 5);
  CHECK(largest_gradient_error([](const Tensors& in) { return in[0].view({6, -1}); }, {x}) <= tolerance);
  CHECK(largest_gradient_error([](const Tensors& in) { return F::flatten(in[0]); }, {x}) <= tolerance);
  CHECK(largest_gradient_error([](const Tensors& in) { return in[0].narrow(1, 3); }, {x}) <= tolerance);
  CHECK(largest_gradient_error([](const Tensors& in) { return in[0].clone(); }, {x}) <= tolerance);
}

TEST_CASE("moving to another device and back") {
  CHECK(largest_gradient_error([](const Tensors& in) { return F::scale(in[0].to(Device{DeviceType::cpu, 1}), 3).to(Device{}); },
                               {random_tensor({4, 3}, 6)}) <= tolerance);
}

TEST_CASE("linear, with and without bias") {
  const Tensor x = random_tensor({5, 7}, 7), w = random_tensor({3, 7}, 8), b = random_tensor({3}, 9);
  CHECK(largest_gradient_error([](const Tensors& in) { return F::linear(in[0], in[1], in[2]); }, {x, w, b}) <= tolerance);
  CHECK(largest_gradient_error([](const Tensors& in) { return F::linear(in[0], in[1]); }, {x, w}) <= tolerance);
}

TEST_CASE("conv2d: kernels, strides, padding") {
  struct Case {
    Shape x, w;
    Conv2dParams params;
  };
  const std::vector<Case> cases{{{2, 3, 7, 6}, {5, 3, 3, 3}, {1, 0}},
                                {{3, 1, 5, 5}, {2, 1, 5, 5}, {1, 0}},
                                {{1, 2, 7, 5}, {3, 2, 3, 3}, {2, 1}},
                                {{2, 2, 4, 4}, {3, 2, 1, 1}, {1, 0}},
                                {{1, 1, 3, 8}, {1, 1, 2, 2}, {3, 2}}};
  for (const Case& each : cases) {
    const Tensor x = random_tensor(each.x, 10), w = random_tensor(each.w, 11), b = random_tensor({each.w[0]}, 12);
    INFO("x " << to_string(each.x) << ", w " << to_string(each.w));
    const auto conv = [&](const Tensors& in) { return F::conv2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), each.params); };
    CHECK(largest_gradient_error(conv, {x, w, b}) <= tolerance);
    CHECK(largest_gradient_error(conv, {x, w}) <= tolerance);
  }
}

TEST_CASE("max_pool2d: leftover rows, overlapping windows") {
  CHECK(largest_gradient_error([](const Tensors& in) { return F::max_pool2d(in[0], 2); }, {random_tensor({2, 3, 7, 5}, 13)}) <= tolerance);
  CHECK(largest_gradient_error([](const Tensors& in) { return F::max_pool2d(in[0], 3, 2); }, {random_tensor({1, 2, 7, 8}, 14)}) <=
        tolerance);
}

TEST_CASE("dropout and dropout2d with a fixed mask") {
  const auto drop = [](const Tensors& in) {
    Generator generator(5);
    return F::dropout(in[0], 0.4, true, &generator);
  };
  CHECK(largest_gradient_error(drop, {random_tensor({7, 5}, 15)}) <= tolerance);
  const auto drop2d = [](const Tensors& in) {
    Generator generator(6);
    return F::dropout2d(in[0], 0.4, true, &generator);
  };
  CHECK(largest_gradient_error(drop2d, {random_tensor({3, 5, 2, 3}, 16)}) <= tolerance);
}

TEST_CASE("log_softmax, nll_loss and cross_entropy") {
  const Tensor x = random_tensor({5, 7}, 17);
  const Tensor target = Tensor::from(std::vector<int64_t>{6, 0, 3, 3, 1}, {5});
  CHECK(largest_gradient_error([](const Tensors& in) { return F::log_softmax(in[0]); }, {x}) <= tolerance);
  for (Reduction reduction : {Reduction::mean, Reduction::sum}) {
    CHECK(largest_gradient_error([&](const Tensors& in) { return F::nll_loss(in[0], target, reduction); }, {x}) <= tolerance);
    CHECK(largest_gradient_error([&](const Tensors& in) { return F::cross_entropy(in[0], target, reduction); }, {x}) <= tolerance);
  }
}

TEST_CASE("batch_norm, training and evaluation") {
  const Tensors inputs{random_tensor({3, 4, 2, 5}, 18), random_tensor({4}, 19), random_tensor({4}, 20)};
  for (bool training : {true, false}) {
    const auto norm = [&](const Tensors& in) {
      Tensor mean = Tensor::full({4}, 0.25, DType::float64);
      Tensor var = Tensor::full({4}, 0.75, DType::float64);
      return F::batch_norm(in[0], in[1], in[2], mean, var, training);
    };
    CHECK(largest_gradient_error(norm, inputs) <= 1e-6);
  }
}

TEST_CASE("the check itself fails on a wrong gradient, a missing one and an empty proof") {
  const Tensor x = random_tensor({3, 2}, 21);
  const auto detached = [](const Tensors& in) { return F::add(in[0], F::scale(in[0].detach(), 2)); };
  CHECK(largest_gradient_error(detached, {x}) > 0.1);
  CHECK_THROWS_AS(largest_gradient_error([](const Tensors& in) { return F::scale(in[0], 0); }, {x.clone()}), Error);
}
