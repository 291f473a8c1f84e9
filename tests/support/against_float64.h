// For tests of the CPU kernels: random inputs, and a float32 kernel against the same kernel in float64 (plain loops).
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/core/generator.h"
#include "common/kernels/kernels.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace miniddp::testing {

inline Kernels& cpu() { return kernels(DeviceType::cpu); }

inline Tensor random_tensor(const Shape& shape, Generator& generator, float low = -1, float high = 1) {
  Tensor result = Tensor::empty(shape);
  generator.uniform_({result.data<float>(), static_cast<size_t>(result.numel())}, low, high);
  return result;
}

inline Tensor random_labels(int64_t n, int64_t classes, Generator& generator) {
  Tensor result = Tensor::empty({n}, DType::int64);
  for (int64_t i = 0; i < n; ++i) result.data<int64_t>()[i] = generator.randint(0, classes);
  return result;
}

inline Tensor wide(const Tensor& tensor) { return tensor.defined() ? tensor.to(DType::float64) : tensor; }

/// Filled with NaN, so that an element a kernel forgets is found.
inline Tensor output(const Shape& shape, DType dtype = DType::float32) {
  return Tensor::full(shape, std::numeric_limits<double>::quiet_NaN(), dtype);
}

using Call = std::function<void(const std::vector<Tensor>& in, Tensor& out)>;

/// Runs `call` in float32 and in float64 and compares; the tolerance is relative to the largest element.
inline void check_against_float64(const std::string& what, const Call& call, const std::vector<Tensor>& inputs,
                           const Shape& out_shape, double tolerance = 2e-6) {
  Tensor found = output(out_shape);
  call(inputs, found);
  std::vector<Tensor> wide_inputs;
  for (const Tensor& input : inputs) {
    const bool is_float = input.defined() && input.dtype() == DType::float32;
    wide_inputs.push_back(is_float ? wide(input) : input);
  }
  Tensor expected = output(out_shape, DType::float64);
  call(wide_inputs, expected);
  double largest = 0;
  for (const double value : expected.to_vector<double>()) largest = std::max(largest, std::abs(value));
  const auto result = compare(wide(found), expected, tolerance * largest);
  INFO(what << ": " << result.message);
  CHECK(result.passed);
}

inline bool same_bits(const Tensor& a, const Tensor& b) { return a.to_vector<float>() == b.to_vector<float>(); }

}  // namespace miniddp::testing
