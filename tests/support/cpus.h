// Several devices where there is one processor.
#pragma once

#include <vector>

#include "common/core/device.h"

namespace miniddp::testing {

/// cpu:0 … cpu:count-1
inline std::vector<Device> cpus(int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back({DeviceType::cpu, i});
  return devices;
}

}  // namespace miniddp::testing
