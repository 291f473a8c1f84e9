// Stand-in for <cuda_bf16.h>: the type and its conversions; no arithmetic, since this project computes in float.
#pragma once

#include <cuda_runtime.h>

#include "common/cuda_emulator/small_floats.h"

struct __nv_bfloat16 {
  unsigned short __x;  // the bits; CUDA's name for them

  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) : __x(miniddp::emulator::bfloat16_format.from_double(value)) {}
  explicit operator float() const { return static_cast<float>(miniddp::emulator::bfloat16_format.to_double(__x)); }
};
using nv_bfloat16 = __nv_bfloat16;

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 value;
  value.__x = bits;
  return value;
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.__x; }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __double2bfloat16(double value) {
  return __ushort_as_bfloat16(miniddp::emulator::bfloat16_format.from_double(value));
}
inline float __bfloat162float(__nv_bfloat16 value) { return static_cast<float>(value); }
