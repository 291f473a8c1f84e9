#include <dynamic_shared.h>

#include "tests/emulator/mistakes/mistakes.h"

namespace miniddp::testing {
namespace {

constexpr int threads = 64, blocks = 4, total = threads * blocks, tile = 8;

// ---- barriers

template <bool first_barrier, bool second_barrier>
__global__ void product(int n, const float* a, const float* b, float* c) {
  __shared__ float a_tile[tile][tile];
  __shared__ float b_tile[tile][tile];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * tile + ty, col = blockIdx.x * tile + tx;
  float sum = 0;
  for (int k0 = 0; k0 < n; k0 += tile) {
    a_tile[ty][tx] = a[row * n + k0 + tx];
    b_tile[ty][tx] = b[(k0 + ty) * n + col];
    if constexpr (first_barrier) __syncthreads();
    for (int i = 0; i < tile; ++i) sum += a_tile[ty][i] * b_tile[i][tx];
    if constexpr (second_barrier) __syncthreads();
  }
  c[row * n + col] = sum;
}

template <bool barrier>
__global__ void block_sum(const float* x, float* out) {
  __shared__ float parts[threads / 32];
  float value = x[blockIdx.x * threads + threadIdx.x];
  for (int d = 16; d > 0; d /= 2) value += __shfl_down_sync(0xffffffffu, value, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  if constexpr (barrier) __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = parts[0] + parts[1];
}

template <bool barrier>
__global__ void left_neighbour(float* y) {
  __shared__ float own[threads];
  own[threadIdx.x] = static_cast<float>(threadIdx.x);
  if constexpr (barrier) __syncthreads();
  y[blockIdx.x * threads + threadIdx.x] = threadIdx.x > 0 ? own[threadIdx.x - 1] : 0.0f;
}

template <bool sync>
__global__ void lane_exchange(float* y) {
  __shared__ float own[threads];
  own[threadIdx.x] = static_cast<float>(threadIdx.x);
  if constexpr (sync) __syncwarp();
  y[blockIdx.x * threads + threadIdx.x] = own[threadIdx.x ^ 1];
}

__global__ void divergent_barrier(float* y) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();  // another line: not the same barrier
  y[threadIdx.x] = 1;
}

__global__ void barrier_after_return(float* y) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}

__global__ void endless_wait(float* y) {
  volatile float* flag = y;
  if (threadIdx.x == 0)
    while (flag[1] != 5) {
    }
  if (threadIdx.x == 1) flag[1] = 5;  // never starts: a GPU's warp, too, may not get here
}

// ---- memory

template <bool atomic>
__global__ void count_threads(float* out) {
  if constexpr (atomic)
    atomicAdd(out, 1.0f);
  else
    *out += 1.0f;
}

__global__ void past_the_end(int n, float* y) {
  for (int i = blockIdx.x * threads + threadIdx.x; i <= n; i += gridDim.x * threads) y[i] = 1;  // < n
}

__global__ void past_static_shared(float* y) {
  __shared__ float own[threads];
  own[threadIdx.x] = 1;
  __syncthreads();
  const float* p = own;
  y[blockIdx.x * threads + threadIdx.x] = p[threadIdx.x + 1];
}

__global__ void past_dynamic_shared(float* y) {
  float* own = dynamic_shared<float>();  // (threads)
  own[threadIdx.x] = 1;
  __syncthreads();
  y[blockIdx.x * threads + threadIdx.x] = own[threadIdx.x + 1];
}

__global__ void unset_shared(float* y) {
  __shared__ float own[threads];
  if (threadIdx.x > 0) own[threadIdx.x] = 1;
  __syncthreads();
  y[blockIdx.x * threads + threadIdx.x] = own[threadIdx.x];
}

// ---- warps

__global__ void shuffle_from_absent_lane(float* y) {
  float value = static_cast<float>(threadIdx.x);
  if (threadIdx.x % 32 < 16) value = __shfl_down_sync(0x0000ffffu, value, 8);  // lanes 8 to 15 read 16 to 23
  y[blockIdx.x * threads + threadIdx.x] = value;
}

__global__ void not_in_own_mask(float* y) {
  y[blockIdx.x * threads + threadIdx.x] = __shfl_down_sync(0x0000ffffu, 1.0f, 1);
}

__global__ void add_kernel(int n, const float* x, float* y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += x[i];
}

// ---- running them

Outcome run_product(void (*kernel)(int, const float*, const float*, float*)) {
  const int n = 3 * tile;
  std::vector<float> a(n * n), b(n * n), expected(n * n);
  for (int i = 0; i < n * n; ++i) a[i] = static_cast<float>(i % 7 - 3), b[i] = static_cast<float>(i % 5 - 2);
  for (int i = 0; i < n; ++i)
    for (int l = 0; l < n; ++l)
      for (int j = 0; j < n; ++j) expected[i * n + j] += a[i * n + l] * b[l * n + j];
  float* device[3] = {filled(n * n, 0), filled(n * n, 0), filled(n * n, 0)};
  must(cudaMemcpy(device[0], a.data(), n * n * sizeof(float), cudaMemcpyHostToDevice));
  must(cudaMemcpy(device[1], b.data(), n * n * sizeof(float), cudaMemcpyHostToDevice));
  start(kernel, dim3(3, 3), dim3(tile, tile), 0, nullptr, n, device[0], device[1], device[2]);
  return {values_of(device[2], n * n), expected};
}

Outcome run_sum(void (*kernel)(const float*, float*)) {
  float *x = filled(total, 1), *out = filled(blocks, 0);
  start(kernel, blocks, threads, 0, nullptr, x, out);
  return {values_of(out, blocks), std::vector<float>(blocks, threads)};
}

/// A kernel of 4 blocks of 64 threads that sets y, with what it must set.
Outcome run(void (*kernel)(float*), float (*expected)(int thread), std::size_t shared = 0) {
  float* y = filled(total, 0);
  start(kernel, blocks, threads, shared, nullptr, y);
  Outcome outcome{values_of(y, total), {}};
  for (int i = 0; i < total; ++i) outcome.expected.push_back(expected(i % threads));
  return outcome;
}

Outcome run_count(void (*kernel)(float*)) {
  float* out = filled(1, 0);
  start(kernel, blocks, threads, 0, nullptr, out);
  return {values_of(out, 1), {static_cast<float>(total)}};
}

float one(int) { return 1; }
float left(int thread) { return thread > 0 ? static_cast<float>(thread - 1) : 0.0f; }
float exchanged(int thread) { return static_cast<float>(thread ^ 1); }

}  // namespace

void add(int n, const float* x, float* y, cudaStream_t stream) { start(add_kernel, 16, 64, 0, stream, n, x, y); }

Catalogue kernel_mistakes() {
  return {
      {"right/product", [] { return run_product(product<true, true>); }},
      {"product without the first barrier", [] { return run_product(product<false, true>); }},
      {"product without the second barrier", [] { return run_product(product<true, false>); }},
      {"right/sum", [] { return run_sum(block_sum<true>); }},
      {"sum without a barrier", [] { return run_sum(block_sum<false>); }},
      {"right/left neighbour", [] { return run(left_neighbour<true>, left); }},
      {"left neighbour without a barrier", [] { return run(left_neighbour<false>, left); }},
      {"right/exchange in a warp", [] { return run(lane_exchange<true>, exchanged); }},
      {"exchange in a warp without syncwarp", [] { return run(lane_exchange<false>, exchanged); }},
      {"right/count", [] { return run_count(count_threads<true>); }},
      {"count without an atomic", [] { return run_count(count_threads<false>); }},
      {"barriers at two lines", [] { return run(divergent_barrier, one); }},
      {"barrier after some have returned", [] { return run(barrier_after_return, one); }},
      {"threads that wait for each other", [] { return run(endless_wait, one); }},
      {"a step past global memory",
       [] {
         float* y = filled(total, 0);
         start(past_the_end, blocks, threads, 0, nullptr, total, y);
         return Outcome{values_of(y, total), std::vector<float>(total, 1)};
       }},
      {"a step past static shared memory", [] { return run(past_static_shared, one); }},
      {"a step past dynamic shared memory",
       [] { return run(past_dynamic_shared, one, threads * sizeof(float)); }},
      {"unset shared memory", [] { return run(unset_shared, one); }},
      {"unset global memory",
       [] {
         float* x = nullptr;
         must(cudaMalloc(&x, total * sizeof(float)));  // is not zero
         float* y = filled(total, 1);
         add(total, x, y, nullptr);
         return Outcome{values_of(y, total), std::vector<float>(total, 1)};
       }},
      {"shuffle from an absent lane",
       [] { return run(shuffle_from_absent_lane, [](int t) { return float(t % 32 < 16 ? t + 8 : t); }); }},
      {"lane outside its own mask", [] { return run(not_in_own_mask, one); }},
  };
}

}  // namespace miniddp::testing
