#include "chapters/tour/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/core/error.h"

namespace miniddp {
namespace {

// Infinity for NaN, so that it is the largest of all.
double distance(double a, double b) {
  const double difference = std::abs(a - b);
  return difference >= 0 ? difference : std::numeric_limits<double>::infinity();
}

double largest_difference(const Tensor& found, const Tensor& expected) {
  const std::vector<float> a = found.to_vector<float>(), b = expected.to_vector<float>();
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, distance(a[i], b[i]));
  return largest;
}

}  // namespace

LossDifference compare_losses(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  const size_t count = std::min({allowed::steps, std::max(found.size(), expected.size())});
  check(found.size() >= count && expected.size() >= count, "expected the losses of {} steps twice, found {} and {}", count, found.size(),
        expected.size());
  check(std::any_of(expected.begin(), expected.end(), [](double loss) { return loss != 0; }), "the reference has no loss that is not zero");
  LossDifference result;
  for (size_t i = 0; i < count; ++i) {
    const double difference = distance(found[i], expected[i]);
    result.largest = std::max(result.largest, difference);
    if (difference <= tolerance || result.first_step > 0) continue;
    result.first_step = static_cast<int64_t>(i) + 1;
    result.found = found[i];
    result.expected = expected[i];
  }
  return result;
}

TensorDifference first_difference(const NamedTensors& found, const NamedTensors& expected, double tolerance) {
  check(!expected.empty() && found.size() == expected.size(), "expected {} tensors, found {}", expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, tensor] = expected[i];
    check(found[i].first == name && found[i].second.shape() == tensor.shape(), "expected tensor {}, found {}, or of another shape", name,
          found[i].first);
    const double largest = largest_difference(found[i].second, tensor);
    if (!(largest <= tolerance)) return {0, name, largest};
  }
  return {};
}

TensorDifference find_parting(const WeightsAfter& found, const WeightsAfter& expected, int64_t last_step, double tolerance) {
  TensorDifference parting;
  int64_t low = 1, high = last_step;
  while (low <= high) {
    // Most mistakes show after the first step: it is looked at first.
    const int64_t middle = parting.step == 0 && low == 1 ? 1 : (low + high) / 2;
    TensorDifference difference = first_difference(found(middle), expected(middle), tolerance);
    if (difference.name.empty()) {
      low = middle + 1;
    } else {
      parting = difference;
      parting.step = middle;
      high = middle - 1;
    }
  }
  return parting;
}

}  // namespace miniddp
