// Kernels that use every feature, against plain loops. The same file runs on a real GPU.
#include <cmath>
#include <numeric>

#include "tests/emulator/device_buffer.h"
#include "tests/emulator/kernels/kernels.h"
#include "tests/emulator/needs_devices.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace miniddp::testing {
namespace {

void require_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  const Comparison result = compare(found, expected, tolerance);
  INFO(result.message);
  CHECK(result.passed);
}

using Product = void (*)(int, int, int, const float*, const float*, float*, cudaStream_t);

void check_product(Product product, int m, int n, int k) {
  const auto a = random_floats(m * k, 1), b = random_floats(k * n, 2);
  std::vector<double> expected(m * n);
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l)
      for (int j = 0; j < n; ++j) expected[i * n + j] += double(a[i * k + l]) * b[l * n + j];
  const DeviceBuffer<float> device_a(a), device_b(b), device_c(m * n);
  product(m, n, k, device_a.get(), device_b.get(), device_c.get(), nullptr);
  INFO(m << " x " << n << " x " << k);
  require_close(doubles(device_c.values()), expected, 1e-5 * k);
}

}  // namespace

TEST_CASE("kernels: grid-stride loop") {
  NEEDS_DEVICES(1);
  for (const int n : {1, 255, 70001}) {
    const auto x = random_floats(n, 3), y = random_floats(n, 4);
    std::vector<double> expected(n);
    for (int i = 0; i < n; ++i) expected[i] = 2.5 * x[i] + y[i];
    const DeviceBuffer<float> device_x(x), device_y(y);
    saxpy(n, 2.5f, device_x.get(), device_y.get(), nullptr);
    require_close(doubles(device_y.values()), expected, 1e-6);
  }
}

TEST_CASE("kernels: an empty grid is no work") {
  NEEDS_DEVICES(1);
  saxpy(0, 1.0f, nullptr, nullptr, nullptr);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("kernels: matrix product in static shared memory") {
  NEEDS_DEVICES(1);
  check_product(sgemm_tiled, 67, 45, 70);
  check_product(sgemm_tiled, 13, 7, 1);
}

TEST_CASE("kernels: matrix product in dynamic shared memory") {
  NEEDS_DEVICES(1);
  check_product(sgemm_registers, 130, 70, 50);
  check_product(sgemm_registers, 5, 3, 17);
}

TEST_CASE("kernels: sum by shuffles and an atomic") {
  NEEDS_DEVICES(1);
  const auto x = random_floats(20003, 5);
  const DeviceBuffer<float> device_x(x), out(std::vector<float>{0});
  sum(int(x.size()), device_x.get(), out.get(), nullptr);
  const double expected = std::accumulate(x.begin(), x.end(), 0.0);
  CHECK(std::abs(out.values()[0] - expected) <= 1e-2);
}

TEST_CASE("kernels: histogram by atomics in shared memory") {
  NEEDS_DEVICES(1);
  std::vector<int> x(9001), expected(100);
  for (std::size_t i = 0; i < x.size(); ++i) ++expected[x[i] = int(i * 7919 % 97)];
  const DeviceBuffer<int> device_x(x), bins(std::vector<int>(100, 0));
  histogram(int(x.size()), device_x.get(), 100, bins.get(), nullptr);
  CHECK(bins.values() == expected);
}

TEST_CASE("kernels: prefix sum with barriers in a loop") {
  NEEDS_DEVICES(1);
  const auto x = random_floats(1000, 6);
  std::vector<double> expected(x.begin(), x.end());
  std::partial_sum(expected.begin(), expected.end(), expected.begin());
  const DeviceBuffer<float> device_x(x), y(x.size());
  prefix_sum(1000, device_x.get(), y.get(), nullptr);
  require_close(doubles(y.values()), expected, 1e-4);
}

TEST_CASE("kernels: three-dimensional grids and blocks") {
  NEEDS_DEVICES(1);
  const DeviceBuffer<int> out(std::size_t{3 * 5 * 2} * (7 * 3 * 2));
  places(dim3(3, 5, 2), dim3(7, 3, 2), out.get(), nullptr);
  std::vector<int> expected(30 * 42);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(out.values() == expected);
}

TEST_CASE("kernels: warp shuffles and votes") {
  NEEDS_DEVICES(1);
  const DeviceBuffer<int> out(32 * 7);
  warp_operations(out.get(), nullptr);
  std::vector<int> expected;
  for (int lane = 0; lane < 32; ++lane) {
    const int base = lane / 8 * 8;
    const int down = lane + 3 < base + 8 ? lane + 3 : lane;
    for (const int value : {50, (lane >= 3 ? lane - 3 : lane) * 10, down * 10, (lane ^ 5) * 10, 0x49249249, 1, 0})
      expected.push_back(value);
  }
  CHECK(out.values() == expected);
}

TEST_CASE("kernels: __syncwarp orders shared memory") {
  NEEDS_DEVICES(1);
  const auto x = random_floats(32 * 9, 7);
  const DeviceBuffer<float> device_x(x);
  reverse_in_warps(int(x.size()), device_x.get(), nullptr);
  std::vector<float> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = x[i ^ 31];
  CHECK(device_x.values() == expected);
}

TEST_CASE("kernels: atomics of every kind") {
  NEEDS_DEVICES(1);
  const DeviceBuffer<int> counters(std::vector<int>{-1, 1 << 30, 0, 0});
  atomics(32 * 11, counters.get(), nullptr);
  CHECK(counters.values() == std::vector<int>{32 * 11 - 1, 0, 32 * 11, 77});
}

}  // namespace miniddp::testing
