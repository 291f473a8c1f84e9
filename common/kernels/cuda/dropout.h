// Random masks from a counter-based generator.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace miniddp::cuda {

/// mask (n) = 1/keep with probability keep, else 0. The same (seed, call + *later_calls) gives the same mask. `later_calls` lies in
/// device memory, so that a captured launch can draw anew each time it runs.
template <class T>
void dropout_mask(cudaStream_t stream, int64_t n, double keep, uint64_t seed, uint64_t call, const uint64_t* later_calls, T* mask);

}  // namespace miniddp::cuda
