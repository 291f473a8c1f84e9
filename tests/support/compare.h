// Comparing numbers with a reference. A comparison passes only if difference <= tolerance, so NaN never passes; a reference that is
// empty or all zeros cannot prove anything and throws Error.
//
//   const Comparison result = compare(found, expected, 1e-5);
//   INFO(result.message);
//   CHECK(result.passed);
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/tensor/tensor.h"

namespace miniddp::testing {

struct Comparison {
  bool passed = false;
  /// Largest difference of all; infinity if one is NaN.
  double largest = 0;
  /// Where the first difference beyond the tolerance is, both values, how many there are. Says the largest one if passed.
  std::string message;
};

/// Element by element, lengths must be equal. `unit` names an index in the message: "step 7".
Comparison compare(std::span<const double> found, std::span<const double> expected, double tolerance, const std::string& unit = "element");
/// The same for the first `count` elements of both; throws Error if the reference has fewer.
Comparison compare_first(size_t count, std::span<const double> found, std::span<const double> expected, double tolerance,
                         const std::string& unit = "element");
/// Shapes and dtypes must be equal too, the devices need not. Takes float32, float64, int64 and uint8.
Comparison compare(const Tensor& found, const Tensor& expected, double tolerance);

/// All elements as doubles, whatever the dtype.
std::vector<double> to_doubles(const Tensor& tensor);

/// The losses of a --loss-csv file (`step,loss` rows, one header line), or of its first `count` rows. Throws DataError if the file is
/// missing, has a damaged row or a step out of order.
std::vector<double> read_loss_csv(const std::string& path, size_t count = static_cast<size_t>(-1));

}  // namespace miniddp::testing
