// What kind of GPU this build runs on: a real one. The emulator's twin is common/cuda_emulator/include/gpu_kind.h.
#pragma once

namespace miniddp::cuda {

inline constexpr bool gpu_is_emulated = false;

}  // namespace miniddp::cuda
