// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace miniddp {

/// float16 and bfloat16 exist for communication only: no arithmetic kernel takes them.
enum class DType { float32, float64, int64, uint8, float16, bfloat16 };

/// Bytes per element.
size_t size_of(DType dtype);

/// PyTorch's name: "float32", "int64", …
std::string_view name_of(DType dtype);

/// 16-bit floats are carried as their bits.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

/// The DType of a C++ element type.
template <class T>
inline constexpr DType dtype_of = [] { static_assert(sizeof(T) == 0, "not an element type"); return DType::float32; }();
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<int64_t> = DType::int64;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::uint8;
template <>
inline constexpr DType dtype_of<Half> = DType::float16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bfloat16;

}  // namespace miniddp
