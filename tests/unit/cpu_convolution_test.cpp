// The CPU's convolution: float32 (oneDNN) against float64 (plain loops), and those against the definition.
#include "tests/support/against_float64.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

struct ConvCase {
  int64_t n, c, h, w, o, k, stride, padding;
  Shape x() const { return {n, c, h, w}; }
  Shape weight() const { return {o, c, k, k}; }
  Shape y() const { return {n, o, (h + 2 * padding - k) / stride + 1, (w + 2 * padding - k) / stride + 1}; }
  Conv2dParams params() const { return {stride, padding}; }
  std::string name() const {
    return fmt::format("conv x {} w {} stride {} padding {}", to_string(x()), to_string(weight()), stride, padding);
  }
};

const std::vector<ConvCase> conv_cases{
    {1, 1, 28, 28, 32, 3, 1, 0},   {7, 1, 28, 28, 10, 5, 1, 0},   {3, 32, 26, 26, 64, 3, 1, 0},
    {40, 32, 26, 26, 64, 3, 1, 0},  // several chunks
    {2, 17, 13, 11, 19, 3, 1, 1},  {5, 3, 9, 14, 7, 3, 2, 1},     {1, 16, 7, 7, 16, 3, 1, 2},
    {4, 5, 8, 6, 3, 1, 1, 0},      {2, 6, 11, 12, 9, 4, 3, 2},    {13, 33, 5, 6, 31, 3, 1, 0},
    {3, 2, 3, 3, 5, 3, 1, 0},      {2, 4, 10, 9, 1, 2, 2, 0},
};

}  // namespace

TEST_CASE("convolution forward, backward input and backward weight agree with float64") {
  Generator generator(11);
  const int threads = threads_per_device();
  for (const int use : {1, 2}) {
    set_threads_per_device(use);
    for (const ConvCase& c : conv_cases) {
      const Tensor x = random_tensor(c.x(), generator), w = random_tensor(c.weight(), generator);
      const Tensor b = random_tensor({c.o}, generator), dy = random_tensor(c.y(), generator);
      const auto forward = [&](const auto& in, Tensor& y) { cpu().conv2d_forward(in[0], in[1], in[2], c.params(), y); };
      check_against_float64(c.name() + " forward", forward, {x, w, b}, c.y(), 5e-6);
      check_against_float64(c.name() + " forward without bias", forward, {x, w, Tensor()}, c.y(), 5e-6);
      check_against_float64(c.name() + " backward input", [&](const auto& in, Tensor& dx) {
        cpu().conv2d_backward_input(in[0], in[1], c.params(), dx);
      }, {dy, w}, c.x(), 5e-6);
      check_against_float64(c.name() + " backward weight", [&](const auto& in, Tensor& dw) {
        Tensor none;
        cpu().conv2d_backward_weight(in[0], in[1], c.params(), dw, none);
      }, {dy, x}, c.weight(), 5e-6);
      check_against_float64(c.name() + " backward bias", [&](const auto& in, Tensor& db) {
        Tensor dw = output(c.weight(), db.dtype());
        cpu().conv2d_backward_weight(in[0], in[1], c.params(), dw, db);
      }, {dy, x}, {c.o}, 5e-6);
    }
  }
  set_threads_per_device(threads);
}

TEST_CASE("float64 convolution agrees with a sum written out") {
  Generator generator(12);
  const ConvCase c{2, 3, 7, 6, 4, 3, 2, 1};
  const Tensor x = wide(random_tensor(c.x(), generator)), w = wide(random_tensor(c.weight(), generator));
  const Tensor b = wide(random_tensor({c.o}, generator));
  Tensor y = output(c.y(), DType::float64);
  cpu().conv2d_forward(x, w, b, c.params(), y);
  std::vector<double> expected;
  for (int64_t n = 0; n < c.n; ++n) {
    for (int64_t o = 0; o < c.o; ++o) {
      for (int64_t i = 0; i < y.size(2); ++i) {
        for (int64_t j = 0; j < y.size(3); ++j) {
          double sum = b.data<double>()[o];
          for (int64_t p = 0; p < c.c * c.k * c.k; ++p) {
            const int64_t ch = p / (c.k * c.k), row = i * c.stride - c.padding + p / c.k % c.k;
            const int64_t column = j * c.stride - c.padding + p % c.k;
            if (row < 0 || row >= c.h || column < 0 || column >= c.w) continue;
            sum += x.data<double>()[((n * c.c + ch) * c.h + row) * c.w + column] * w.data<double>()[o * c.c * c.k * c.k + p];
          }
          expected.push_back(sum);
        }
      }
    }
  }
  const auto result = compare(y.to_vector<double>(), expected, 1e-13);
  INFO(result.message);
  CHECK(result.passed);
}

TEST_CASE("convolution of an empty batch: no output, zero gradients") {
  const ConvCase c{0, 3, 9, 9, 5, 3, 1, 0};
  Generator generator(13);
  const Tensor x = Tensor::empty(c.x()), w = random_tensor(c.weight(), generator), b = random_tensor({5}, generator);
  Tensor y = Tensor::empty(c.y()), dx = Tensor::empty(c.x()), dw = output(c.weight()), db = output({5});
  cpu().conv2d_forward(x, w, b, {}, y);
  cpu().conv2d_backward_input(y, w, {}, dx);
  cpu().conv2d_backward_weight(y, x, {}, dw, db);
  CHECK(dw.to_vector<float>() == std::vector<float>(135, 0.0f));
  CHECK(db.to_vector<float>() == std::vector<float>(5, 0.0f));
}
