// Convolution as its definition says, in float64.
#include <algorithm>

#include "common/kernels/cpu/convolution.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp::plain_conv {

namespace {

/// Output positions whose input, `offset` from the window's start, lies inside [0, size).
struct Range {
  int64_t begin, end;
};
Range inside(int64_t offset, int64_t stride, int64_t padding, int64_t size, int64_t outputs) {
  const int64_t first = padding - offset;  // position * stride >= first
  const int64_t last = size - 1 + padding - offset;
  if (last < 0) return {0, 0};
  return {first > 0 ? (first + stride - 1) / stride : 0, std::min(outputs, last / stride + 1)};
}

/// f(x index, w index, y index) for every product of one sample's channel pair (o, c).
template <class F>
void for_each_product(const ConvShape& s, int64_t o, int64_t c, const F& f) {
  for (int64_t kh = 0; kh < s.k; ++kh) {
    const Range rows = inside(kh, s.stride, s.padding, s.h, s.oh);
    for (int64_t kw = 0; kw < s.k; ++kw) {
      const Range columns = inside(kw, s.stride, s.padding, s.w, s.ow);
      const int64_t weight = ((o * s.c + c) * s.k + kh) * s.k + kw;
      for (int64_t oh = rows.begin; oh < rows.end; ++oh) {
        const int64_t x_row = (c * s.h + oh * s.stride - s.padding + kh) * s.w;
        const int64_t y_row = (o * s.oh + oh) * s.ow;
        for (int64_t ow = columns.begin; ow < columns.end; ++ow) {
          f(x_row + ow * s.stride - s.padding + kw, weight, y_row + ow);
        }
      }
    }
  }
}

}  // namespace

void forward(const ConvShape& s, const double* x, const double* w, const double* b, double* y) {
  parallel_for(s.n, s.y_size() * s.c * s.k * s.k, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const double* in = x + n * s.x_size();
      double* out = y + n * s.y_size();
      for (int64_t o = 0; o < s.o; ++o) {
        std::fill_n(out + o * s.oh * s.ow, s.oh * s.ow, b == nullptr ? 0 : b[o]);
        for (int64_t c = 0; c < s.c; ++c) {
          for_each_product(s, o, c, [&](int64_t xi, int64_t wi, int64_t yi) { out[yi] += in[xi] * w[wi]; });
        }
      }
    }
  });
}

void backward_input(const ConvShape& s, const double* dy, const double* w, double* dx) {
  parallel_for(s.n, s.y_size() * s.c * s.k * s.k, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      double* out = dx + n * s.x_size();
      const double* grad = dy + n * s.y_size();
      std::fill_n(out, s.x_size(), 0.0);
      for (int64_t o = 0; o < s.o; ++o) {
        for (int64_t c = 0; c < s.c; ++c) {
          for_each_product(s, o, c, [&](int64_t xi, int64_t wi, int64_t yi) { out[xi] += grad[yi] * w[wi]; });
        }
      }
    }
  });
}

void backward_weight(const ConvShape& s, const double* dy, const double* x, double* dw, double* db) {
  std::fill_n(dw, s.w_size(), 0.0);
  parallel_for(s.o, s.n * s.oh * s.ow * s.c * s.k * s.k, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      double total = 0;
      for (int64_t n = 0; n < s.n; ++n) {
        const double* in = x + n * s.x_size();
        const double* grad = dy + n * s.y_size();
        for (int64_t c = 0; c < s.c; ++c) {
          for_each_product(s, o, c, [&](int64_t xi, int64_t wi, int64_t yi) { dw[wi] += grad[yi] * in[xi]; });
        }
        for (int64_t i = 0; i < s.oh * s.ow; ++i) total += grad[o * s.oh * s.ow + i];
      }
      if (db != nullptr) db[o] = total;
    }
  });
}

}  // namespace miniddp::plain_conv
