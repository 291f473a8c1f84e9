// Stand-in for <cuda_bf16.h>: the type and its conversions; no arithmetic, since this project computes in float.
#pragma once

#include <cuda_runtime.h>

#include "common/cuda_emulator/small_floats.h"

using __nv_bfloat16 = miniddp::emulator::StoredFloat<miniddp::emulator::bfloat16_format>;
using nv_bfloat16 = __nv_bfloat16;

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16::of_bits(bits); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.__x; }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __double2bfloat16(double value) { return __nv_bfloat16::of_double(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return static_cast<float>(value); }
