#include "common/kernels/cuda/dropout.h"

#include "common/kernels/cuda/launch.h"

namespace miniddp::cuda {

namespace {

struct Bits128 {
  uint32_t word[4];
};

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011). A generator with a state
// would have to be run step by step; this one is a function of a counter, so every thread computes its own numbers.
__device__ Bits128 philox(Bits128 counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * counter.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The counter is (which four elements, which call), so no two calls share numbers.
template <class T>
__global__ void draw_mask(int64_t n, uint64_t threshold, T kept, uint64_t seed, uint64_t call, const uint64_t* later_calls, T* mask) {
  const uint64_t offset = call + *later_calls;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; 4 * i < n; i += step) {
    const Bits128 bits = philox({{static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), static_cast<uint32_t>(offset),
                                  static_cast<uint32_t>(offset >> 32)}},
                                static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    for (int j = 0; j < 4 && 4 * i + j < n; ++j) mask[4 * i + j] = bits.word[j] < threshold ? kept : T{0};
  }
}

}  // namespace

template <class T>
void dropout_mask(cudaStream_t stream, int64_t n, double keep, uint64_t seed, uint64_t call, const uint64_t* later_calls, T* mask) {
  const auto threshold = static_cast<uint64_t>(keep * 4294967296.0);  // of 2^32 equally likely words
  launch(draw_mask<T>, blocks_for((n + 3) / 4, 256), 256, 0, stream, n, threshold, T{1} / static_cast<T>(keep), seed, call, later_calls,
         mask);
}

template void dropout_mask(cudaStream_t, int64_t, double, uint64_t, uint64_t, const uint64_t*, float*);
template void dropout_mask(cudaStream_t, int64_t, double, uint64_t, uint64_t, const uint64_t*, double*);

}  // namespace miniddp::cuda
