#include "common/kernels/kernels.h"

#include <omp.h>

#include <atomic>

#include "common/core/error.h"
#include "common/kernels/backends.h"

namespace miniddp {

namespace {

std::atomic<int>& thread_share() {
  // OMP_NUM_THREADS, which torchrun sets, else the cores this process may use.
  static std::atomic<int> threads{omp_get_max_threads()};
  return threads;
}

}  // namespace

Kernels& kernels(DeviceType type) {
  if (type == DeviceType::cpu) return cpu_kernels();
  Kernels* cuda = cuda_kernels();
  check<DeviceError>(cuda != nullptr,
                     "expected a build with the CUDA backend, found one without; use --device cpu, or configure with "
                     "the preset `cuda` (it needs the CUDA Toolkit)");
  // Without this, the message would be about the number of the device.
  check<DeviceError>(cuda->device_count() > 0, "expected a GPU, found none{}; use --device cpu", cuda->description());
  return *cuda;
}

int device_count(DeviceType type) {
  if (type == DeviceType::cpu) return cpu_kernels().device_count();
  Kernels* cuda = cuda_kernels();
  return cuda == nullptr ? 0 : cuda->device_count();
}

void check_exists(Device device) {
  const int count = device_count(device.type);
  if (device.index >= 0 && device.index < count) return;
  kernels(device.type);  // says what is missing if this build or machine has no such devices
  throw DeviceError("expected a device from {0}:0 to {0}:{1}, found {2}; a program's devices are chosen by --devices", name_of(device.type),
                    count - 1, device.str());
}

bool has_gpu() {
  Kernels* cuda = cuda_kernels();
  return cuda != nullptr && cuda->is_gpu() && cuda->device_count() > 0;
}

std::unique_ptr<CapturedWork> Kernels::capture(int /*device*/, const std::function<void()>& /*work*/) {
  throw DeviceError("expected a GPU to capture work on, found a CPU; leave out --graph, or use --device cuda");
}

namespace {
std::atomic<bool> allow_tf32 = false;
}

void set_tf32(bool allowed) { allow_tf32 = allowed; }
bool tf32() { return allow_tf32; }

void set_threads_per_device(int threads) {
  check(threads >= 1, "expected at least 1 thread for each device, found {}", threads);
  thread_share() = threads;
}

int threads_per_device() { return thread_share(); }

}  // namespace miniddp
