#include "chapters/02_manual_parallel/check_copy.h"

#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace miniddp {

void check_copy(Device from, Device to, const std::function<void(Tensor& copy)>& tamper) {
  constexpr int64_t bytes = 1 << 18;
  std::vector<uint8_t> pattern(bytes);
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<uint8_t>(i * 197 + i / 256);  // no two pages alike
  const Tensor source = Tensor::from(pattern, {bytes}, from);
  Tensor copy = Tensor::zeros({bytes}, DType::uint8, to);
  copy.copy_(source);
  if (tamper) tamper(copy);
  check<DeviceError>(copy.to_vector<uint8_t>() == pattern,
                     "a copy from {} to {} arrived damaged, although it reported success: the direct path between these devices is faulty. "
                     "Use other devices (--devices), or switch direct copies off in the driver",
                     from.str(), to.str());
}

void check_copy_once(Device from, Device to) {
  if (from == to) return;
  static std::mutex mutex;
  static std::set<std::pair<Device, Device>> checked;
  {
    std::lock_guard lock(mutex);
    if (!checked.emplace(from, to).second) return;
  }
  check_copy(from, to);
}

}  // namespace miniddp
