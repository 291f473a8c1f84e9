#include "common/core/shape.h"

#include <fmt/ranges.h>

#include "common/core/error.h"

namespace miniddp {

int64_t numel_of(const Shape& shape) {
  int64_t numel = 1;
  for (int64_t size : shape) {
    check<ShapeError>(size >= 0, "a size must not be negative, found shape {}", to_string(shape));
    check<ShapeError>(!__builtin_mul_overflow(numel, size, &numel), "shape {} has more elements than fit in 63 bits",
                      to_string(shape));
  }
  return numel;
}

std::string to_string(const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

int64_t resolve_dim(int64_t dim, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  check<ShapeError>(rank > 0, "a dimension was asked of a 0-dimensional tensor (a scalar)");
  check<ShapeError>(dim >= -rank && dim < rank, "dimension out of range: expected {} to {}, found {} for shape {}", -rank,
                    rank - 1, dim, to_string(shape));
  return dim < 0 ? dim + rank : dim;
}

}  // namespace miniddp
