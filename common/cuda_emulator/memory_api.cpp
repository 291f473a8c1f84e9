// Allocation: of devices, in stream order, of pinned memory.
#include "common/cuda_emulator/block_runner.h"
#include "common/cuda_emulator/memory.h"
#include "common/cuda_emulator/runtime.h"
#include "common/cuda_emulator/settings.h"
#include "common/cuda_emulator/stream.h"

using namespace miniddp::emulator;

struct CUmemPoolHandle_st {
  int device;
};

namespace {

cudaError_t allocate_now(void** pointer, std::size_t bytes, MemoryKind kind) {
  if (!pointer) return fail(cudaErrorInvalidValue);
  if (settings().devices == 0) return fail(cudaErrorNoDevice);
  if (auto error = refuse_during_captures()) return error;
  const auto error = allocate(pointer, bytes, current_device(), kind);
  return error ? fail(error) : cudaSuccess;
}

/// Like CUDA's, waits for the device first.
cudaError_t free_now(void* pointer, MemoryKind kind) {
  if (!pointer) return cudaSuccess;
  if (auto error = refuse_during_captures()) return error;
  const auto allocation = find_allocation(pointer);
  if (!allocation || allocation->start != pointer || allocation->kind != kind || allocation->freed)
    return fail(cudaErrorInvalidValue);
  for (const auto& stream : streams_of(allocation->device)) stream->wait_all();
  if (allocation->owner) {
    note_graph_memory_freed(allocation->owner, pointer);
    return cudaSuccess;
  }
  const auto error = release_memory(pointer, kind);
  return error ? fail(error) : cudaSuccess;
}

CUmemPoolHandle_st* pool_of(int device) {
  static auto* pools = [] {
    auto* all = new CUmemPoolHandle_st[64];
    for (int d = 0; d < 64; ++d) all[d].device = d;
    return all;
  }();
  return &pools[device];
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) { return allocate_now(pointer, bytes, MemoryKind::device); }
cudaError_t cudaFree(void* pointer) { return free_now(pointer, MemoryKind::device); }
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) { return allocate_now(pointer, bytes, MemoryKind::pinned); }
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) { return cudaMallocHost(pointer, bytes); }
cudaError_t cudaFreeHost(void* pointer) { return free_now(pointer, MemoryKind::pinned); }

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  const auto error = register_host(pointer, bytes, current_device());
  return error ? fail(error) : cudaSuccess;
}
cudaError_t cudaHostUnregister(void* pointer) {
  for (const auto& stream : streams_of(current_device())) stream->wait_all();
  return release_memory(pointer, MemoryKind::registered) ? fail(cudaErrorHostMemoryNotRegistered) : cudaSuccess;
}

/// The address is known at once, the memory may be used by what comes later in the stream: another stream that writes to
/// it too early loses what it wrote.
cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t handle) {
  if (!pointer) return fail(cudaErrorInvalidValue);
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  if (is_capturing(*stream)) return capture_allocation(*stream, pointer, bytes);
  auto error = allocate(pointer, bytes, stream->device(), MemoryKind::device);
  if (error == cudaErrorMemoryAllocation) {  // what was freed in stream order may not be free yet
    for (const auto& each : streams_of(stream->device()))
      if (!is_capturing(*each)) each->wait_all();
    error = allocate(pointer, bytes, stream->device(), MemoryKind::device);
  }
  if (error) return fail(error);
  if (!*pointer) return cudaSuccess;
  return enqueue(*stream, [p = *pointer, bytes] { fill_unwritten(p, bytes); });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  if (!pointer) return cudaSuccess;
  std::shared_ptr<Stream> stream;
  if (auto error = find_stream(handle, stream)) return error;
  if (is_capturing(*stream)) return capture_free(*stream, pointer);
  const auto allocation = find_allocation(pointer);
  if (allocation && allocation->owner && allocation->start == pointer && !allocation->freed) {
    note_graph_memory_freed(allocation->owner, pointer);
    return cudaSuccess;
  }
  if (auto error = mark_freed(pointer)) return fail(error);
  return enqueue(*stream, [pointer] { release_memory(pointer, MemoryKind::device); });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (settings().devices == 0) return fail(cudaErrorNoDevice);
  *total = settings().memory_bytes;
  *free = *total - used_bytes(current_device());
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (device < 0 || device >= settings().devices) return fail(cudaErrorInvalidDevice);
  *pool = pool_of(device);
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const auto number = *static_cast<unsigned long long*>(value);
  if (attribute == cudaMemPoolAttrReleaseThreshold) return cudaSuccess;  // this pool keeps nothing
  if (attribute != cudaMemPoolAttrUsedMemHigh || number != 0) return fail(cudaErrorInvalidValue);
  reset_peak(pool->device);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  auto& number = *static_cast<unsigned long long*>(value);
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      number = 0;
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent:
      number = used_bytes(pool->device);
      return cudaSuccess;
    case cudaMemPoolAttrUsedMemHigh:
      number = peak_bytes(pool->device);
      return cudaSuccess;
  }
  return fail(cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return cudaSuccess; }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const auto allocation = find_allocation(pointer);
  void* p = const_cast<void*>(pointer);
  if (!allocation)
    *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, p};
  else if (allocation->kind == MemoryKind::device)
    *attributes = {cudaMemoryTypeDevice, allocation->device, p, nullptr};
  else
    *attributes = {cudaMemoryTypeHost, allocation->device, p, p};
  return cudaSuccess;
}
