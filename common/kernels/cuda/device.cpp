#include "common/kernels/cuda/device.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "common/core/device.h"
#include "common/kernels/cuda/launch.h"
#include "common/kernels/cuda/matmul.h"

namespace miniddp::cuda {

namespace {

DeviceState* make_state(int device) {
  const DeviceGuard guard(device);
  auto* state = new DeviceState{};
  state->device = device;
  // Non-blocking: they do not wait for the default stream, which nothing here uses.
  check_cuda(cudaStreamCreateWithFlags(&state->compute, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check_cuda(cudaStreamCreateWithFlags(&state->communication, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check_cuda(cudaMallocHost(&state->report, sizeof(TargetReport)), "cudaMallocHost");
  *state->report = {};
  check_cuda(cudaMalloc(&state->later_calls, sizeof(uint64_t)), "cudaMalloc");
  check_cuda(cudaMemsetAsync(state->later_calls, 0, sizeof(uint64_t), state->compute), "cudaMemsetAsync");
  // Freed memory stays with the pool instead of going back to the driver at every synchronisation.
  cudaMemPool_t pool;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  unsigned long long keep_all = ~0ull;
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all), "cudaMemPoolSetAttribute");
  return state;
}

cublasHandle_t make_handle(int device) {
  const DeviceGuard guard(device);
  cublasHandle_t handle;
  check_cublas(cublasCreate(&handle), "cublasCreate");
  check_cublas(cublasSetStream(handle, compute_stream(device)), "cublasSetStream");
  // Working memory of its own, at a fixed address, so that cuBLAS allocates none while a step is captured. NVIDIA advises
  // 32 MiB from compute capability 9.0 on, and 4 MiB below.
  int major = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  const size_t bytes = major >= 9 ? size_t{32} << 20 : size_t{4} << 20;
  void* workspace = nullptr;
  check_cuda(cudaMalloc(&workspace, bytes), "cudaMalloc of cuBLAS's workspace");
  check_cublas(cublasSetWorkspace(handle, workspace, bytes), "cublasSetWorkspace");
  return handle;
}

}  // namespace

DeviceGuard::DeviceGuard(int device, std::source_location where) {
  check_cuda(cudaGetDevice(&before_), "cudaGetDevice", where);
  if (before_ != device) check_cuda(cudaSetDevice(device), "cudaSetDevice", where);
}

DeviceGuard::~DeviceGuard() {
  int now = before_;
  // A failure has been reported by the call that caused it; a destructor must not throw.
  if (cudaGetDevice(&now) == cudaSuccess && now != before_) cudaSetDevice(before_);
}

const DeviceCount& count_devices() {
  static const DeviceCount found = [] {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess && count > 0) return DeviceCount{std::min(count, most_devices), ""};
    cudaGetLastError();
    return DeviceCount{0, status == cudaSuccess ? "the driver knows no GPU" : cudaGetErrorString(status)};
  }();
  return found;
}

DeviceState& device_state(int device) {
  check<DeviceError>(device >= 0 && device < count_devices().count, "expected a device from cuda:0 to cuda:{}, found cuda:{}",
                     count_devices().count - 1, device);
  static std::array<std::once_flag, most_devices> once;
  static std::array<DeviceState*, most_devices> states;
  const auto at = static_cast<size_t>(device);
  std::call_once(once[at], [&] { states[at] = make_state(device); });
  return *states[at];
}

cublasHandle_t cublas_handle(int device) {
  static std::mutex mutex;
  // By thread identity, which a new thread may inherit from one that has ended: then it takes over its handle too.
  static auto* handles = new std::map<std::pair<std::thread::id, int>, cublasHandle_t>;
  const std::pair key(std::this_thread::get_id(), device);
  {
    std::lock_guard lock(mutex);
    const auto it = handles->find(key);
    if (it != handles->end()) return it->second;
  }
  cublasHandle_t handle = make_handle(device);  // slow: the other threads need not wait for it
  std::lock_guard lock(mutex);
  return handles->emplace(key, handle).first->second;
}

void wait_for_compute(int device) {
  const DeviceGuard guard(device);
  DeviceState& state = device_state(device);
  check_cuda(cudaStreamSynchronize(state.compute), "waiting for the kernels (one of them may have failed)");
  const TargetReport found = *state.report;
  if (found.row_plus_one == 0) return;
  *state.report = {};
  throw Error(
      "expected targets in [0, {}), as there are {} classes, found {} in row {} of a batch on cuda:{}; check the labels, or the number of "
      "outputs of the last layer",
      found.classes, found.classes, found.target, found.row_plus_one - 1, device);
}

}  // namespace miniddp::cuda
