// Convolution without im2col's matrix: the three products of the layer, whose loaders pick the pixels out of the images.
//   forward          y  (O, N*places)  = w (O, patch) * patches (patch, N*places)
//   backward, input  dx (C, N*pixels)  = w^T (C, O*K*K) * the dy under each pixel (O*K*K, N*pixels)
//   backward, weight dw (O, patch)     = dy (O, N*places) * patches^T (N*places, patch), in parts over N*places
#include <algorithm>

#include "common/kernels/cuda/conv2d.h"
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/register_tiles.h"

namespace miniddp::cuda {

namespace {

constexpr int64_t most_columns = int64_t{1} << 30;

/// Row o, step k: w (O, patch).
template <class T>
struct LoadWeights {
  static constexpr bool k_first = true;
  struct Place {
    const T* row;
    bool inside;
  };
  const T* w;
  int rows, patch;

  __device__ Place place(int o) const { return {w + int64_t{o} * patch, o < rows}; }
  __device__ T load(const Place& place, int k) const { return place.inside ? place.row[k] : T{0}; }
};

/// Row c, step (o, kh, kw): the weights that channel c is multiplied by.
template <class T>
struct LoadWeightsOfChannel {
  static constexpr bool k_first = true;
  struct Place {
    const T* at;
    bool inside;
  };
  const T* w;
  int channels, taps;  // taps: K * K

  __device__ Place place(int c) const { return {w + c * taps, c < channels}; }
  __device__ T load(const Place& place, int k) const {
    const int o = k / taps;
    return place.inside ? place.at[int64_t{o} * channels * taps + (k - o * taps)] : T{0};
  }
};

/// Column (n, place), step (c, kh, kw): the pixel under that tap of the kernel.
template <class T>
struct LoadPatches {
  static constexpr bool k_first = false;
  struct Place {
    const T* image;
    int top, left;
    bool inside;
  };
  ConvShape s;
  const T* x;

  __device__ Place place(int column) const {
    const int n = column / s.places(), p = column % s.places();
    return {x + int64_t{n} * s.c * s.pixels(), p / s.ow * s.stride - s.padding, p % s.ow * s.stride - s.padding, n < s.n};
  }
  __device__ T load(const Place& place, int k) const {
    const int taps = s.k * s.k, c = k / taps, tap = k - c * taps;
    const int row = place.top + tap / s.k, column = place.left + tap % s.k;
    const bool inside = place.inside && row >= 0 && row < s.h && column >= 0 && column < s.w;
    return inside ? place.image[(int64_t{c} * s.h + row) * s.w + column] : T{0};
  }
};

/// Column (n, pixel), step (o, kh, kw): the gradient of the output that saw the pixel through that tap.
template <class T>
struct LoadGradientOfPixel {
  static constexpr bool k_first = false;
  struct Place {
    const T* gradient;
    int row, column;
    bool inside;
  };
  ConvShape s;
  const T* dy;

  __device__ Place place(int pixel) const {
    const int n = pixel / s.pixels(), p = pixel % s.pixels();
    return {dy + int64_t{n} * s.o * s.places(), p / s.w + s.padding, p % s.w + s.padding, n < s.n};
  }
  __device__ T load(const Place& place, int k) const {
    const int taps = s.k * s.k, o = k / taps, tap = k - o * taps;
    const int down = place.row - tap / s.k, right = place.column - tap % s.k;
    if (!place.inside || down < 0 || right < 0) return T{0};
    const int oh = down / s.stride, ow = right / s.stride;
    if (oh * s.stride != down || ow * s.stride != right || oh >= s.oh || ow >= s.ow) return T{0};
    return place.gradient[(int64_t{o} * s.oh + oh) * s.ow + ow];
  }
};

/// Row o, step (n, place).
template <class T>
struct LoadGradient {
  static constexpr bool k_first = true;
  struct Place {
    const T* row;
    bool inside;
  };
  ConvShape s;
  const T* dy;

  __device__ Place place(int o) const { return {dy + int64_t{o} * s.places(), o < s.o}; }
  __device__ T load(const Place& place, int k) const {
    const int n = k / s.places(), p = k - n * s.places();
    return place.inside ? place.row[int64_t{n} * s.o * s.places() + p] : T{0};
  }
};

/// Column (c, kh, kw), step (n, place): the patches, turned on their side.
template <class T>
struct LoadTap {
  static constexpr bool k_first = true;
  struct Place {
    int c, row, column;
    bool inside;
  };
  ConvShape s;
  const T* x;

  __device__ Place place(int at) const {
    const int taps = s.k * s.k, tap = at % taps;
    return {at / taps, tap / s.k - s.padding, tap % s.k - s.padding, at < s.patch()};
  }
  __device__ T load(const Place& place, int k) const {
    const int n = k / s.places(), p = k - n * s.places();
    const int row = p / s.ow * s.stride + place.row, column = p % s.ow * s.stride + place.column;
    const bool inside = place.inside && row >= 0 && row < s.h && column >= 0 && column < s.w;
    return inside ? x[((int64_t{n} * s.c + place.c) * s.h + row) * s.w + column] : T{0};
  }
};

/// Element (channel, (n, place)) of a tensor (N, channels, places).
template <class T>
struct StoreChannels {
  int64_t samples;
  int channels, places;
  const T* bias;  // (channels), or null
  T* y;

  __device__ void operator()(int channel, int column, T value) const {
    const int n = column / places;
    if (channel >= channels || n >= samples) return;
    y[(int64_t{n} * channels + channel) * places + (column - n * places)] = value + (bias != nullptr ? bias[channel] : T{0});
  }
};

template <class T>
struct StorePart {
  int rows, columns;
  T* part;

  __device__ void operator()(int row, int column, T value) const {
    if (row < rows && column < columns) part[int64_t{row} * columns + column] = value;
  }
};

// x of the grid: tiles of columns, of which there may be millions. y: tiles of rows, stepped through.
template <class T, class Tiles, class LoadA, class LoadB>
__global__ void convolve(int row_tiles, int k, LoadA a, LoadB b, StoreChannels<T> store) {
  for (int tile = static_cast<int>(blockIdx.y); tile < row_tiles; tile += static_cast<int>(gridDim.y))
    multiply_tile<T, Tiles>(tile * Tiles::BM, static_cast<int>(blockIdx.x) * Tiles::BN, 0, k, a, b, store);
}

// z: parts of the sum over k.
template <class T, class Tiles>
__global__ void convolve_weight(int row_tiles, int k, int part_steps, LoadGradient<T> a, LoadTap<T> b, T* parts) {
  const int begin = static_cast<int>(blockIdx.z) * part_steps, end = min(k, begin + part_steps);
  const StorePart<T> store{a.s.o, a.s.patch(), parts + int64_t{blockIdx.z} * a.s.o * a.s.patch()};
  for (int tile = static_cast<int>(blockIdx.y); tile < row_tiles; tile += static_cast<int>(gridDim.y))
    multiply_tile<T, Tiles>(tile * Tiles::BM, static_cast<int>(blockIdx.x) * Tiles::BN, begin, end, a, b, store);
}

unsigned tiles_of(int64_t size, int tile) { return static_cast<unsigned>((size + tile - 1) / tile); }

template <class T, class Tiles, class LoadA, class LoadB>
void launch_convolve(cudaStream_t stream, int64_t columns, int k, LoadA a, LoadB b, StoreChannels<T> store) {
  const unsigned row_tiles = tiles_of(store.channels, Tiles::BM);
  launch(convolve<T, Tiles, LoadA, LoadB>, dim3(tiles_of(columns, Tiles::BN), blocks_for(row_tiles, 1)), Tiles::threads, 0, stream,
         static_cast<int>(row_tiles), k, a, b, store);
}

/// The tile's height by the number of rows, so that few channels do not leave most of it empty.
template <class T, class LoadA, class LoadB>
void choose_tiles(cudaStream_t stream, int64_t columns, int k, LoadA a, LoadB b, StoreChannels<T> store) {
  const auto go = store.channels <= 16   ? launch_convolve<T, TilesOf16, LoadA, LoadB>
                  : store.channels <= 32 ? launch_convolve<T, TilesOf32, LoadA, LoadB>
                                         : launch_convolve<T, TilesOf64, LoadA, LoadB>;
  go(stream, columns, k, a, b, store);
}

template <class T, class Tiles>
void launch_convolve_weight(cudaStream_t stream, const ConvShape& s, int splits, LoadGradient<T> a, LoadTap<T> b, T* parts) {
  const unsigned row_tiles = tiles_of(s.o, Tiles::BM);
  const int k = static_cast<int>(s.n * s.places());
  // Whole tiles of k for each part.
  const int part_steps = static_cast<int>(tiles_of(tiles_of(k, Tiles::BK), splits)) * Tiles::BK;
  launch(convolve_weight<T, Tiles>, dim3(tiles_of(s.patch(), Tiles::BN), blocks_for(row_tiles, 1), static_cast<unsigned>(splits)),
         Tiles::threads, 0, stream, static_cast<int>(row_tiles), k, part_steps, a, b, parts);
}

}  // namespace

int64_t most_samples(const ConvShape& shape) { return std::max<int64_t>(1, most_columns / std::max(shape.places(), shape.pixels())); }

int split_count(const ConvShape& shape) {
  // Enough blocks for a large GPU, but each with at least 512 steps.
  return static_cast<int>(std::clamp<int64_t>(shape.n * shape.places() / 512, 1, 128));
}

template <class T>
void conv2d_implicit_forward(cudaStream_t stream, const ConvShape& shape, const T* x, const T* w, const T* b, T* y) {
  for (int64_t start = 0; start < shape.n; start += most_samples(shape)) {
    const ConvShape s = shape.with_batch(std::min(most_samples(shape), shape.n - start));
    choose_tiles<T>(stream, s.n * s.places(), s.patch(), LoadWeights<T>{w, s.o, s.patch()}, LoadPatches<T>{s, x + start * s.x_size()},
                    StoreChannels<T>{s.n, s.o, s.places(), b, y + start * s.y_size()});
  }
}

template <class T>
void conv2d_implicit_backward_input(cudaStream_t stream, const ConvShape& shape, const T* dy, const T* w, T* dx) {
  for (int64_t start = 0; start < shape.n; start += most_samples(shape)) {
    const ConvShape s = shape.with_batch(std::min(most_samples(shape), shape.n - start));
    choose_tiles<T>(stream, s.n * s.pixels(), s.o * s.k * s.k, LoadWeightsOfChannel<T>{w, s.c, s.k * s.k},
                    LoadGradientOfPixel<T>{s, dy + start * s.y_size()},
                    StoreChannels<T>{s.n, s.c, s.pixels(), nullptr, dx + start * s.x_size()});
  }
}

template <class T>
void conv2d_implicit_backward_weight(cudaStream_t stream, const ConvShape& shape, const T* dy, const T* x, int splits, T* parts) {
  const auto go = shape.o <= 16   ? launch_convolve_weight<T, TilesOf16>
                  : shape.o <= 32 ? launch_convolve_weight<T, TilesOf32>
                                  : launch_convolve_weight<T, TilesOf64>;
  go(stream, shape, splits, {shape, dy}, {shape, x}, parts);
}

#define INSTANTIATE(T)                                                                                              \
  template void conv2d_implicit_forward(cudaStream_t, const ConvShape&, const T*, const T*, const T*, T*);          \
  template void conv2d_implicit_backward_input(cudaStream_t, const ConvShape&, const T*, const T*, T*);             \
  template void conv2d_implicit_backward_weight(cudaStream_t, const ConvShape&, const T*, const T*, int, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace miniddp::cuda
