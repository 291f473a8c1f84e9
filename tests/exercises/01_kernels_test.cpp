// Tests of the exercises of chapter 01: each kernel against a plain loop.
#include <cmath>

#include "common/kernels/cuda/pooling.h"
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
