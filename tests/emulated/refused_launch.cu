// A launch that every GPU refuses: 2048 threads in a block.
#include "common/kernels/cuda/launch.h"

namespace miniddp::testing {

namespace {
__global__ void nothing(int) {}
}  // namespace

void launch_too_many_threads(cudaStream_t stream) { cuda::launch(nothing, 1, 2048, 0, stream, 1); }

}  // namespace miniddp::testing
