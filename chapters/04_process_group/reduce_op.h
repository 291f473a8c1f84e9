// The arithmetic of reductions, on host memory.
#pragma once

#include <cstddef>
#include <string_view>

#include "common/core/dtype.h"

namespace miniddp {

/// torch.distributed.ReduceOp. `avg` is a sum and one division at the end, for every backend alike; it needs
/// floating point. `band`, `bor` and `bxor` need integers.
enum class ReduceOp { sum, avg, product, min, max, band, bor, bxor };

/// "sum", "avg", …
std::string_view name_of(ReduceOp op);

/// Throws Error if the operation does not exist for the dtype.
void check_reduce_op(ReduceOp op, DType dtype);

/// into[i] = into[i] op from[i] for `count` elements; avg adds. 16-bit floats are added in float32 and
/// rounded to nearest even.
void reduce_into(void* into, const void* from, size_t count, DType dtype, ReduceOp op);

/// values[i] /= divisor, the end of an average.
void divide(void* values, size_t count, DType dtype, int divisor);

}  // namespace miniddp
