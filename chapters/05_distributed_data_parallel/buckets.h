// Which gradients travel together.
#pragma once

#include <cstddef>
#include <vector>

#include "common/tensor/tensor.h"

namespace miniddp {

/// PyTorch's defaults: a small first bucket starts the communication early.
inline constexpr size_t first_bucket_bytes = 1 << 20;
inline constexpr size_t default_bucket_cap_bytes = 25 << 20;

/// Indices of the tensors in each bucket. Tensors are taken in order (or in `order`); each (dtype, device) fills one open bucket, which is
/// closed as soon as it holds at least the current limit, so that a cap is a threshold and not a maximum; then the next limit
/// counts, the last one for ever. Without an order the buckets are sorted by their smallest index.
/// Source: torch.distributed._compute_bucket_assignment_by_size.
std::vector<std::vector<size_t>> compute_bucket_assignment_by_size(const std::vector<Tensor>& tensors,
                                                                   const std::vector<size_t>& limits,
                                                                   const std::vector<size_t>& order = {});

/// Gradients of one dtype and device, one behind the other in one flat tensor.
struct Bucket {
  std::vector<size_t> parameters;  // indices
  std::vector<int64_t> offsets;    // elements from the start, one for each
  Tensor flat;                     // (sum of numel)

  /// Zeros. `parameters` indexes `tensors`.
  static Bucket make(const std::vector<Tensor>& tensors, std::vector<size_t> parameters);
  /// The k-th parameter's part, in the parameter's shape; shares the flat tensor's memory.
  Tensor slice(size_t k, const Tensor& parameter) const;
};

}  // namespace miniddp
