#include "chapters/03_data_parallel/data_parallel.h"

#include <algorithm>

#include "chapters/02_manual_parallel/gather.h"
#include "chapters/02_manual_parallel/parallel_apply.h"
#include "chapters/02_manual_parallel/replicate.h"
#include "chapters/02_manual_parallel/scatter.h"
#include "common/core/warning.h"

namespace miniddp {
namespace {

std::vector<Device> all_devices_like(const Module& module) {
  const NamedTensors state = module.state_dict();
  check(!state.empty(), "DataParallel: a module without parameters does not say which devices to use; name them");
  const DeviceType type = state[0].second.device().type;
  std::vector<Device> devices;
  for (int i = 0; i < device_count(type); ++i) devices.push_back({type, i});
  return devices;
}

}  // namespace

void check_is_on(const Module& module, Device device) {
  // BEGIN SOLUTION 03.1 the module is where it should be
  for (const auto& [name, tensor] : module.state_dict()) {
    check<DeviceError>(tensor.device() == device,
                       "module must have its parameters and buffers on device {} (device_ids[0]) but found one of them on device: {}: "
                       "{}; move the module with to(device)",
                       device.str(), tensor.device().str(), name);
  }
  // END SOLUTION
}

DataParallel::DataParallel(std::shared_ptr<Module> module, std::vector<Device> device_ids, std::optional<Device> output_device, int64_t dim)
    : module_(std::move(module)), device_ids_(std::move(device_ids)), dim_(dim) {
  check(module_ != nullptr, "DataParallel needs a module");
  if (device_ids_.empty()) device_ids_ = all_devices_like(*module_);
  output_device_ = output_device.value_or(device_ids_[0]);
  register_module("module", [](Module& self) -> Module& { return static_cast<DataParallel&>(self).module(); });

  std::vector<DeviceProperties> properties;
  for (Device device : device_ids_) properties.push_back(kernels(device.type).properties(device.index));
  if (const std::string warning = imbalance_warning(device_ids_, properties); !warning.empty()) warn(warning);
  if (device_ids_.size() == 1) module_->to(device_ids_[0]);
}

std::unique_ptr<Module> DataParallel::clone() const {
  auto copy = std::make_unique<DataParallel>(*this);
  copy->module_ = module_->clone();
  return copy;
}

Tensor DataParallel::forward(const Tensor& input) { return forward_values({{input}, {}}).tensor(); }

Value DataParallel::forward_values(const Inputs& inputs) {
  check_is_on(*module_, device_ids_[0]);
  // BEGIN SOLUTION 03.3 DataParallel's forward
  // Without any argument there is nothing to share out: the module runs once.
  std::vector<Inputs> calls{inputs};
  if (!inputs.args.empty() || !inputs.kwargs.items.empty()) calls = scatter(inputs, device_ids_, dim_);
  if (device_ids_.size() == 1) return (*module_)(calls[0]);

  const std::vector<Device> used(device_ids_.begin(), device_ids_.begin() + static_cast<std::ptrdiff_t>(calls.size()));
  const Replicas replicas = replicate(*module_, used);
  return gather(parallel_apply(replicas, calls, used), output_device_, dim_);
  // END SOLUTION
}

std::string imbalance_warning(const std::vector<Device>& devices, const std::vector<DeviceProperties>& properties) {
  const auto compare = [&](auto amount) -> std::string {
    const auto less = [&](const auto& a, const auto& b) { return a.*amount < b.*amount; };
    const auto least = std::min_element(properties.begin(), properties.end(), less);
    const auto greatest = std::max_element(properties.begin(), properties.end(), less);
    if (static_cast<double>((*least).*amount) >= 0.75 * static_cast<double>((*greatest).*amount)) return "";
    const auto name = [&](auto found) { return devices[static_cast<size_t>(found - properties.begin())].str(); };
    return fmt::format(
        "There is an imbalance between your GPUs. You may want to exclude GPU {} which has less than 75% of the memory or cores of GPU {}. "
        "You can do so by setting the device_ids argument to DataParallel",
        name(least), name(greatest));
  };
  const std::string memory = compare(&DeviceProperties::total_memory);
  return memory.empty() ? compare(&DeviceProperties::processors) : memory;
}

}  // namespace miniddp
