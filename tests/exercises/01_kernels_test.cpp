// Tests of the exercises of chapter 01: each kernel against a plain loop.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <tuple>

#include "common/kernels/cuda/elementwise.h"
#include "common/kernels/cuda/log_softmax.h"
#include "common/kernels/cuda/matmul.h"
#include "common/kernels/cuda/nll_loss.h"
#include "common/kernels/cuda/pooling.h"
#include "common/kernels/cuda/sgd.h"
#include "tests/emulator/device_buffer.h"
#include "tests/exercises/expect.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

struct Pooled {
  std::vector<double> y, winner;
};

// One window after the other.
Pooled pool_by_hand(const cuda::PoolShape& s, const std::vector<float>& x) {
  Pooled result;
  for (int64_t output = 0; output < s.planes * s.oh * s.ow; ++output) {
    const int64_t plane = output / (s.oh * s.ow), row = output / s.ow % s.oh, column = output % s.ow;
    float best = -INFINITY;
    int place = -1;
    for (int p = 0; p < s.kernel * s.kernel && !std::isnan(best); ++p) {
      const auto at = static_cast<size_t>((plane * s.h + row * s.stride + p / s.kernel) * s.w + column * s.stride + p % s.kernel);
      if (x[at] > best || std::isnan(x[at])) {
        best = x[at];
        place = p;
      }
    }
    result.y.push_back(best);
    result.winner.push_back(place);
  }
  return result;
}

Pooled pool_on_device(const cuda::PoolShape& s, const std::vector<float>& x) {
  const auto outputs = static_cast<size_t>(s.planes * s.oh * s.ow);
  const DeviceBuffer<float> in(x), y(std::vector<float>(outputs, -7));
  const DeviceBuffer<uint8_t> winner(std::vector<uint8_t>(outputs, 250));
  cuda::max_pool2d_forward<float>(nullptr, s, in.get(), y.get(), winner.get());
  testing::check(cudaDeviceSynchronize());
  return {doubles(y.values()), doubles(winner.values())};
}

// The device's results; `out` is filled before, so that what is not written is found.
std::vector<double> on_device(size_t outputs, const std::function<void(float* out)>& kernel) {
  const DeviceBuffer<float> out(std::vector<float>(outputs, -7));
  kernel(out.get());
  testing::check(cudaDeviceSynchronize());
  return doubles(out.values());
}

std::vector<float> with_zeros(size_t n, unsigned seed) {
  std::vector<float> values = random_floats(n, seed);
  for (size_t i = 5; i < n; i += 11) values[i] = 0;
  return values;
}

}  // namespace

TEST_CASE("01.1 max-pool kernel", "[01.1]") {
  // The last one has more outputs than a block has threads.
  for (const cuda::PoolShape& s : {cuda::PoolShape{3, 4, 6, 2, 3, 2, 2}, cuda::PoolShape{5, 7, 9, 5, 4, 3, 1},
                                   cuda::PoolShape{2, 9, 8, 3, 3, 2, 3}, cuda::PoolShape{2, 40, 38, 20, 19, 2, 2}}) {
    const std::string name = fmt::format("{} planes of ({}, {}), kernel {}, stride {}", s.planes, s.h, s.w, s.kernel, s.stride);
    const std::vector<float> x = random_floats(static_cast<size_t>(s.planes * s.h * s.w), 11);
    const Pooled expected = pool_by_hand(s, x), found = pool_on_device(s, x);
    expect_close("y, " + name, found.y, expected.y, 0);
    expect_close("winner, " + name, found.winner, expected.winner, 0);
  }
  const cuda::PoolShape s{1, 2, 4, 1, 2, 2, 2};
  const Pooled equal = pool_on_device(s, {1, 1, 0, 2, 1, 1, 2, 2});
  expect_equal("winner among equals", equal.winner, std::vector<double>{0, 1});
  const Pooled nan = pool_on_device(s, {1, NAN, 3, 4, 5, 6, NAN, 5});
  expect_equal("winner where one is NaN", nan.winner, std::vector<double>{1, 2});
}

TEST_CASE("01.2 relu kernel", "[01.2]") {
  for (const size_t n : {size_t{1}, size_t{256}, size_t{1000}, size_t{70'001}}) {
    const std::vector<float> x = with_zeros(n, 3);
    const DeviceBuffer<float> in(x);
    std::vector<double> expected;
    for (const float value : x) expected.push_back(std::max(value, 0.0F));
    expect_close(fmt::format("y of {} elements", n), on_device(n, [&](float* y) {
                   cuda::relu_forward<float>(nullptr, static_cast<int64_t>(n), in.get(), y);
                 }), expected, 0);
  }
  const DeviceBuffer<float> in(std::vector<float>{1, NAN, -1});
  const std::vector<double> y = on_device(3, [&](float* out) { cuda::relu_forward<float>(nullptr, 3, in.get(), out); });
  expect(std::isnan(y[1]), fmt::format("y of NaN: expected NaN, found {}", y[1]));
}

TEST_CASE("01.3 relu's gradient", "[01.3]") {
  for (const size_t n : {size_t{1}, size_t{256}, size_t{1000}, size_t{70'001}}) {
    const std::vector<float> y = with_zeros(n, 4), dy = random_floats(n, 5);
    const DeviceBuffer<float> out(y), gradient(dy);
    std::vector<double> expected;
    for (size_t i = 0; i < n; ++i) expected.push_back(y[i] > 0 ? dy[i] : 0);
    expect_close(fmt::format("dx of {} elements, some with y = 0", n), on_device(n, [&](float* dx) {
                   cuda::relu_backward<float>(nullptr, static_cast<int64_t>(n), gradient.get(), out.get(), dx);
                 }), expected, 0);
  }
}

TEST_CASE("01.4 max-pool's gradient", "[01.4]") {
  for (const cuda::PoolShape& s : {cuda::PoolShape{3, 4, 6, 2, 3, 2, 2}, cuda::PoolShape{5, 7, 9, 5, 7, 3, 1},
                                   cuda::PoolShape{2, 9, 8, 3, 3, 2, 3}, cuda::PoolShape{2, 40, 38, 20, 19, 2, 2}}) {
    const Pooled pooled = pool_by_hand(s, random_floats(static_cast<size_t>(s.planes * s.h * s.w), 12));
    const std::vector<float> dy = random_floats(pooled.y.size(), 13);
    std::vector<double> expected(static_cast<size_t>(s.planes * s.h * s.w));
    for (int64_t output = 0; output < static_cast<int64_t>(dy.size()); ++output) {
      const int64_t plane = output / (s.oh * s.ow), row = output / s.ow % s.oh, column = output % s.ow;
      const auto place = static_cast<int64_t>(pooled.winner[static_cast<size_t>(output)]);
      expected[static_cast<size_t>((plane * s.h + row * s.stride + place / s.kernel) * s.w + column * s.stride + place % s.kernel)] +=
          dy[static_cast<size_t>(output)];
    }
    const DeviceBuffer<float> gradient(dy);
    const DeviceBuffer<uint8_t> winner(std::vector<uint8_t>(pooled.winner.begin(), pooled.winner.end()));
    expect_close(fmt::format("dx, {} planes of ({}, {}), kernel {}, stride {}", s.planes, s.h, s.w, s.kernel, s.stride),
                 on_device(expected.size(), [&](float* dx) {
                   cuda::max_pool2d_backward<float>(nullptr, s, gradient.get(), winner.get(), dx);
                 }), expected, 1e-6);
  }
}

TEST_CASE("01.5 matrix product with tiles", "[01.5]") {
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{16, 16, 16}, {16, 16, 48}, {3, 5, 7}, {33, 20, 50}, {1, 40, 17}}) {
    const std::vector<float> a = random_floats(static_cast<size_t>(m * k), 14), b = random_floats(static_cast<size_t>(k * n), 15);
    std::vector<double> expected;
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(a[static_cast<size_t>(row * k + i)]) * b[static_cast<size_t>(i * n + column)];
        expected.push_back(sum);
      }
    }
    const DeviceBuffer<float> left(a), right(b);
    expect_close(fmt::format("c, row by row, of ({}, {}) times ({}, {})", m, k, k, n), on_device(expected.size(), [&, m = m, n = n, k = k](float* c) {
                   cuda::matmul_tiled<float>(nullptr, m, n, k, left.get(), right.get(), c);
                 }), expected, 1e-5);
  }
}

TEST_CASE("01.6 log-softmax kernel", "[01.6]") {
  for (const auto& [rows, classes] : {std::pair<size_t, size_t>{1, 10}, {13, 10}, {5, 100}, {3, 2}}) {
    std::vector<float> x = random_floats(rows * classes, 16);
    for (float& value : x) value = 200 * value + 100;  // exp of the largest would overflow
    std::vector<double> expected;
    for (size_t row = 0; row < rows; ++row) {
      const auto* in = x.data() + row * classes;
      const double largest = *std::max_element(in, in + classes);
      double total = 0;
      for (size_t c = 0; c < classes; ++c) total += std::exp(in[c] - largest);
      for (size_t c = 0; c < classes; ++c) expected.push_back(in[c] - largest - std::log(total));
    }
    const DeviceBuffer<float> in(x);
    expect_close(fmt::format("y, {} rows of {} classes, scores from -100 to 300", rows, classes), on_device(expected.size(), [&, rows = rows, classes = classes](float* y) {
                   cuda::log_softmax_forward<float>(nullptr, static_cast<int64_t>(rows), static_cast<int64_t>(classes), in.get(), y);
                 }), expected, 1e-3);
  }
}

TEST_CASE("01.7 nll_loss kernel", "[01.7]") {
  for (const bool mean : {true, false}) {
    for (const size_t rows : {size_t{1}, size_t{9}, size_t{600}}) {  // the last has more rows than the block has threads
      constexpr size_t classes = 7;
      const std::vector<float> x = random_floats(rows * classes, 17);
      std::vector<int64_t> target;
      double expected = 0;
      for (size_t row = 0; row < rows; ++row) {
        target.push_back(static_cast<int64_t>(row * row % classes));
        expected -= x[row * classes + static_cast<size_t>(target.back())] / (mean ? static_cast<double>(rows) : 1);
      }
      const DeviceBuffer<float> in(x);
      const DeviceBuffer<int64_t> labels(target);
      const DeviceBuffer<cuda::TargetReport> report(std::vector<cuda::TargetReport>(1));
      expect_close(fmt::format("{} loss of {} rows", mean ? "mean" : "summed", rows), on_device(1, [&](float* loss) {
                     cuda::nll_loss_forward<float>(nullptr, static_cast<int64_t>(rows), classes, in.get(), labels.get(), mean, report.get(), loss);
                   }), {expected}, 1e-4);
    }
  }
  const DeviceBuffer<float> in(std::vector<float>{-1, -2, -3, -4});
  const DeviceBuffer<int64_t> labels(std::vector<int64_t>{1, -1});  // two classes
  const DeviceBuffer<cuda::TargetReport> report(std::vector<cuda::TargetReport>(1));
  const auto loss = on_device(1, [&](float* out) { cuda::nll_loss_forward<float>(nullptr, 2, 2, in.get(), labels.get(), false, report.get(), out); });
  expect_equal("row that the report names for targets 1 and -1 of 2 classes, plus one", report.values()[0].row_plus_one, 2ULL);
  expect_close("summed loss of rows -1 -2 and -3 -4 with targets 1 and -1: the second does not count", loss, {2}, 0);
}

TEST_CASE("01.8 nll_loss's gradient", "[01.8]") {
  for (const bool mean : {true, false}) {
    for (const size_t rows : {size_t{1}, size_t{9}, size_t{600}}) {
      constexpr size_t classes = 7;
      std::vector<int64_t> target;
      std::vector<double> expected(rows * classes);
      for (size_t row = 0; row < rows; ++row) {
        target.push_back(static_cast<int64_t>(row * row % classes));
        expected[row * classes + static_cast<size_t>(target.back())] = -0.5 / (mean ? static_cast<double>(rows) : 1);
      }
      const DeviceBuffer<float> dloss(std::vector<float>{0.5});
      const DeviceBuffer<int64_t> labels(target);
      const DeviceBuffer<cuda::TargetReport> report(std::vector<cuda::TargetReport>(1));
      expect_close(fmt::format("dx of the {} loss of {} rows, gradient of the loss 0.5", mean ? "mean" : "summed", rows), on_device(expected.size(), [&](float* dx) {
                     cuda::nll_loss_backward<float>(nullptr, static_cast<int64_t>(rows), classes, dloss.get(), labels.get(), mean, report.get(), dx);
                   }), expected, 1e-7);
    }
  }
  const DeviceBuffer<float> dloss(std::vector<float>{1});
  const DeviceBuffer<int64_t> labels(std::vector<int64_t>{0, 2});
  const DeviceBuffer<cuda::TargetReport> report(std::vector<cuda::TargetReport>(1));
  on_device(4, [&](float* dx) { cuda::nll_loss_backward<float>(nullptr, 2, 2, dloss.get(), labels.get(), false, report.get(), dx); });
  expect_equal("row that the report names for targets 0 and 2 of 2 classes, plus one", report.values()[0].row_plus_one, 2ULL);
}

TEST_CASE("01.9 one SGD step for all parameters", "[01.9]") {
  // More than one launch takes; some with more elements than a block works on.
  std::vector<size_t> sizes{3000, 1, 1024, 1025, 5};
  while (sizes.size() < 35) sizes.push_back(sizes.size());
  for (const SgdParams& options : {SgdParams{.lr = 0.1}, SgdParams{.lr = 0.1, .momentum = 0.9, .dampening = 0.25},
                                   SgdParams{.lr = 0.2, .momentum = 0.5, .weight_decay = 0.1, .nesterov = true}}) {
    for (const bool first : {true, false}) {
      const std::string run = fmt::format("{} step, momentum {}, dampening {}, weight decay {}{}", first ? "first" : "later", options.momentum,
                                          options.dampening, options.weight_decay, options.nesterov ? ", nesterov" : "");
      std::vector<std::unique_ptr<DeviceBuffer<float>>> params, grads, buffers;
      std::vector<cuda::SgdParameter<float>> all;
      std::vector<std::vector<double>> expected_params, expected_buffers;
      for (size_t p = 0; p < sizes.size(); ++p) {
        const auto seed = static_cast<unsigned>(3 * p);
        const std::vector<float> param = random_floats(sizes[p], seed), grad = random_floats(sizes[p], seed + 1), buffer = random_floats(sizes[p], seed + 2);
        params.push_back(std::make_unique<DeviceBuffer<float>>(param));
        grads.push_back(std::make_unique<DeviceBuffer<float>>(grad));
        buffers.push_back(std::make_unique<DeviceBuffer<float>>(buffer));
        all.push_back({params[p]->get(), grads[p]->get(), options.momentum != 0 ? buffers[p]->get() : nullptr, first, static_cast<int64_t>(sizes[p])});
        expected_params.emplace_back();
        expected_buffers.emplace_back();
        for (size_t i = 0; i < sizes[p]; ++i) {
          const double slope = grad[i] + options.weight_decay * param[i];
          const double velocity = options.momentum == 0 || first ? slope : options.momentum * buffer[i] + (1 - options.dampening) * slope;
          expected_params[p].push_back(param[i] - options.lr * (options.nesterov ? slope + options.momentum * velocity : velocity));
          expected_buffers[p].push_back(options.momentum == 0 ? buffer[i] : velocity);
        }
      }
      cuda::sgd_step<float>(nullptr, all, options);
      testing::check(cudaDeviceSynchronize());
      for (size_t p = 0; p < sizes.size(); ++p) {
        expect_close(fmt::format("parameter {} of {} elements, {}", p, sizes[p], run), doubles(params[p]->values()), expected_params[p], 1e-6);
        expect_close(fmt::format("buffer of parameter {}, {}", p, run), doubles(buffers[p]->values()), expected_buffers[p], 1e-6);
      }
    }
  }
}
