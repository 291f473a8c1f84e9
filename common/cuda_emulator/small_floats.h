// The 16-bit floating-point formats, in software: round to nearest, ties to even, as a GPU converts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace miniddp::emulator {

struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  std::uint16_t quiet_nan;  // what CUDA gives for any NaN

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }

  std::uint16_t from_double(double value) const {
    if (std::isnan(value)) return quiet_nan;
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) << 15);
    const auto infinity = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return sign | infinity;
    if (magnitude == 0) return sign;
    // Below the smallest normal number the spacing stays that of the smallest: subnormals.
    const int exponent = std::max(std::ilogb(magnitude), 1 - bias());
    const double steps = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));  // exact but for the rounding
    const auto significand = static_cast<std::uint32_t>(steps);
    // The leading 1 of a normal significand adds itself to the exponent field; a carry does the same.
    const std::uint32_t bits = significand + (static_cast<std::uint32_t>(exponent + bias() - 1) << mantissa_bits);
    return sign | static_cast<std::uint16_t>(bits < infinity ? bits : infinity);
  }

  double to_double(std::uint16_t bits) const {
    const int field = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    const int fraction = bits & ((1 << mantissa_bits) - 1);
    double magnitude;
    if (field == (1 << exponent_bits) - 1)
      magnitude = fraction ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    else if (field == 0)
      magnitude = std::ldexp(fraction, 1 - bias() - mantissa_bits);
    else
      magnitude = std::ldexp(fraction + (1 << mantissa_bits), field - bias() - mantissa_bits);
    return bits >> 15 ? -magnitude : magnitude;
  }
};

inline constexpr SmallFloat half_format{5, 10, 0x7fff};
inline constexpr SmallFloat bfloat16_format{8, 7, 0x7fff};

/// What __half and __nv_bfloat16 are here.
template <SmallFloat format>
struct StoredFloat {
  unsigned short __x;  // the bits; CUDA's name for them

  StoredFloat() = default;
  explicit StoredFloat(float value) : __x(format.from_double(value)) {}
  explicit operator float() const { return static_cast<float>(format.to_double(__x)); }

  static StoredFloat of_bits(unsigned short bits) {
    StoredFloat value;
    value.__x = bits;
    return value;
  }
  static StoredFloat of_double(double value) { return of_bits(format.from_double(value)); }
};

}  // namespace miniddp::emulator
