#include "common/kernels/cuda/elementwise.h"

#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/planes.h"

namespace miniddp::cuda {

namespace {

// A grid-stride loop: the grid need not cover all elements, each thread steps by the size of the whole grid. Neighbouring
// threads touch neighbouring elements, so a warp reads whole lines of memory.
template <class T, class F>
__global__ void map_nothing(int64_t n, F f, T* out) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) out[i] = f();
}

template <class T, class F>
__global__ void map_one(int64_t n, F f, const T* a, T* out) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) out[i] = f(a[i]);
}

template <class T, class F>
__global__ void map_two(int64_t n, F f, const T* a, const T* b, T* out) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) out[i] = f(a[i], b[i]);
}

// ReLU and its gradient, written out: the first kernels to read.
template <class T>
__global__ void relu(int64_t n, const T* x, T* y) {
  // BEGIN SOLUTION 01.2 relu kernel
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    y[i] = x[i] < 0 ? T{0} : x[i];  // this way round NaN passes
  }
  // END SOLUTION
}

template <class T>
__global__ void relu_gradient(int64_t n, const T* dy, const T* y, T* dx) {
  // BEGIN SOLUTION 01.3 relu's gradient
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    dx[i] = y[i] > 0 ? dy[i] : T{0};
  }
  // END SOLUTION
}

template <class T>
__global__ void scale_each_plane(int64_t planes, int64_t size, const T* x, const T* mask, T* y) {
  for (int64_t plane = first_plane(); plane < planes; plane += plane_step()) {
    const T factor = mask[plane];
    for (int64_t i = threadIdx.x; i < size; i += blockDim.x) y[plane * size + i] = x[plane * size + i] * factor;
  }
}

constexpr unsigned threads = 256;

template <class T>
struct Constant {
  T value;
  __device__ T operator()() const { return value; }
};
struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Multiply {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a * b;
  }
};
template <class T>
struct MultiplyBy {
  T factor;
  __device__ T operator()(T a) const { return a * factor; }
};
template <class T>
struct AddMultiple {
  T alpha;
  __device__ T operator()(T x, T y) const { return y + alpha * x; }
};

}  // namespace

template <class T>
void fill(cudaStream_t stream, int64_t n, T value, T* out) {
  launch(map_nothing<T, Constant<T>>, blocks_for(n, threads), threads, 0, stream, n, Constant<T>{value}, out);
}

template <class T>
void add(cudaStream_t stream, int64_t n, const T* a, const T* b, T* out) {
  launch(map_two<T, Add>, blocks_for(n, threads), threads, 0, stream, n, Add{}, a, b, out);
}

template <class T>
void mul(cudaStream_t stream, int64_t n, const T* a, const T* b, T* out) {
  launch(map_two<T, Multiply>, blocks_for(n, threads), threads, 0, stream, n, Multiply{}, a, b, out);
}

template <class T>
void scale(cudaStream_t stream, int64_t n, const T* a, T factor, T* out) {
  launch(map_one<T, MultiplyBy<T>>, blocks_for(n, threads), threads, 0, stream, n, MultiplyBy<T>{factor}, a, out);
}

template <class T>
void axpy(cudaStream_t stream, int64_t n, T alpha, const T* x, T* y) {
  launch(map_two<T, AddMultiple<T>>, blocks_for(n, threads), threads, 0, stream, n, AddMultiple<T>{alpha}, x, y, y);
}

template <class T>
void relu_forward(cudaStream_t stream, int64_t n, const T* x, T* y) {
  launch(relu<T>, blocks_for(n, threads), threads, 0, stream, n, x, y);
}

template <class T>
void relu_backward(cudaStream_t stream, int64_t n, const T* dy, const T* y, T* dx) {
  launch(relu_gradient<T>, blocks_for(n, threads), threads, 0, stream, n, dy, y, dx);
}

template <class T>
void scale_planes(cudaStream_t stream, int64_t planes, int64_t size, const T* x, const T* mask, T* y) {
  if (size == 0) return;
  const dim3 block = plane_block(size);
  launch(scale_each_plane<T>, plane_grid(planes, block), block, 0, stream, planes, size, x, mask, y);
}

template void fill(cudaStream_t, int64_t, float, float*);
template void fill(cudaStream_t, int64_t, double, double*);
template void fill(cudaStream_t, int64_t, int64_t, int64_t*);
template void fill(cudaStream_t, int64_t, uint8_t, uint8_t*);

#define INSTANTIATE(T)                                                                       \
  template void add(cudaStream_t, int64_t, const T*, const T*, T*);                          \
  template void mul(cudaStream_t, int64_t, const T*, const T*, T*);                          \
  template void scale(cudaStream_t, int64_t, const T*, T, T*);                               \
  template void axpy(cudaStream_t, int64_t, T, const T*, T*);                                \
  template void relu_forward(cudaStream_t, int64_t, const T*, T*);                           \
  template void relu_backward(cudaStream_t, int64_t, const T*, const T*, T*);                \
  template void scale_planes(cudaStream_t, int64_t, int64_t, const T*, const T*, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace miniddp::cuda
