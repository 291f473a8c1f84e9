// From a pixel's byte to a number for the network. Names and arithmetic are torchvision's.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace miniddp {

/// torchvision's ToTensor: a byte becomes a float32 in [0, 1].
inline float to_tensor(uint8_t pixel) {
  return static_cast<float>(pixel) / 255.0F;
}

/// torchvision's Normalize. The defaults are mean and standard deviation of MNIST's training pixels.
struct Normalize {
  float mean = 0.1307F;
  float std = 0.3081F;

  float operator()(float value) const { return (value - mean) / std; }
};

/// ToTensor and Normalize in one look-up: there are only 256 bytes, so each result is computed once.
class PixelTransform {
 public:
  explicit PixelTransform(Normalize normalize = {}) {
    for (int pixel = 0; pixel < 256; ++pixel)
      table_[static_cast<size_t>(pixel)] = normalize(to_tensor(static_cast<uint8_t>(pixel)));
  }
  float operator()(uint8_t pixel) const { return table_[pixel]; }
  /// Transforms pixels into `out`, which has room for as many.
  void operator()(std::span<const uint8_t> pixels, float* out) const {
    for (size_t i = 0; i < pixels.size(); ++i) out[i] = table_[pixels[i]];
  }

 private:
  std::array<float, 256> table_;
};

}  // namespace miniddp
