// The static __shared__ variables of a kernel.
#pragma once

namespace miniddp::emulator {

/// Fills them with the unwritten pattern before a block starts: what an earlier block left there would hide a missing
/// barrier. They can be found only if the kernel is in a shared library of its own (gpu_library in cmake/Gpu.cmake), whose
/// thread-local memory then is its __shared__ variables and nothing else; for others this does nothing.
void fill_static_shared(const void* kernel);

}  // namespace miniddp::emulator
