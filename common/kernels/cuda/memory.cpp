// Allocation. cudaMallocAsync and cudaFreeAsync take part in the compute stream's order: a block that is given back may be
// handed out again at once, because whatever still uses it was enqueued before.
#include "common/kernels/cuda/memory.h"

#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/kernels/cuda/cuda_kernels.h"
#include "common/kernels/cuda/launch.h"

namespace miniddp {
namespace cuda {

class GraphMemory {
 public:
  explicit GraphMemory(int device) : device_(device) {}
  ~GraphMemory() {
    // Errors of a program that is ending (the driver is gone already) concern nobody.
    int before = 0;
    cudaGetDevice(&before);
    cudaSetDevice(device_);
    for (void* block : blocks_) cudaFree(block);
    cudaSetDevice(before);
    cudaGetLastError();
  }
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  void* allocate(size_t nbytes) {
    const auto it = idle_.find(nbytes);
    if (it != idle_.end()) {
      void* block = it->second;
      idle_.erase(it);
      return block;
    }
    // Not stream-ordered: a captured cudaMallocAsync would be part of the graph. The capture must be a relaxed one.
    void* block = nullptr;
    check_cuda(cudaMalloc(&block, nbytes), "cudaMalloc for a captured step");
    blocks_.push_back(block);
    return block;
  }
  void give_back(void* block, size_t nbytes) { idle_.emplace(nbytes, block); }

 private:
  int device_;
  std::vector<void*> blocks_;
  std::multimap<size_t, void*> idle_;
};

namespace {

/// Who owns which block of a graph, and which devices are capturing.
struct Registry {
  std::mutex mutex;
  std::unordered_map<void*, std::shared_ptr<GraphMemory>> owners;  // keeps the memory of a graph while a tensor is in it
  std::map<int, std::shared_ptr<GraphMemory>> capturing;
  std::map<int, std::vector<void*>> freed_meanwhile;
  std::atomic<int> entries = 0;  // of the first two: 0 means that nobody need look
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

void* allocate_for_graph(size_t nbytes, int device) {
  Registry& all = registry();
  if (all.entries == 0) return nullptr;
  std::lock_guard lock(all.mutex);
  const auto it = all.capturing.find(device);
  if (it == all.capturing.end()) return nullptr;
  void* block = it->second->allocate(nbytes);
  all.owners.emplace(block, it->second);
  ++all.entries;
  return block;
}

/// True if that was all there is to do now.
bool deallocate_for_graph(void* data, size_t nbytes, int device) {
  Registry& all = registry();
  if (all.entries == 0) return false;
  std::shared_ptr<GraphMemory> last;  // freed without the lock
  std::lock_guard lock(all.mutex);
  const auto owner = all.owners.find(data);
  if (owner != all.owners.end()) {
    owner->second->give_back(data, nbytes);
    last = std::move(owner->second);
    all.owners.erase(owner);
    --all.entries;
    return true;
  }
  if (!all.capturing.contains(device)) return false;
  all.freed_meanwhile[device].push_back(data);
  return true;
}

}  // namespace

CaptureMemory::CaptureMemory(int device) : device_(device), memory_(std::make_shared<GraphMemory>(device)) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  check(all.capturing.emplace(device, memory_).second, "cuda:{} is being captured already", device);
  ++all.entries;
}

CaptureMemory::~CaptureMemory() {
  Registry& all = registry();
  std::vector<void*> freed;
  {
    std::lock_guard lock(all.mutex);
    all.capturing.erase(device_);
    --all.entries;
    freed = std::move(all.freed_meanwhile[device_]);
    all.freed_meanwhile.erase(device_);
  }
  for (void* data : freed) cudaFreeAsync(data, compute_stream(device_));
}

}  // namespace cuda

void* CudaKernels::allocate(size_t nbytes, int device) {
  if (nbytes == 0) return nullptr;
  const cuda::OnDeviceOf on(Device{DeviceType::cuda, device});
  if (void* block = cuda::allocate_for_graph(nbytes, device)) return block;
  void* data = nullptr;
  const cudaError_t status = cudaMallocAsync(&data, nbytes, on.stream);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw DeviceError("cuda:{} has no {} bytes of memory left ({} of {} are free); use a smaller batch or fewer replicas on it", device,
                      nbytes, free, total);
  }
  cuda::check_cuda(status, "cudaMallocAsync");
  return data;
}

void CudaKernels::deallocate(void* data, size_t nbytes, int device) {
  if (data == nullptr || cuda::deallocate_for_graph(data, nbytes, device)) return;
  // Called by destructors, so it must not throw. What can fail here has failed before and been reported there, or the
  // program is ending and the driver has gone first (cudaErrorCudartUnloading).
  int before = 0;
  if (cudaGetDevice(&before) == cudaSuccess && cudaSetDevice(device) == cudaSuccess) {
    cudaFreeAsync(data, cuda::compute_stream(device));
    cudaSetDevice(before);
  }
  cudaGetLastError();
}

void CudaKernels::synchronize(int device) {
  const cuda::OnDeviceOf on(Device{DeviceType::cuda, device});
  cuda::check_cuda(cudaStreamSynchronize(on.state.communication), "waiting for the communication stream");
  cuda::wait_for_compute(device);
}

}  // namespace miniddp
