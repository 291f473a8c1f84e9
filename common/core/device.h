// Devices: virtual CPU devices cpu:0 … cpu:N-1, and GPUs cuda:0 … (real, or virtual ones of the emulator).
#pragma once

#include <string>
#include <string_view>

namespace miniddp {

enum class DeviceType { cpu, cuda };

/// Devices of one type beyond these are not used.
inline constexpr int most_devices = 64;

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  bool operator==(const Device&) const = default;
  auto operator<=>(const Device&) const = default;

  /// "cpu:0", "cuda:1".
  std::string str() const;

  /// "cpu", "cpu:2", "cuda:0"; without an index, 0. Throws DeviceError on anything else.
  static Device parse(std::string_view text);
};

/// "cpu" or "cuda".
std::string_view name_of(DeviceType type);

}  // namespace miniddp
