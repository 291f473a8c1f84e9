// Conversions between element types. The 16-bit floats exist for communication: half the bytes on the wire.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/kernels/cuda/elementwise.h"
#include "common/kernels/cuda/launch.h"

namespace miniddp::cuda {

namespace {

template <class T>
__device__ T widen(T value) {
  return value;
}
__device__ float widen(__half value) { return __half2float(value); }
__device__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

// Round to nearest, ties to even. float64 goes to 16 bits by way of float32, as in PyTorch.
template <class To>
struct Narrow {
  template <class From>
  __device__ static To from(From value) {
    return static_cast<To>(value);
  }
};
template <>
struct Narrow<__half> {
  template <class From>
  __device__ static __half from(From value) {
    return __float2half_rn(static_cast<float>(value));
  }
};
template <>
struct Narrow<__nv_bfloat16> {
  template <class From>
  __device__ static __nv_bfloat16 from(From value) {
    return __float2bfloat16_rn(static_cast<float>(value));
  }
};

template <class From, class To>
__global__ void convert(int64_t n, const From* in, To* out) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) out[i] = Narrow<To>::from(widen(in[i]));
}

template <class From, class To>
void launch_convert(cudaStream_t stream, int64_t n, const void* in, void* out) {
  launch(convert<From, To>, blocks_for(n, 256), 256, 0, stream, n, static_cast<const From*>(in), static_cast<To*>(out));
}

template <class From>
void cast_from(cudaStream_t stream, int64_t n, const void* in, DType to, void* out) {
  switch (to) {
    case DType::float32: return launch_convert<From, float>(stream, n, in, out);
    case DType::float64: return launch_convert<From, double>(stream, n, in, out);
    case DType::float16: return launch_convert<From, __half>(stream, n, in, out);
    case DType::bfloat16: return launch_convert<From, __nv_bfloat16>(stream, n, in, out);
    default: throw Error("expected a floating point type to convert to, found another; see Kernels::cast");
  }
}

}  // namespace

void cast(cudaStream_t stream, int64_t n, DType from, const void* in, DType to, void* out) {
  switch (from) {
    case DType::float32: return cast_from<float>(stream, n, in, to, out);
    case DType::float64: return cast_from<double>(stream, n, in, to, out);
    case DType::float16: return cast_from<__half>(stream, n, in, to, out);
    case DType::bfloat16: return cast_from<__nv_bfloat16>(stream, n, in, to, out);
    case DType::uint8: return cast_from<uint8_t>(stream, n, in, to, out);
    case DType::int64: return cast_from<int64_t>(stream, n, in, to, out);
  }
}

}  // namespace miniddp::cuda
