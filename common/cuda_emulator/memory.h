// The memory of the virtual devices, and pinned host memory.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "common/cuda_emulator/host_api.h"

namespace miniddp::emulator {

enum class MemoryKind { device, pinned, registered };

struct Allocation {
  char* start = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  MemoryKind kind = MemoryKind::device;
  bool freed = false;     // cudaFreeAsync has been called; the stream has not got there yet
  const void* owner = nullptr;  // the graph that holds it, or null
};

/// New memory, filled with the unwritten pattern. cudaErrorMemoryAllocation when the device has no room.
cudaError_t allocate(void** pointer, std::size_t bytes, int device, MemoryKind kind, const void* owner = nullptr);
/// Memory of this kind that starts at `pointer`; cudaErrorInvalidValue for anything else.
cudaError_t release_memory(void* pointer, MemoryKind kind);
cudaError_t register_host(void* pointer, std::size_t bytes, int device);
/// From now on the host must not name it; the memory itself goes when the stream gets there.
cudaError_t mark_freed(void* pointer);
/// Graphs free and use the same memory at every launch: calls the marker back.
void mark_used(void* pointer, bool used);

/// What holds the byte at `pointer`, or nothing.
std::optional<Allocation> find_allocation(const void* pointer);
/// Empty if kernels of `device` may use `pointer`, else why not ("is not device memory", …). Null is fine.
std::string why_unusable(const void* pointer, int device);
/// The same for `bytes` bytes that an operation of a library will touch.
std::string why_unusable(const void* pointer, std::size_t bytes, int device);

/// False if it was enabled before.
bool enable_peer(int device, int peer);
bool disable_peer(int device, int peer);

std::size_t used_bytes(int device);
std::size_t peak_bytes(int device);
void reset_peak(int device);

/// While one lives, a device operation runs. With AddressSanitizer and eager streams the host cannot touch device memory
/// outside of them.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace miniddp::emulator
