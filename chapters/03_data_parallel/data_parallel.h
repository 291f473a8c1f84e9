// DataParallel: chapter 02's four steps behind one forward.
// Source: torch.nn.DataParallel.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/kernels/kernels.h"
#include "common/nn/module.h"

namespace miniddp {

/// A module that works as `module` does, on several devices: forward scatters its inputs, replicates the module, applies the replicas side
/// by side and gathers their outputs. Its parameters are the module's own, under names that begin with "module.".
class DataParallel : public Module {
 public:
  /// `device_ids`: default all devices of the module's type (on the CPU these are 64 virtual ones). With one device the module is moved
  /// there; with several it must be on device_ids[0] by its first forward. `output_device`: default device_ids[0]; not used with one
  /// device. `dim`: the dimension of the samples. Warns if the devices differ by more than a quarter in memory or processors.
  explicit DataParallel(std::shared_ptr<Module> module, std::vector<Device> device_ids = {}, std::optional<Device> output_device = {},
                        int64_t dim = 0);

  /// (B, …) -> the module's output for all B samples, on output_device. Throws DeviceError if a parameter or buffer is not on
  /// device_ids[0], and what scatter, the replicas (with their number) and gather throw.
  Tensor forward(const Tensor& input) override;
  Value forward_values(const Inputs& inputs) override;

  /// Wraps a clone of the module.
  std::unique_ptr<Module> clone() const override;

  Module& module() { return *module_; }
  const std::vector<Device>& device_ids() const { return device_ids_; }
  Device output_device() const { return output_device_; }

 private:
  std::shared_ptr<Module> module_;
  std::vector<Device> device_ids_;
  Device output_device_;
  int64_t dim_;
};

/// Throws DeviceError, naming the first parameter or buffer that is not on `device`.
void check_is_on(const Module& module, Device device);

/// PyTorch's warning if the least of the devices has less than three quarters of the memory, or else of the processors, of the greatest;
/// empty if they are alike.
std::string imbalance_warning(const std::vector<Device>& devices, const std::vector<DeviceProperties>& properties);

}  // namespace miniddp
