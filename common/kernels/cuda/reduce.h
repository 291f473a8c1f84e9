// Sums of many elements into few, in two passes or by one block for each result, never by atomic additions: float addition
// is not associative, and atomics come in another order in every run.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace miniddp::cuda {

/// Doubles of working memory that sum() needs.
inline constexpr int64_t sum_workspace = 1024;

/// *out = sum of in (n), in float64 within.
template <class T>
void sum(cudaStream_t stream, int64_t n, const T* in, double* workspace, T* out);

/// out (columns) = sums over the rows of in (rows, columns), row-major.
template <class T>
void sum_rows(cudaStream_t stream, int64_t rows, int64_t columns, const T* in, T* out);

/// out (channels) = sums over batch and size of in (batch, channels, size).
template <class T>
void sum_channels(cudaStream_t stream, int64_t batch, int64_t channels, int64_t size, const T* in, T* out);

/// out (n) = sum of parts (count, n), added to what is there if `accumulate`.
template <class T>
void sum_parts(cudaStream_t stream, int64_t count, int64_t n, const T* parts, bool accumulate, T* out);

}  // namespace miniddp::cuda
