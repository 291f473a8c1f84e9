#include "common/core/device.h"

#include <charconv>

#include "common/core/error.h"

namespace miniddp {

std::string_view name_of(DeviceType type) { return type == DeviceType::cpu ? "cpu" : "cuda"; }

std::string Device::str() const { return fmt::format("{}:{}", name_of(type), index); }

Device Device::parse(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  Device device;
  bool good = kind == "cpu" || kind == "cuda";
  device.type = kind == "cuda" ? DeviceType::cuda : DeviceType::cpu;
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), device.index);
    good = good && error == std::errc() && end == digits.data() + digits.size() && device.index >= 0;
  }
  check<DeviceError>(good, "expected a device such as cpu, cpu:1 or cuda:0, found \"{}\"", text);
  return device;
}

}  // namespace miniddp
