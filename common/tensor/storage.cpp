#include "common/tensor/storage.h"

#include <array>
#include <atomic>

#include "common/core/error.h"
#include "common/kernels/kernels.h"

namespace miniddp {
namespace {

struct Counters {
  std::atomic<int64_t> current = 0;
  std::atomic<int64_t> peak = 0;
};

Counters& counters(Device device) {
  static std::array<std::array<Counters, most_devices>, 2> all;
  return all[static_cast<size_t>(device.type)].at(static_cast<size_t>(device.index));
}

}  // namespace

Storage::Storage(size_t nbytes, Device device) : data_(nullptr), nbytes_(nbytes), device_(device) {
  check_exists(device);
  data_ = kernels(device.type).allocate(nbytes, device.index);
  Counters& count = counters(device);
  const int64_t now = count.current.fetch_add(static_cast<int64_t>(nbytes)) + static_cast<int64_t>(nbytes);
  int64_t peak = count.peak.load();
  while (now > peak && !count.peak.compare_exchange_weak(peak, now)) {
  }
}

Storage::~Storage() {
  counters(device_).current.fetch_sub(static_cast<int64_t>(nbytes_));
  kernels(device_.type).deallocate(data_, nbytes_, device_.index);
}

MemoryStats memory_stats(Device device) {
  const Counters& count = counters(device);
  return {count.current.load(), count.peak.load()};
}

void reset_peak_memory(Device device) {
  Counters& count = counters(device);
  count.peak.store(count.current.load());
}

}  // namespace miniddp
