// Stand-in for <cuda_fp16.h>: the type and its conversions; no arithmetic, since this project computes in float.
#pragma once

#include <cuda_runtime.h>

#include "common/cuda_emulator/small_floats.h"

struct __half {
  unsigned short __x;  // the bits; CUDA's name for them

  __half() = default;
  explicit __half(float value) : __x(miniddp::emulator::half_format.from_double(value)) {}
  explicit operator float() const { return static_cast<float>(miniddp::emulator::half_format.to_double(__x)); }
};
using half = __half;

inline __half __ushort_as_half(unsigned short bits) {
  __half value;
  value.__x = bits;
  return value;
}
inline unsigned short __half_as_ushort(__half value) { return value.__x; }
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline __half __double2half(double value) {
  return __ushort_as_half(miniddp::emulator::half_format.from_double(value));
}
inline float __half2float(__half value) { return static_cast<float>(value); }
