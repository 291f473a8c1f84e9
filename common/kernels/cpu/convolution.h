// Convolution on the CPU: the sizes, and the two ways to compute it.
#pragma once

#include <compare>
#include <cstdint>

namespace miniddp {

/// x (N, C, H, W), w (O, C, K, K), y (N, O, OH, OW).
struct ConvShape {
  int64_t n, c, h, w, o, oh, ow, k, stride, padding;

  auto operator<=>(const ConvShape&) const = default;
  int64_t x_size() const { return c * h * w; }     // elements of one sample of x
  int64_t y_size() const { return o * oh * ow; }   // … of y
  int64_t w_size() const { return o * c * k * k; }
};

/// float32, by oneDNN. `b` and `db` may be null.
namespace fast_conv {
void forward(const ConvShape& shape, const float* x, const float* w, const float* b, float* y);
void backward_input(const ConvShape& shape, const float* dy, const float* w, float* dx);
void backward_weight(const ConvShape& shape, const float* dy, const float* x, float* dw, float* db);
}  // namespace fast_conv

/// float64, by plain loops: for gradient checks.
namespace plain_conv {
void forward(const ConvShape& shape, const double* x, const double* w, const double* b, double* y);
void backward_input(const ConvShape& shape, const double* dy, const double* w, double* dx);
void backward_weight(const ConvShape& shape, const double* dy, const double* x, double* dw, double* db);
}  // namespace plain_conv

}  // namespace miniddp
