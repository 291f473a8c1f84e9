// Stand-in for <cuda_fp16.h>: the type and its conversions; no arithmetic, since this project computes in float.
#pragma once

#include <cuda_runtime.h>

#include "common/cuda_emulator/small_floats.h"

using __half = miniddp::emulator::StoredFloat<miniddp::emulator::half_format>;
using half = __half;

inline __half __ushort_as_half(unsigned short bits) { return __half::of_bits(bits); }
inline unsigned short __half_as_ushort(__half value) { return value.__x; }
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline __half __double2half(double value) { return __half::of_double(value); }
inline float __half2float(__half value) { return static_cast<float>(value); }
