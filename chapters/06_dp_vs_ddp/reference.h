// The reference of all comparisons: losses, gradients and parameters of one device, step by step, in a file.
#pragma once

#include <filesystem>
#include <fstream>
#include <vector>

#include "chapters/06_dp_vs_ddp/report.h"
#include "common/nn/module.h"

namespace miniddp {

/// How far a loss may be from one device's after so many steps: 1e-6 up to 10 steps, 5e-6 up to 20. Beyond that any two float32 runs part
/// (docs/parity.md).
double parity_tolerance(int64_t steps);
/// How far tensors may be, as a part of the tensor's largest element. Wide, because rounding decides which of two nearly equal values in a
/// pooling window gets the gradient; it finds gradients that are wrong as a whole (a missing one, a sum for a mean), the losses the rest.
inline constexpr double gradient_tolerance = 0.1, parameter_tolerance = 1e-3;

/// Writes it. Per step: the loss (a double), then all gradients, then all parameters, float32, in the order of named_parameters.
class ReferenceWriter {
 public:
  explicit ReferenceWriter(const std::filesystem::path& path);
  void add(double loss, const NamedTensors& parameters);
  /// Throws Error if something could not be written.
  void close();

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

/// Compares another run with it, in lockstep.
class ReferenceReader {
 public:
  ReferenceReader(const std::filesystem::path& path, int64_t steps);
  /// The next step. Throws DataError if the file ends, Error for a loss that is not finite.
  void compare(double loss, const NamedTensors& parameters);
  const Parity& result() const { return result_; }

 private:
  void differs(double difference, double tolerance, const std::string& what);

  std::filesystem::path path_;
  std::ifstream file_;
  std::vector<float> expected_;
  int64_t step_ = 0;
  Parity result_;
};

}  // namespace miniddp
