// Launching kernels: what CUDA refuses, and what it would only notice later.
#include <map>
#include <mutex>

#include "common/cuda_emulator/grid_runner.h"
#include "common/cuda_emulator/memory.h"
#include "common/cuda_emulator/runtime.h"
#include "common/cuda_emulator/sanitizers.h"
#include "common/cuda_emulator/settings.h"
#include "common/cuda_emulator/stream.h"

namespace miniddp::emulator {
namespace {

constexpr std::size_t shared_without_opt_in = 48 << 10;
constexpr int most_shared = 227 << 10;  // compute capability 9.0

struct SharedLimits {
  std::mutex mutex;
  std::map<const void*, std::size_t> bytes;  // by kernel, where it was raised
};
SharedLimits& shared_limits() {
  static auto* instance = new SharedLimits;
  return *instance;
}

std::size_t shared_limit(const void* kernel) {
  Quiet quiet;
  std::lock_guard lock(shared_limits().mutex);
  auto it = shared_limits().bytes.find(kernel);
  return it == shared_limits().bytes.end() ? shared_without_opt_in : it->second;
}

bool valid(dim3 grid, dim3 block) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return grid.x && grid.y && grid.z && grid.x <= 0x7fffffff && grid.y <= 65535 && grid.z <= 65535 && threads &&
         threads <= 1024 && block.x <= 1024 && block.y <= 1024 && block.z <= 64;
}

}  // namespace

cudaError_t set_max_dynamic_shared(const void* function, int bytes) {
  if (bytes < 0 || bytes > most_shared) return fail(cudaErrorInvalidValue);
  Quiet quiet;
  std::lock_guard lock(shared_limits().mutex);
  shared_limits().bytes[function] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}

cudaError_t launch(const cudaLaunchConfig_t& config, KernelCall call, const std::vector<const void*>& pointers) {
  if (!valid(config.gridDim, config.blockDim)) return fail(cudaErrorInvalidConfiguration);
  if (config.dynamicSmemBytes > shared_limit(call.function)) return fail(cudaErrorInvalidValue);
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(config.stream, stream, true)) return error;
  // On a GPU the kernel would start and fault, and the error come from some later call.
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    const std::string why = why_unusable(pointers[i], current_device());
    if (!why.empty())
      return fail(cudaErrorIllegalAddress, "launch of %s on device %d: pointer argument %zu (%p) %s",
                  describe_kernel(call.function).c_str(), current_device(), i + 1, pointers[i], why.c_str());
  }
  auto run = [=, call = std::move(call), key = stream.get()] {
    Grid grid;
    grid.grid = config.gridDim;
    grid.block = config.blockDim;
    grid.dynamic_shared = config.dynamicSmemBytes;
    grid.call = call;
    grid.order = settings().order;
    run_grid(grid, key);
  };
  return enqueue(*stream, std::move(run));
}

}  // namespace miniddp::emulator
