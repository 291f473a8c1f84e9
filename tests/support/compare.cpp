#include "tests/support/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace miniddp::testing {
namespace {

void check_reference(std::span<const double> expected) {
  check(!expected.empty(), "the reference is empty: nothing can be compared with it");
  check(std::any_of(expected.begin(), expected.end(), [](double value) { return value != 0; }),
        "the reference is all zeros ({} of them): whatever forgot to compute would agree with it", expected.size());
}

template <class T>
std::vector<double> widen(const Tensor& tensor) {
  const std::vector<T> values = tensor.to_vector<T>();
  return {values.begin(), values.end()};
}

/// "(1, 0, 3)": the index of a row-major offset.
std::string index_of(int64_t offset, const Shape& shape) {
  Shape index(shape.size());
  for (size_t dim = shape.size(); dim-- > 0;) {
    index[dim] = offset % shape[dim];
    offset /= shape[dim];
  }
  return to_string(index);
}

template <class NameIndex>
Comparison compare_values(std::span<const double> found, std::span<const double> expected, double tolerance, NameIndex name) {
  check_reference(expected);
  if (found.size() != expected.size())
    return {false, std::numeric_limits<double>::infinity(),
            fmt::format("expected {} values, found {}", expected.size(), found.size())};
  Comparison result{true, 0, ""};
  size_t beyond = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::fabs(found[i] - expected[i]);
    result.largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(result.largest, difference);
    if (difference <= tolerance) continue;
    if (beyond++ == 0)
      result.message = fmt::format("first difference at {}: expected {:.9g}, found {:.9g} (difference {:.3g}, allowed {:.3g})", name(i),
                                   expected[i], found[i], difference, tolerance);
  }
  result.passed = beyond == 0;
  if (beyond == 0)
    result.message = fmt::format("{} values agree, largest difference {:.3g}, allowed {:.3g}", expected.size(), result.largest, tolerance);
  else
    result.message += fmt::format("; {} of {} differ, by up to {:.3g}", beyond, expected.size(), result.largest);
  return result;
}

}  // namespace

Comparison compare(std::span<const double> found, std::span<const double> expected, double tolerance, const std::string& unit) {
  return compare_values(found, expected, tolerance, [&](size_t i) { return fmt::format("{} {}", unit, i); });
}

Comparison compare_first(size_t count, std::span<const double> found, std::span<const double> expected, double tolerance,
                         const std::string& unit) {
  check(expected.size() >= count, "expected a reference of at least {} values, found {}", count, expected.size());
  return compare(found.first(std::min(count, found.size())), expected.first(count), tolerance, unit);
}

Comparison compare(const Tensor& found, const Tensor& expected, double tolerance) {
  if (!found.defined() || found.shape() != expected.shape() || found.dtype() != expected.dtype())
    return {false, std::numeric_limits<double>::infinity(),
            fmt::format("expected a tensor {}, found {}", expected.describe(), found.defined() ? found.describe() : "none")};
  return compare_values(to_doubles(found), to_doubles(expected), tolerance,
                        [&](size_t i) { return index_of(static_cast<int64_t>(i), expected.shape()); });
}

std::vector<double> to_doubles(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::float32: return widen<float>(tensor);
    case DType::float64: return widen<double>(tensor);
    case DType::int64: return widen<int64_t>(tensor);
    case DType::uint8: return widen<uint8_t>(tensor);
    default: throw Error("expected float32, float64, int64 or uint8, found {}", tensor.describe());
  }
}

std::vector<double> read_loss_csv(const std::string& path, size_t count) {
  std::ifstream file(path);
  check<DataError>(file.good(), "expected a file of losses at {}, found none", path);
  std::vector<double> losses;
  std::string line;
  std::getline(file, line);
  check<DataError>(line == "step,loss", "{}: expected the header 'step,loss', found '{}'", path, line);
  long first_step = 0;
  while (losses.size() < count && std::getline(file, line)) {
    char* end = nullptr;
    const long step = std::strtol(line.c_str(), &end, 10);
    const bool has_comma = end != line.c_str() && *end == ',';
    const char* loss = has_comma ? end + 1 : line.c_str();
    if (losses.empty()) first_step = step;
    check<DataError>(has_comma && step == first_step + static_cast<long>(losses.size()), "{}: expected the row of step {}, found '{}'",
                     path, first_step + static_cast<long>(losses.size()), line);
    losses.push_back(std::strtod(loss, &end));
    check<DataError>(end != loss && *end == '\0', "{}: expected a number after the comma, found '{}'", path, line);
  }
  return losses;
}

}  // namespace miniddp::testing
