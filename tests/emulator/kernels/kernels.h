// Right kernels that use every feature the emulator has. All pointers are device memory; lengths are elements.
#pragma once

#include <cuda_runtime.h>

namespace miniddp::testing {

/// y = a * x + y, grid-stride.
void saxpy(int n, float a, const float* x, float* y, cudaStream_t stream);
/// c (m, n) = a (m, k) * b (k, n), row-major: tiles of 16 x 16 in static shared memory.
void sgemm_tiled(int m, int n, int k, const float* a, const float* b, float* c, cudaStream_t stream);
/// The same: tiles of 64 x 64 in dynamic shared memory, 4 x 4 results a thread.
void sgemm_registers(int m, int n, int k, const float* a, const float* b, float* c, cudaStream_t stream);
/// *out += sum of x: warp shuffles, shared memory, then one atomicAdd a block.
void sum(int n, const float* x, float* out, cudaStream_t stream);
/// bins (count) += how often each value occurs in x: shared-memory atomics.
void histogram(int n, const int* x, int count, int* bins, cudaStream_t stream);
/// y = inclusive prefix sums of x, n <= 1024: one block, a barrier between steps.
void prefix_sum(int n, const float* x, float* y, cudaStream_t stream);
/// out (blocks * threads): each thread's place in the grid, computed from threadIdx, blockIdx, blockDim and gridDim.
void places(dim3 grid, dim3 block, int* out, cudaStream_t stream);
/// out (32, 7): what each lane gets from shuffle, up, down, xor (width 8), ballot, any, all.
void warp_operations(int* out, cudaStream_t stream);
/// in place: x (n) reversed within each warp through shared memory and __syncwarp.
void reverse_in_warps(int n, float* x, cudaStream_t stream);
/// counters (4): atomicMax, atomicMin of the thread numbers, a count made with atomicCAS, the last value of atomicExch.
void atomics(int threads, int* counters, cudaStream_t stream);
/// A kernel that does nothing, launched as given; the error is returned, not thrown.
cudaError_t try_launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, int* pointer);
/// Lets that kernel use more dynamic shared memory than 48 KiB.
cudaError_t allow_dynamic_shared(int bytes);

}  // namespace miniddp::testing
