// A start-up check: does what is copied from one device to another arrive?
#pragma once

#include <functional>

#include "common/tensor/tensor.h"

namespace miniddp {

/// Copies a pattern from one device to the other, back to the host by way of the second, and compares. There are machines whose direct
/// copies between GPUs report success and deliver garbage (pytorch#84803): replicas then drift or turn NaN though the code is right.
/// Throws DeviceError, naming both devices and what to do, if a byte differs. `tamper` plays the faulty machine in a test.
void check_copy(Device from, Device to, const std::function<void(Tensor& copy)>& tamper = {});

/// check_copy, the first time that this pair is used in this process.
void check_copy_once(Device from, Device to);

}  // namespace miniddp
