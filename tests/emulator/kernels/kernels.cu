#include "tests/emulator/kernels/kernels.h"

#include "common/kernels/cuda/launch.h"

namespace miniddp::testing {
namespace {

using cuda::blocks_for;
using cuda::launch;

__global__ void saxpy_kernel(int n, float a, const float* x, float* y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}

constexpr int tile = 16;

__global__ void __launch_bounds__(tile* tile)
    sgemm_tiled_kernel(int m, int n, int k, const float* __restrict__ a, const float* __restrict__ b,
                       float* __restrict__ c) {
  __shared__ float a_tile[tile][tile];
  __shared__ float b_tile[tile][tile];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * tile + ty, col = blockIdx.x * tile + tx;
  float sum = 0;
  for (int k0 = 0; k0 < k; k0 += tile) {
    a_tile[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.0f;
    b_tile[ty][tx] = col < n && k0 + ty < k ? b[(k0 + ty) * n + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < tile; ++i) sum += a_tile[ty][i] * b_tile[i][tx];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}

constexpr int side = 64, depth = 16;

__global__ void __launch_bounds__(256)
    sgemm_registers_kernel(int m, int n, int k, const float* __restrict__ a, const float* __restrict__ b,
                           float* __restrict__ c) {
  float* a_tile = dynamic_shared<float>();  // (depth, side)
  float* b_tile = a_tile + depth * side;    // (depth, side)
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  const int row0 = blockIdx.y * side, col0 = blockIdx.x * side;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += depth) {
    for (int i = t; i < side * depth; i += 256) {
      const int r = i / depth, q = i % depth;
      a_tile[q * side + r] = row0 + r < m && k0 + q < k ? a[(row0 + r) * k + k0 + q] : 0.0f;
      const int p = i / side, s = i % side;
      b_tile[p * side + s] = col0 + s < n && k0 + p < k ? b[(k0 + p) * n + col0 + s] : 0.0f;
    }
    __syncthreads();
    for (int q = 0; q < depth; ++q)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) sum[i][j] += a_tile[q * side + ty * 4 + i] * b_tile[q * side + tx * 4 + j];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int row = row0 + ty * 4 + i, col = col0 + tx * 4 + j;
      if (row < m && col < n) c[row * n + col] = sum[i][j];
    }
}

__device__ float warp_sum(float value) {
  for (int d = warpSize / 2; d > 0; d /= 2) value += __shfl_down_sync(0xffffffffu, value, d);
  return value;
}

__global__ void sum_kernel(int n, const float* x, float* out) {
  __shared__ float parts[32];
  const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  float value = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) value += x[i];
  value = warp_sum(value);
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  if (warp != 0) return;
  value = warp_sum(lane < static_cast<int>(blockDim.x) / warpSize ? parts[lane] : 0.0f);
  if (lane == 0) atomicAdd(out, value);
}

__global__ void histogram_kernel(int n, const int* x, int count, int* bins) {
  int* own = dynamic_shared<int>();  // (count)
  for (int b = threadIdx.x; b < count; b += blockDim.x) own[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[x[i]], 1);
  __syncthreads();
  for (int b = threadIdx.x; b < count; b += blockDim.x) atomicAdd(&bins[b], own[b]);
}

__global__ void prefix_sum_kernel(int n, const float* x, float* y) {
  __shared__ float sums[2][1024];
  const int t = threadIdx.x;
  sums[0][t] = t < n ? x[t] : 0.0f;
  int from = 0;
  for (int d = 1; d < static_cast<int>(blockDim.x); d *= 2, from ^= 1) {
    __syncthreads();
    sums[from ^ 1][t] = sums[from][t] + (t >= d ? sums[from][t - d] : 0.0f);
  }
  if (t < n) y[t] = sums[from][t];
}

__global__ void places_kernel(int* out) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned place = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[place] = static_cast<int>(place);
}

__global__ void warp_operations_kernel(int* out) {
  const int lane = threadIdx.x;
  int* row = out + lane * 7;
  row[0] = __shfl_sync(0xffffffffu, lane * 10, 5);
  row[1] = __shfl_up_sync(0xffffffffu, lane * 10, 3);
  row[2] = __shfl_down_sync(0xffffffffu, lane * 10, 3, 8);
  row[3] = __shfl_xor_sync(0xffffffffu, lane * 10, 5, 8);
  row[4] = static_cast<int>(__ballot_sync(0xffffffffu, lane % 3 == 0));
  row[5] = __any_sync(0xffffffffu, lane == 31);
  row[6] = __all_sync(0xffffffffu, lane < 31);
}

__global__ void reverse_in_warps_kernel(int n, float* x) {
  __shared__ float values[128];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  values[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncwarp();
  if (i < n) x[i] = values[threadIdx.x ^ 31];
}

__global__ void atomics_kernel(int* counters) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  atomicMax(&counters[0], place);
  atomicMin(&counters[1], place);
  int seen = 0;
  for (;;) {
    const int old = atomicCAS(&counters[2], seen, seen + 1);
    if (old == seen) break;
    seen = old;
  }
  atomicExch(&counters[3], 77);
}

__global__ void empty_kernel(int*) {}

}  // namespace

void saxpy(int n, float a, const float* x, float* y, cudaStream_t stream) {
  launch(saxpy_kernel, blocks_for(n, 256, 1024), 256, 0, stream, n, a, x, y);
}
void sgemm_tiled(int m, int n, int k, const float* a, const float* b, float* c, cudaStream_t stream) {
  launch(sgemm_tiled_kernel, dim3((n + tile - 1) / tile, (m + tile - 1) / tile), dim3(tile, tile), 0, stream, m, n, k, a,
         b, c);
}
void sgemm_registers(int m, int n, int k, const float* a, const float* b, float* c, cudaStream_t stream) {
  launch(sgemm_registers_kernel, dim3((n + side - 1) / side, (m + side - 1) / side), 256,
         2 * side * depth * sizeof(float), stream, m, n, k, a, b, c);
}
void sum(int n, const float* x, float* out, cudaStream_t stream) {
  launch(sum_kernel, blocks_for(n, 256, 64), 256, 0, stream, n, x, out);
}
void histogram(int n, const int* x, int count, int* bins, cudaStream_t stream) {
  launch(histogram_kernel, blocks_for(n, 128, 64), 128, count * sizeof(int), stream, n, x, count, bins);
}
void prefix_sum(int n, const float* x, float* y, cudaStream_t stream) {
  launch(prefix_sum_kernel, 1, 1024, 0, stream, n, x, y);
}
void places(dim3 grid, dim3 block, int* out, cudaStream_t stream) { launch(places_kernel, grid, block, 0, stream, out); }
void warp_operations(int* out, cudaStream_t stream) { launch(warp_operations_kernel, 1, 32, 0, stream, out); }
void reverse_in_warps(int n, float* x, cudaStream_t stream) {
  launch(reverse_in_warps_kernel, blocks_for(n, 128), 128, 0, stream, n, x);
}
void atomics(int threads, int* counters, cudaStream_t stream) {
  launch(atomics_kernel, threads / 32, 32, 0, stream, counters);
}
cudaError_t try_launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, int* pointer) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, empty_kernel, pointer);
}
cudaError_t allow_dynamic_shared(int bytes) {
  return cudaFuncSetAttribute(empty_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

}  // namespace miniddp::testing
