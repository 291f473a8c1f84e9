// A block of device memory, shared by the tensors that view it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/core/device.h"

namespace miniddp {

/// Owns `nbytes` bytes on one device; gives them back to the device's cache when it goes.
class Storage {
 public:
  /// Uninitialised memory, 64-byte aligned. Throws DeviceError if the device does not exist or its memory is used up.
  Storage(size_t nbytes, Device device);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }

 private:
  void* data_;
  size_t nbytes_;
  Device device_;
};

/// Bytes that tensors hold on one device. Counted by Storage, so the CPU's virtual devices have figures of their own.
struct MemoryStats {
  int64_t current = 0;
  int64_t peak = 0;
};
MemoryStats memory_stats(Device device);
/// Sets the peak to the current figure.
void reset_peak_memory(Device device);

}  // namespace miniddp
