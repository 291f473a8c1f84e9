// Compares an operator on CUDA with the CPU backend, forward and backward.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/kernels/kernels.h"
#include "common/tensor/tensor.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"

namespace miniddp::testing {

/// Random shapes of each test. Few under the thread sanitizer, where the emulator is a hundred times slower.
inline constexpr int rounds = MINIDDP_TEST_ROUNDS;

using Tensors = std::vector<Tensor>;
using Operator = std::function<Tensor(const Tensors&)>;

/// A random size in [low, high].
class Sizes {
 public:
  explicit Sizes(unsigned seed) : random_(seed) {}
  int64_t operator()(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  /// One of the values.
  int64_t of(std::initializer_list<int64_t> values) {
    return values.begin()[(*this)(0, static_cast<int64_t>(values.size()) - 1)];
  }
  unsigned seed() { return static_cast<unsigned>(random_()); }
  std::mt19937& engine() { return random_; }

 private:
  std::mt19937 random_;
};

/// float32, uniform in [-1, 1), on the CPU.
Tensor random_floats(const Shape& shape, unsigned seed);
/// int64 in [0, classes), on the CPU.
Tensor random_targets(int64_t rows, int64_t classes, unsigned seed);

/// Runs `op` on cuda:0 in float32 and in float64, and on the CPU in float64 from the same numbers; outputs and the gradients of all
/// float inputs (from one random gradient of the output) must agree: float32 to `forward` and `backward` times the largest value, float64
/// to 1e-11. Tensors of other types are passed on as they are. Failures are reported with `what`.
void check_operator(const std::string& what, const Tensors& inputs, const Operator& op, double forward = 1e-6, double backward = 1e-5);

/// A tensor's equality with what the CPU backend found, to tolerance * largest value.
void check_close(const std::string& what, const Tensor& found, const Tensor& expected, double tolerance);

/// All elements equal, bit for bit.
bool same_bits(const Tensor& a, const Tensor& b);

inline const Device gpu0{DeviceType::cuda, 0};
inline const Device gpu1{DeviceType::cuda, 1};

/// For tests that need several GPUs: a real machine may have one.
#define NEEDS_GPUS(n)                                                                                                     \
  do {                                                                                                                    \
    if (::miniddp::device_count(::miniddp::DeviceType::cuda) < (n)) SKIP_TEST("GPU", "this build finds fewer than " #n " GPUs"); \
  } while (false)

}  // namespace miniddp::testing
