#include <cstring>

#include "common/kernels/backends.h"
#include "common/kernels/cpu/block_cache.h"
#include "common/kernels/cpu/cpu_kernels.h"
#include "common/kernels/cpu/parallel.h"

namespace miniddp {

Kernels& cpu_kernels() {
  static CpuKernels* instance = new CpuKernels;  // leaked on purpose: tensors in static variables may outlive it
  return *instance;
}

void* CpuKernels::allocate(size_t nbytes, int device) {
  check<DeviceError>(device >= 0 && device < most_devices, "expected a device from cpu:0 to cpu:{}, found cpu:{}",
                     most_devices - 1, device);
  return block_cache().allocate(nbytes);
}

void CpuKernels::deallocate(void* data, size_t /*nbytes*/, int /*device*/) { block_cache().deallocate(data); }

void CpuKernels::synchronize(int /*device*/) {}

void CpuKernels::copy_rows(void* dst, Device dst_device, size_t dst_pitch, const void* src, Device src_device,
                           size_t src_pitch, size_t width, size_t rows) {
  check<DeviceError>(dst_device.type == DeviceType::cpu && src_device.type == DeviceType::cpu,
                     "expected a copy between CPU devices, found {} to {}; the GPU's kernels copy from and to a GPU",
                     src_device.str(), dst_device.str());
  if (width == 0 || rows == 0) return;
  if (width == dst_pitch && width == src_pitch) {  // one piece
    width *= rows;
    dst_pitch = src_pitch = width;
    rows = 1;
  }
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  for (size_t row = 0; row < rows; ++row) std::memcpy(to + row * dst_pitch, from + row * src_pitch, width);
}

}  // namespace miniddp
