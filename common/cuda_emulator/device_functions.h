// Device functions: atomics, fences, intrinsics. expf, fmaxf and their like are the C library's.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <type_traits>

namespace miniddp::emulator {

/// Replaces *p by change(*p) in one step and returns the old value. Relaxed, as CUDA's atomics are.
template <class T, class Change>
T atomic_update(T* p, Change change) {
  std::atomic_ref<T> target(*p);
  T old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, change(old), std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace miniddp::emulator

template <class T>
T atomicAdd(T* p, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*p).fetch_add(value, std::memory_order_relaxed);
}
template <class T>
T atomicSub(T* p, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*p).fetch_sub(value, std::memory_order_relaxed);
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*p).exchange(value, std::memory_order_relaxed);
}
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*p).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> value) {
  return miniddp::emulator::atomic_update(p, [value](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* p, std::type_identity_t<T> value) {
  return miniddp::emulator::atomic_update(p, [value](T old) { return value < old ? value : old; });
}
template <class T>
T atomicOr(T* p, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*p).fetch_or(value, std::memory_order_relaxed);
}
template <class T>
T atomicAnd(T* p, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*p).fetch_and(value, std::memory_order_relaxed);
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { std::atomic_thread_fence(std::memory_order_seq_cst); }

template <class T>
T __ldg(const T* p) {
  return *p;
}
// The fast approximations of a GPU; here they are exact, so results differ in the last digits.
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(a) * b) >> 32);
}

// CUDA's min and max are global functions.
template <class T>
  requires std::is_arithmetic_v<T>
constexpr T min(T a, std::type_identity_t<T> b) {
  return b < a ? b : a;
}
template <class T>
  requires std::is_arithmetic_v<T>
constexpr T max(T a, std::type_identity_t<T> b) {
  return a < b ? b : a;
}
