// The stand-ins for __half and __nv_bfloat16 convert as a GPU does: to nearest, ties to even.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "tests/support/catch.h"

namespace miniddp::testing {
namespace {

/// The nearest of all values of the format, found by looking at its two neighbours; ties to the even bit pattern.
template <class ToFloat>
unsigned nearest(double value, unsigned guess, ToFloat to_float) {
  unsigned best = guess;
  for (const unsigned bits : {guess - 1, guess, guess + 1}) {
    const double distance = std::fabs(to_float(bits) - value), least = std::fabs(to_float(best) - value);
    if (distance < least || (distance == least && bits % 2 == 0)) best = bits;
  }
  return best;
}

float half_value(unsigned bits) { return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))); }
float bfloat16_value(unsigned bits) { return __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(bits))); }

}  // namespace

TEST_CASE("small floats: every value survives the way to float and back") {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    if (!std::isnan(half_value(bits))) REQUIRE(__half_as_ushort(__float2half(half_value(bits))) == bits);
    if (!std::isnan(bfloat16_value(bits))) REQUIRE(__bfloat16_as_ushort(__float2bfloat16(bfloat16_value(bits))) == bits);
  }
}

TEST_CASE("small floats: known bits") {
  CHECK(half_value(0x3c00) == 1.0f);
  CHECK(half_value(0x7bff) == 65504.0f);
  CHECK(half_value(0x0001) == std::ldexp(1.0f, -24));
  CHECK(bfloat16_value(0x3f80) == 1.0f);
  for (unsigned bits : {0x3f80u, 0xc2c8u, 0x0001u}) CHECK(bfloat16_value(bits) == std::bit_cast<float>(bits << 16));
  CHECK(__half_as_ushort(__float2half(65520.0f)) == 0x7c00);  // half a step above the largest: infinity
  CHECK(__half_as_ushort(__float2half(65519.0f)) == 0x7bff);
  CHECK(__half_as_ushort(__float2half(1.0f + 1.0f / 2048)) == 0x3c00);  // a tie, to even
  CHECK(__half_as_ushort(__float2half(1.0f + 3.0f / 2048)) == 0x3c02);
  CHECK(std::isnan(__half2float(__float2half(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(__bfloat162float(__float2bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(__bfloat162float(__float2bfloat16(-std::numeric_limits<float>::infinity())) ==
        -std::numeric_limits<float>::infinity());
}

TEST_CASE("small floats: random values go to the nearest") {
  std::mt19937 generator(5);
  std::uniform_real_distribution<double> exponent(-20, 14), mantissa(1, 2);
  for (int i = 0; i < 20000; ++i) {
    const auto value = static_cast<float>(std::ldexp(mantissa(generator), static_cast<int>(std::floor(exponent(generator)))));
    const unsigned half = __half_as_ushort(__float2half(value)), bfloat16 = __bfloat16_as_ushort(__float2bfloat16(value));
    REQUIRE(half == nearest(value, half, half_value));
    REQUIRE(bfloat16 == nearest(value, bfloat16, bfloat16_value));
  }
}

}  // namespace miniddp::testing
