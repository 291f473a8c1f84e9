// Max-pool on the CPU: the fast 2x2 path and the general one against loops written out here.
#include <cmath>
#include <limits>

#include "common/core/generator.h"
#include "common/kernels/kernels.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace miniddp;

namespace {

struct PoolCase {
  int64_t n, c, h, w, kernel, stride;
  int64_t oh() const { return (h - kernel) / stride + 1; }
  int64_t ow() const { return (w - kernel) / stride + 1; }
};

struct Pooled {
  std::vector<double> y, dx;
  std::vector<uint8_t> winner;
};

/// As PyTorch scans a window: row by row; a larger element takes over, and so does NaN.
Pooled reference(const PoolCase& p, const std::vector<double>& x, const std::vector<double>& dy) {
  Pooled r;
  r.dx.assign(x.size(), 0);
  for (int64_t plane = 0; plane < p.n * p.c; ++plane) {
    for (int64_t i = 0; i < p.oh(); ++i) {
      for (int64_t j = 0; j < p.ow(); ++j) {
        double best = -std::numeric_limits<double>::infinity();
        int64_t at = -1, place = 0;
        for (int64_t k = 0; k < p.kernel * p.kernel; ++k) {
          const int64_t index = (plane * p.h + i * p.stride + k / p.kernel) * p.w + j * p.stride + k % p.kernel;
          if (at < 0 || x[index] > best || std::isnan(x[index])) {
            best = x[index];
            at = index;
            place = k;
          }
        }
        r.dx[at] += dy[r.y.size()];
        r.y.push_back(best);
        r.winner.push_back(static_cast<uint8_t>(place));
      }
    }
  }
  return r;
}

bool same_values(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] == b[i]) && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return true;
}

void check_case(const PoolCase& p, const Tensor& x, DType dtype) {
  Kernels& cpu = kernels(DeviceType::cpu);
  Generator generator(32);
  Tensor dy = Tensor::empty({p.n, p.c, p.oh(), p.ow()});
  generator.uniform_({dy.data<float>(), static_cast<size_t>(dy.numel())}, -1, 1);
  for (float& grad : std::span(dy.data<float>(), static_cast<size_t>(dy.numel()))) grad = std::round(grad * 1024) / 1024;
  const Tensor in = x.to(dtype), grad = dy.to(dtype);
  Tensor y = Tensor::full(dy.shape(), -77, dtype), dx = Tensor::full(x.shape(), -77, dtype);
  Tensor winner = Tensor::full(dy.shape(), 255, DType::uint8);
  cpu.max_pool2d_forward(in, {p.kernel, p.stride}, y, winner);
  cpu.max_pool2d_backward(grad, winner, {p.kernel, p.stride}, dx);
  const Pooled expected = reference(p, testing::to_doubles(in), testing::to_doubles(grad));
  CAPTURE(p.n, p.c, p.h, p.w, p.kernel, p.stride, name_of(dtype));
  CHECK(same_values(testing::to_doubles(y), expected.y));
  CHECK(winner.to_vector<uint8_t>() == expected.winner);
  CHECK(same_values(testing::to_doubles(dx), expected.dx));  // sums of multiples of 1/1024 are exact
}

const std::vector<PoolCase> cases{
    {13, 7, 24, 24, 2, 2}, {3, 5, 13, 11, 2, 2}, {2, 3, 12, 7, 2, 2}, {1, 1, 2, 2, 2, 2}, {40, 64, 24, 24, 2, 2},
    {2, 3, 11, 13, 3, 2},  {2, 2, 9, 8, 3, 3},   {2, 3, 7, 7, 2, 1},  {1, 2, 5, 6, 1, 1}, {1, 2, 31, 33, 15, 4},
    {2, 3, 10, 9, 2, 3},   {0, 3, 8, 8, 2, 2},   {1, 2, 2, 3, 2, 2},
};

}  // namespace

TEST_CASE("max-pool agrees with a loop written out, leftover rows and columns included") {
  Generator generator(31);
  for (const PoolCase& p : cases) {
    Tensor x = Tensor::empty({p.n, p.c, p.h, p.w});
    generator.uniform_({x.data<float>(), static_cast<size_t>(x.numel())}, -1, 1);
    check_case(p, x, DType::float32);
    check_case(p, x, DType::float64);
  }
}

TEST_CASE("max-pool: of equals the first wins, and NaN wins over all") {
  Generator generator(33);
  for (const PoolCase& p : cases) {
    Tensor x = Tensor::empty({p.n, p.c, p.h, p.w});
    for (float& value : std::span(x.data<float>(), static_cast<size_t>(x.numel()))) {
      const int64_t draw = generator.randint(0, 6);  // many ties, many NaN
      value = draw == 5 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(draw / 2) - 1;
    }
    check_case(p, x, DType::float32);
    check_case(p, x, DType::float64);
  }
}
