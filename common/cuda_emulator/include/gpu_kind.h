// What kind of GPU this build runs on: the emulator's. nvcc's twin is common/kernels/cuda/nvcc/gpu_kind.h.
#pragma once

namespace miniddp::cuda {

inline constexpr bool gpu_is_emulated = true;

}  // namespace miniddp::cuda
