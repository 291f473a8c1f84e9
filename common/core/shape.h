// The sizes of a tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace miniddp {

/// Sizes, outermost first: (N, C, H, W). An empty Shape is a scalar (one element).
using Shape = std::vector<int64_t>;

/// Product of the sizes; 1 for a scalar. Throws ShapeError if a size is negative or the product overflows.
int64_t numel_of(const Shape& shape);

/// "(64, 1, 28, 28)"; "()" for a scalar.
std::string to_string(const Shape& shape);

/// Resolves a dimension that may be negative (-1 is the last). Throws ShapeError when out of range.
int64_t resolve_dim(int64_t dim, const Shape& shape);

}  // namespace miniddp
