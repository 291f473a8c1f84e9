#include "tests/support/gpu.h"

#include <dlfcn.h>

namespace miniddp::test {
namespace {

GpuProbe ask_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {0, "the NVIDIA driver (libcuda.so.1) is not installed"};
  // Never closed: the driver does not support being unloaded.
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  auto device_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  if (init == nullptr || device_count == nullptr) return {0, "libcuda.so.1 has no cuInit or cuDeviceGetCount"};
  if (int status = init(0); status != 0) return {0, "cuInit failed with code " + std::to_string(status)};
  int count = 0;
  if (int status = device_count(&count); status != 0) {
    return {0, "cuDeviceGetCount failed with code " + std::to_string(status)};
  }
  if (count == 0) return {0, "the NVIDIA driver finds no GPU"};
  return {count, ""};
}

}  // namespace

const GpuProbe& probe_gpus() {
  static const GpuProbe probe = ask_driver();
  return probe;
}

}  // namespace miniddp::test
