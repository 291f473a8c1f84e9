#include "chapters/04_process_group/reduce_op.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "common/core/error.h"

namespace miniddp {

namespace {

float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

// IEEE half precision is the compiler's _Float16 where it has one (GCC 12 on x86-64 and arm64).
float to_float(Half value) {
  return static_cast<float>(std::bit_cast<_Float16>(value));
}
Half to_half(float value) {
  return std::bit_cast<Half>(static_cast<_Float16>(value));
}

template <class T, class F>
void combine(void* into, const void* from, size_t count, F operation) {
  T* __restrict a = static_cast<T*>(into);
  const T* __restrict b = static_cast<const T*>(from);
  for (size_t i = 0; i < count; ++i) a[i] = operation(a[i], b[i]);
}

template <class T>
void reduce_typed(void* into, const void* from, size_t count, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return combine<T>(into, from, count, [](T a, T b) { return static_cast<T>(a + b); });
    case ReduceOp::product:
      return combine<T>(into, from, count, [](T a, T b) { return static_cast<T>(a * b); });
    // A NaN on either side stays: a diverged rank must not be hidden by a minimum.
    case ReduceOp::min:
      return combine<T>(into, from, count, [](T a, T b) { return a != a || a < b ? a : b; });
    case ReduceOp::max:
      return combine<T>(into, from, count, [](T a, T b) { return a != a || a > b ? a : b; });
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case ReduceOp::band:
        return combine<T>(into, from, count, [](T a, T b) { return static_cast<T>(a & b); });
      case ReduceOp::bor:
        return combine<T>(into, from, count, [](T a, T b) { return static_cast<T>(a | b); });
      case ReduceOp::bxor:
        return combine<T>(into, from, count, [](T a, T b) { return static_cast<T>(a ^ b); });
      default:
        break;
    }
  }
}

// 16-bit floats have no arithmetic of their own: element by element through float32.
template <class T, class Back>
void reduce_small(void* into, const void* from, size_t count, ReduceOp op, Back back) {
  combine<T>(into, from, count, [op, back](T a, T b) {
    float sum = to_float(a);
    const float other = to_float(b);
    reduce_typed<float>(&sum, &other, 1, op);
    return back(sum);
  });
}

}  // namespace

std::string_view name_of(ReduceOp op) {
  constexpr std::string_view names[] = {"sum", "avg", "product", "min", "max", "band", "bor", "bxor"};
  return names[static_cast<size_t>(op)];
}

void check_reduce_op(ReduceOp op, DType dtype) {
  const bool integer = dtype == DType::int64 || dtype == DType::uint8;
  check(op != ReduceOp::avg || !integer, "ReduceOp avg needs a floating-point tensor, found {}: use sum",
        name_of(dtype));
  const bool bitwise = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
  check(!bitwise || integer, "ReduceOp {} needs an integer tensor, found {}", name_of(op), name_of(dtype));
}

void reduce_into(void* into, const void* from, size_t count, DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::float32:
      return reduce_typed<float>(into, from, count, op);
    case DType::float64:
      return reduce_typed<double>(into, from, count, op);
    case DType::int64:
      return reduce_typed<int64_t>(into, from, count, op);
    case DType::uint8:
      return reduce_typed<uint8_t>(into, from, count, op);
    case DType::float16:
      return reduce_small<Half>(into, from, count, op, to_half);
    case DType::bfloat16:
      return reduce_small<BFloat16>(into, from, count, op, to_bfloat16);
  }
}

void divide(void* values, size_t count, DType dtype, int divisor) {
  const auto each = [count](auto* at, auto operation) {
    for (size_t i = 0; i < count; ++i) at[i] = operation(at[i]);
  };
  switch (dtype) {
    case DType::float32:
      return each(static_cast<float*>(values), [d = static_cast<float>(divisor)](float v) { return v / d; });
    case DType::float64:
      return each(static_cast<double*>(values),
                  [d = static_cast<double>(divisor)](double v) { return v / d; });
    case DType::float16:
      return each(static_cast<Half*>(values),
                  [d = static_cast<float>(divisor)](Half v) { return to_half(to_float(v) / d); });
    case DType::bfloat16:
      return each(static_cast<BFloat16*>(values),
                  [d = static_cast<float>(divisor)](BFloat16 v) { return to_bfloat16(to_float(v) / d); });
    default:
      check_reduce_op(ReduceOp::avg, dtype);
  }
}

}  // namespace miniddp
