// Conversions between element types. 16-bit floats exist for communication; rounding is to nearest, ties to even.
#include <bit>

#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

namespace {

float widen(BFloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

float widen(Half value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  // A half's exponent bias is 15, a float's 127: shifting and multiplying by 2^112 also gets subnormals right.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t special = (magnitude << 13) | 0x7f800000u;  // infinity and NaN
  const uint32_t bits = magnitude >= 0x7c00u ? special : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(bits | sign);
}

template <class T>
T widen(T value) {
  return value;
}

BFloat16 to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return {static_cast<uint16_t>((bits >> 16) | 0x0040u)};  // stays NaN
  const uint32_t round = 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<uint16_t>((bits + round) >> 16)};
}

Half to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u;  // NaN
  } else if (magnitude >= 0x477ff000u) {
    half = 0x7c00u;  // 65520 and more: infinity
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 leaves the subnormal, rounded by the adder, in the low bits.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  } else {
    half = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return {static_cast<uint16_t>(half | sign)};
}

template <class To, class From>
To convert(From value) {
  const auto wide = widen(value);
  if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(wide));  // float64 goes by way of float32, as in PyTorch
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(static_cast<float>(wide));
  } else {
    return static_cast<To>(wide);
  }
}

template <class From, class To>
void cast_elements(const Tensor& in, Tensor& out) {
  const From* from = in.data<From>();
  To* to = out.data<To>();
  parallel_for(out.numel(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = convert<To>(from[i]);
  });
}

template <class From>
void cast_from(const Tensor& in, Tensor& out) {
  switch (out.dtype()) {
    case DType::float32: return cast_elements<From, float>(in, out);
    case DType::float64: return cast_elements<From, double>(in, out);
    case DType::float16: return cast_elements<From, Half>(in, out);
    case DType::bfloat16: return cast_elements<From, BFloat16>(in, out);
    default: throw Error("expected a floating point type to convert to, found {}", name_of(out.dtype()));
  }
}

}  // namespace

void CpuKernels::cast(const Tensor& in, Tensor& out) {
  switch (in.dtype()) {
    case DType::float32: return cast_from<float>(in, out);
    case DType::float64: return cast_from<double>(in, out);
    case DType::float16: return cast_from<Half>(in, out);
    case DType::bfloat16: return cast_from<BFloat16>(in, out);
    case DType::uint8: return cast_from<uint8_t>(in, out);
    case DType::int64: return cast_from<int64_t>(in, out);
  }
}

}  // namespace miniddp
