// The CPU's float32 kernels against the same kernels in float64, on random, uneven shapes; and what both must do with
// NaN, empty batches and wrong targets. Convolution and pooling have tests of their own.
#include <cmath>
#include <limits>
#include <thread>

#include "tests/support/against_float64.h"

using namespace miniddp;
using namespace miniddp::testing;

TEST_CASE("linear agrees with float64") {
  Generator generator(14);
  for (const auto& [n, inputs, outputs] : {std::tuple<int64_t, int64_t, int64_t>{1, 13, 7}, {64, 129, 10}, {5, 1, 3}, {37, 300, 65}}) {
    const Tensor x = random_tensor({n, inputs}, generator), w = random_tensor({outputs, inputs}, generator);
    const Tensor b = random_tensor({outputs}, generator), dy = random_tensor({n, outputs}, generator);
    const auto forward = [](const auto& in, Tensor& y) { cpu().linear_forward(in[0], in[1], in[2], y); };
    check_against_float64("linear", forward, {x, w, b}, {n, outputs});
    check_against_float64("linear without bias", forward, {x, w, Tensor()}, {n, outputs});
    check_against_float64("linear backward input", [](const auto& in, Tensor& dx) {
      cpu().linear_backward_input(in[0], in[1], dx);
    }, {dy, w}, {n, inputs});
    check_against_float64("linear backward weight", [](const auto& in, Tensor& dw) {
      Tensor none;
      cpu().linear_backward_weight(in[0], in[1], dw, none);
    }, {dy, x}, {outputs, inputs});
    check_against_float64("linear backward bias", [&](const auto& in, Tensor& db) {
      Tensor dw = output({outputs, inputs}, db.dtype());
      cpu().linear_backward_weight(in[0], in[1], dw, db);
    }, {dy, x}, {outputs});
  }
}

TEST_CASE("linear of an empty batch: zero gradients") {
  Generator generator(15);
  const Tensor x = Tensor::empty({0, 4}), w = random_tensor({3, 4}, generator);
  Tensor y = Tensor::empty({0, 3}), dx = Tensor::empty({0, 4}), dw = output({3, 4}), db = output({3});
  cpu().linear_forward(x, w, Tensor(), y);
  cpu().linear_backward_input(y, w, dx);
  cpu().linear_backward_weight(y, x, dw, db);
  CHECK(dw.to_vector<float>() == std::vector<float>(12, 0.0f));
  CHECK(db.to_vector<float>() == std::vector<float>(3, 0.0f));
}

TEST_CASE("kernels that work element by element agree with float64, below and above the size that is shared out") {
  Generator generator(16);
  for (const int64_t n : {1, 13, 70001}) {
    const Tensor a = random_tensor({n}, generator), b = random_tensor({n}, generator);
    const std::vector<Tensor> both{a, b};
    check_against_float64("add", [](const auto& in, Tensor& out) { cpu().add(in[0], in[1], out); }, both, {n});
    check_against_float64("mul", [](const auto& in, Tensor& out) { cpu().mul(in[0], in[1], out); }, both, {n});
    check_against_float64("scale", [](const auto& in, Tensor& out) { cpu().scale(in[0], -1.7, out); }, both, {n});
    check_against_float64("axpy", [](const auto& in, Tensor& out) {
      cpu().scale(in[1], 1, out);
      cpu().axpy(0.3, in[0], out);
    }, both, {n});
    const Tensor positive = random_tensor({n}, generator, 0.1f, 1);
    check_against_float64("relu", [](const auto& in, Tensor& out) { cpu().relu_forward(in[0], out); },
                          {n == 1 ? positive : a}, {n});
    check_against_float64("relu backward", [](const auto& in, Tensor& out) { cpu().relu_backward(in[0], in[1], out); },
                          {a, n == 1 ? positive : b}, {n});
    check_against_float64("sum", [](const auto& in, Tensor& out) { cpu().sum(in[0], out); }, {positive}, {});
    check_against_float64("fill", [](const auto&, Tensor& out) { cpu().fill(out, 2.5); }, {}, {n});
  }
}

TEST_CASE("relu keeps NaN and scale works in place") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from({nan, -1.0f, 2.0f}, {3});
  Tensor y = Tensor::empty({3});
  cpu().relu_forward(x, y);
  CHECK(std::isnan(y.to_vector<float>()[0]));
  CHECK(y.to_vector<float>()[1] == 0);
  CHECK(y.to_vector<float>()[2] == 2);
  Tensor a = Tensor::from({1.0f, -3.0f}, {2});
  cpu().scale(a, 0.5, a);
  CHECK(a.to_vector<float>() == std::vector<float>{0.5f, -1.5f});
}

TEST_CASE("dropout mask draws what Generator::bernoulli draws, and planes are scaled whole") {
  Generator generator(17), same(17);
  Tensor mask = Tensor::empty({5, 13});
  cpu().dropout_mask(0.75, generator, mask);
  std::vector<float> expected;
  for (int i = 0; i < 65; ++i) expected.push_back(same.bernoulli(0.75) ? 1.0f / 0.75f : 0.0f);
  CHECK(mask.to_vector<float>() == expected);
  CHECK(generator.draws() == 130);
  const Tensor x = random_tensor({5, 13, 3, 7}, generator);
  const auto scale = [](const auto& in, Tensor& y) { cpu().scale_planes(in[0], in[1], y); };
  check_against_float64("planes", scale, {x, mask}, {5, 13, 3, 7});
  check_against_float64("elements", scale, {mask, mask}, {5, 13});
}

TEST_CASE("log_softmax, nll_loss and their gradients agree with float64") {
  Generator generator(18);
  for (const auto& [n, classes] : {std::pair<int64_t, int64_t>{1, 2}, {13, 7}, {1000, 10}}) {
    const Tensor x = random_tensor({n, classes}, generator, -30, 30), dy = random_tensor({n, classes}, generator);
    const Tensor labels = random_labels(n, classes, generator), dloss = random_tensor({}, generator, 1, 2);
    check_against_float64("log_softmax", [](const auto& in, Tensor& y) { cpu().log_softmax_forward(in[0], y); }, {x}, {n, classes});
    const Tensor y = random_tensor({n, classes}, generator, -5, -0.1f);
    check_against_float64("log_softmax backward", [](const auto& in, Tensor& dx) { cpu().log_softmax_backward(in[0], in[1], dx); },
                          {dy, y}, {n, classes});
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      check_against_float64("nll_loss", [&](const auto& in, Tensor& loss) {
        cpu().nll_loss_forward(in[0], in[1], reduction, loss);
      }, {y, labels}, {});
      check_against_float64("nll_loss backward", [&](const auto& in, Tensor& dx) {
        cpu().nll_loss_backward(in[0], in[1], reduction, dx);
      }, {dloss, labels}, {n, classes});
    }
  }
}

TEST_CASE("log_softmax of large scores stays finite, and rows of probabilities add up to 1") {
  Tensor y = Tensor::empty({2, 3});
  cpu().log_softmax_forward(Tensor::from({1000, 999, -1000, 0, 0, 0}, {2, 3}), y);
  const std::vector<float> found = y.to_vector<float>();
  for (int row = 0; row < 2; ++row) {
    double total = 0;
    for (int c = 0; c < 3; ++c) total += std::exp(found[row * 3 + c]);
    CHECK(std::abs(total - 1) <= 1e-6);
  }
}

TEST_CASE("nll_loss names a target out of range, its row and the number of classes, and an empty batch gives NaN") {
  const Tensor x = Tensor::zeros({3, 7});
  Tensor loss = Tensor::zeros({}), dx = Tensor::zeros({3, 7});
  for (const int64_t wrong : {int64_t{7}, int64_t{-1}}) {
    const Tensor target = Tensor::from(std::vector<int64_t>{0, wrong, 6}, {3});
    const auto message = Catch::Matchers::ContainsSubstring(fmt::format("found {} in row 1", wrong));
    CHECK_THROWS_WITH(cpu().nll_loss_forward(x, target, Reduction::mean, loss), message);
    CHECK_THROWS_WITH(cpu().nll_loss_backward(loss, target, Reduction::mean, dx),
                      Catch::Matchers::ContainsSubstring("there are 7 classes"));
  }
  const Tensor none = Tensor::empty({0}, DType::int64);
  cpu().nll_loss_forward(Tensor::empty({0, 7}), none, Reduction::mean, loss);
  CHECK(std::isnan(loss.item<float>()));
  cpu().nll_loss_forward(Tensor::empty({0, 7}), none, Reduction::sum, loss);
  CHECK(loss.item<float>() == 0);
}

TEST_CASE("count_correct adds up, takes the first of equals, and counts NaN as the largest") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x = Tensor::from({1, 3, 3, 5, 2, 1, 0, nan, 9, 1, 2, 3}, {4, 3});
  const Tensor target = Tensor::from(std::vector<int64_t>{1, 0, 1, 0}, {4});
  Tensor count = Tensor::full({}, 10, DType::int64);
  cpu().count_correct(x, target, count);
  CHECK(count.item<int64_t>() == 13);
}

TEST_CASE("batch norm's four pieces agree with float64") {
  Generator generator(20);
  for (const Shape& shape : {Shape{13, 7}, Shape{4, 3, 5, 6}, Shape{9, 33, 11, 7}}) {
    const int64_t c = shape[1];
    const Tensor x = random_tensor(shape, generator), dy = random_tensor(shape, generator);
    const Tensor mean = random_tensor({c}, generator), var = random_tensor({c}, generator, 0.1f, 2);
    const Tensor w = random_tensor({c}, generator), b = random_tensor({c}, generator);
    check_against_float64("mean", [&](const auto& in, Tensor& out) {
      Tensor other = output({c}, out.dtype());
      cpu().batch_norm_stats(in[0], out, other);
    }, {x}, {c});
    check_against_float64("variance", [&](const auto& in, Tensor& out) {
      Tensor other = output({c}, out.dtype());
      cpu().batch_norm_stats(in[0], other, out);
    }, {x}, {c});
    check_against_float64("inverse std", [](const auto& in, Tensor& out) { cpu().inverse_std(in[0], 1e-5, out); }, {var}, {c});
    check_against_float64("forward", [](const auto& in, Tensor& y) {
      cpu().batch_norm_forward(in[0], in[1], in[2], in[3], in[4], y);
    }, {x, mean, var, w, b}, shape);
    check_against_float64("sum of dy", [&](const auto& in, Tensor& out) {
      Tensor other = output({c}, out.dtype());
      cpu().batch_norm_backward_reduce(in[0], in[1], in[2], out, other);
    }, {dy, x, mean}, {c});
    check_against_float64("sum of dy (x - mean)", [&](const auto& in, Tensor& out) {
      Tensor other = output({c}, out.dtype());
      cpu().batch_norm_backward_reduce(in[0], in[1], in[2], other, out);
    }, {dy, x, mean}, {c});
    check_against_float64("backward input", [&](const auto& in, Tensor& dx) {
      cpu().batch_norm_backward_input(in[0], in[1], in[2], in[3], in[4], in[5], in[6], 17, dx);
    }, {dy, x, mean, var, w, b, mean}, shape);
  }
}

TEST_CASE("SGD with every option agrees with PyTorch's definition in float64") {
  Generator generator(21);
  const SgdParams all[] = {{0.1, 0, 0, 0, false}, {0.1, 0, 0, 0.01, false}, {0.1, 0.5, 0, 0, false},
                           {0.1, 0.9, 0.3, 0.01, false}, {0.1, 0.9, 0, 0.01, true}};
  for (const SgdParams& options : all) {
    for (const int64_t n : {13, 40001}) {
      std::vector<Tensor> params{random_tensor({n}, generator)}, buffers{Tensor()};
      if (options.momentum != 0) buffers[0] = output({n});
      std::vector<double> expected = wide(params[0]).to_vector<double>(), velocity;
      for (int step = 0; step < 3; ++step) {
        const std::vector<Tensor> grads{random_tensor({n}, generator)};
        const std::vector<double> grad = wide(grads[0]).to_vector<double>();
        const uint8_t first[] = {static_cast<uint8_t>(step == 0)};
        cpu().sgd_step(params, grads, buffers, first, options);
        velocity.resize(expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          double d = grad[i] + options.weight_decay * expected[i];
          if (options.momentum != 0) {
            velocity[i] = step == 0 ? d : options.momentum * velocity[i] + (1 - options.dampening) * d;
            d = options.nesterov ? d + options.momentum * velocity[i] : velocity[i];
          }
          expected[i] -= options.lr * d;
        }
      }
      const auto result = compare(to_doubles(params[0]), expected, 1e-6);
      INFO("momentum " << options.momentum << ": " << result.message);
      CHECK(result.passed);
    }
  }
}

TEST_CASE("results are the same bits again, and whichever thread computes them, and two threads may call at once") {
  Generator generator(22);
  const int64_t n = 21;
  const Tensor x = random_tensor({n, 32, 26, 26}, generator), w = random_tensor({64, 32, 3, 3}, generator);
  const Tensor b = random_tensor({64}, generator), dy = random_tensor({n, 64, 24, 24}, generator);
  const Tensor flat = random_tensor({n, 900}, generator), fc = random_tensor({50, 900}, generator);
  struct Results {
    Tensor y, dx, dw, db, z, total;
  };
  const auto compute = [&] {
    Results r{output(dy.shape()), output(x.shape()), output(w.shape()), output({64}), output({n, 50}), output({})};
    cpu().conv2d_forward(x, w, b, {}, r.y);
    cpu().conv2d_backward_input(dy, w, {}, r.dx);
    cpu().conv2d_backward_weight(dy, x, {}, r.dw, r.db);
    cpu().linear_forward(flat, fc, Tensor(), r.z);
    cpu().sum(dy, r.total);
    return r;
  };
  const Results first = compute();
  std::vector<Results> others(4);
  others[0] = compute();
  std::vector<std::thread> threads;
  for (size_t i = 1; i < others.size(); ++i) threads.emplace_back([&, i] { others[i] = compute(); });
  for (std::thread& thread : threads) thread.join();
  for (const Results& other : others) {
    CHECK(same_bits(first.y, other.y));
    CHECK(same_bits(first.dx, other.dx));
    CHECK(same_bits(first.dw, other.dw));
    CHECK(same_bits(first.db, other.db));
    CHECK(same_bits(first.z, other.z));
    CHECK(same_bits(first.total, other.total));
  }
}

TEST_CASE("the number of threads changes no bit of kernels that only share out elements") {
  Generator generator(23);
  const Tensor x = random_tensor({13, 7, 40, 42}, generator);
  const int threads = threads_per_device();
  std::vector<Tensor> sums, pools;
  for (const int use : {1, 2, 3}) {
    set_threads_per_device(use);
    sums.push_back(output({}));
    cpu().sum(x, sums.back());
    pools.push_back(output({13, 7, 20, 21}));
    Tensor winner = Tensor::empty({13, 7, 20, 21}, DType::uint8);
    cpu().max_pool2d_forward(x, {}, pools.back(), winner);
  }
  set_threads_per_device(threads);
  for (size_t i = 1; i < sums.size(); ++i) {
    CHECK(same_bits(sums[0], sums[i]));
    CHECK(same_bits(pools[0], pools[i]));
  }
}
