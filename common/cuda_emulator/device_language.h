// What CUDA adds to C++ on the device side: keywords, built-in variables, barriers, warp operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define CUDART_VERSION 13000

// A block runs on one operating-system thread from its start to its end, so a thread-local variable is shared by the
// block's threads and by nobody else. AddressSanitizer does not guard thread-local variables; in its builds blocks run one
// at a time in the whole process and a plain static, which it does guard, will do.
#ifdef MINIDDP_EMULATOR_ASAN
#define __shared__ static
#else
#define __shared__ thread_local
#endif

struct uint3 {
  unsigned x, y, z;
};
struct int2 {
  int x, y;
};
struct uint2 {
  unsigned x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct float3 {
  float x, y, z;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
inline int2 make_int2(int x, int y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

// `constinit` lets the compiler read them directly; without it each use would call a wrapper that might initialise.
extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
inline constexpr int warpSize = 32;

namespace miniddp::emulator {

/// The line of a kernel that waits: threads that meet at different lines are a mistake, and reports name the line.
using Where = std::source_location;

enum class WarpOperation : unsigned char { sync, shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot };

void block_barrier(Where where);
/// Waits for all lanes of `mask`; returns what the lane receives (`value`s are bits).
std::uint64_t warp_operation(WarpOperation operation, unsigned mask, std::uint64_t value, int argument, int width,
                             Where where);
void* dynamic_shared();
[[noreturn]] void trap();

template <class T>
std::uint64_t shuffle(WarpOperation operation, unsigned mask, T value, int argument, int width, Where where, T& result) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "warp shuffles exchange at most 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_operation(operation, mask, bits, argument, width, where);
  std::memcpy(&result, &bits, sizeof result);
  return bits;
}

}  // namespace miniddp::emulator

inline void __syncthreads(miniddp::emulator::Where where = miniddp::emulator::Where::current()) {
  miniddp::emulator::block_barrier(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       miniddp::emulator::Where where = miniddp::emulator::Where::current()) {
  miniddp::emulator::warp_operation(miniddp::emulator::WarpOperation::sync, mask, 0, 0, warpSize, where);
}

#define MINIDDP_EMULATOR_SHUFFLE(name, operation)                                                       \
  template <class T>                                                                                    \
  T name(unsigned mask, T value, int argument, int width = warpSize,                                    \
         miniddp::emulator::Where where = miniddp::emulator::Where::current()) {                        \
    T result;                                                                                           \
    miniddp::emulator::shuffle(miniddp::emulator::WarpOperation::operation, mask, value, argument, width, \
                               where, result);                                                          \
    return result;                                                                                      \
  }
MINIDDP_EMULATOR_SHUFFLE(__shfl_sync, shuffle)
MINIDDP_EMULATOR_SHUFFLE(__shfl_up_sync, shuffle_up)
MINIDDP_EMULATOR_SHUFFLE(__shfl_down_sync, shuffle_down)
MINIDDP_EMULATOR_SHUFFLE(__shfl_xor_sync, shuffle_xor)
#undef MINIDDP_EMULATOR_SHUFFLE

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              miniddp::emulator::Where where = miniddp::emulator::Where::current()) {
  return static_cast<unsigned>(miniddp::emulator::warp_operation(miniddp::emulator::WarpOperation::ballot, mask,
                                                                 predicate != 0, 0, warpSize, where));
}
inline int __any_sync(unsigned mask, int predicate,
                      miniddp::emulator::Where where = miniddp::emulator::Where::current()) {
  return __ballot_sync(mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      miniddp::emulator::Where where = miniddp::emulator::Where::current()) {
  return __ballot_sync(mask, !predicate, where) == 0;
}
[[noreturn]] inline void __trap() { miniddp::emulator::trap(); }
