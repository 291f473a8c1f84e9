#include "tests/emulated/operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/support/compare.h"

namespace miniddp::testing {

namespace {

bool is_float(const Tensor& tensor) { return tensor.dtype() == DType::float32; }

struct Results {
  Tensor output;
  std::vector<Tensor> gradients;  // of the float inputs
};

Results run(const Tensors& inputs, const Tensor& seed, const Operator& op, DType dtype, Device device) {
  Tensors leaves;
  for (const Tensor& input : inputs) {
    if (!input.defined()) {
      leaves.emplace_back();
      continue;
    }
    Tensor leaf = (is_float(input) ? input.to(dtype) : input).to(device).detach();
    if (is_float(input)) leaf.set_requires_grad();
    leaves.push_back(leaf);
  }
  Results results{op(leaves), {}};
  if (!results.output.requires_grad()) return results;
  results.output.backward(seed.defined() ? seed.to(dtype).to(device) : Tensor());
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (inputs[i].defined() && is_float(inputs[i])) results.gradients.push_back(leaves[i].grad());
  }
  return results;
}

}  // namespace

Tensor random_floats(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(numel_of(shape)));
  for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
  return Tensor::from(values, shape);
}

Tensor random_targets(int64_t rows, int64_t classes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> values(static_cast<size_t>(rows));
  for (int64_t& value : values) value = std::uniform_int_distribution<int64_t>(0, classes - 1)(random);
  return Tensor::from(values, {rows});
}

void check_close(const std::string& what, const Tensor& found, const Tensor& expected, double tolerance) {
  INFO(what);
  REQUIRE(found.defined());
  REQUIRE(found.shape() == expected.shape());
  const std::vector<double> reference = to_doubles(expected);
  double largest = 0;
  for (const double value : reference) largest = std::max(largest, std::fabs(value));
  INFO("largest value " << largest);
  const Comparison result = compare(to_doubles(found), reference, tolerance * largest);
  INFO(result.message);
  CHECK(result.passed);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor left = a.to(Device{}), right = b.to(Device{});
  return std::memcmp(left.raw_data(), right.raw_data(), left.nbytes()) == 0;
}

void check_operator(const std::string& what, const Tensors& inputs, const Operator& op, double forward, double backward) {
  // The gradient of the output: of the shape that the operator has on the CPU.
  Tensor seed;
  const Results probe = run(inputs, {}, [&](const Tensors& in) { return op(in).detach(); }, DType::float64, {});
  if (probe.output.numel() != 1 || probe.output.dim() > 0) seed = random_floats(probe.output.shape(), 4711);
  const Results expected = run(inputs, seed, op, DType::float64, {});
  for (const DType dtype : {DType::float32, DType::float64}) {
    const bool single = dtype == DType::float32;
    const std::string name = what + ", " + std::string(name_of(dtype));
    const Results found = run(inputs, seed, op, dtype, gpu0);
    check_close(name + ", output", found.output, expected.output, single ? forward : 1e-11);
    REQUIRE(found.gradients.size() == expected.gradients.size());
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      check_close(name + ", gradient of input " + std::to_string(i), found.gradients[i], expected.gradients[i], single ? backward : 1e-11);
    }
  }
}

}  // namespace miniddp::testing
