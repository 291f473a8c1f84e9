#include "chapters/06_dp_vs_ddp/roles.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "chapters/04_process_group/init_process_group.h"
#include "chapters/06_dp_vs_ddp/behaviour.h"
#include "chapters/06_dp_vs_ddp/measure.h"
#include "chapters/06_dp_vs_ddp/part.h"
#include "common/kernels/kernels.h"
#include "common/launch/launch.h"

namespace miniddp {
namespace {

std::string machine_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

int rank_from_environment() {
  const char* rank = std::getenv("RANK");
  return rank != nullptr ? std::atoi(rank) : 0;
}

Part describe(const CompareOptions& options, const std::vector<Device>& devices, int threads) {
  Part part;
  part.device = std::string(name_of(devices[0].type));
  part.machine = devices[0].type == DeviceType::cpu ? machine_name() : machine_name() + kernels(devices[0].type).description();
  part.threads = threads;
  const Training network(options, Device{});
  for (const auto& [name, parameter] : network.network().named_parameters()) {
    part.tensors.push_back({name, parameter.shape(), static_cast<int64_t>(parameter.nbytes())});
  }
  return part;
}

void measure_ddp(const CompareOptions& options, const ImageDataset& images, const std::filesystem::path& reference, Part& part) {
  InitOptions init;
  init.backend = options.backend;
  init.rendezvous_timeout = Milliseconds(60'000);
  init.timeout = Milliseconds(static_cast<int64_t>(options.timeout * 1000));
  const ProcessGroupGuard guard(init);
  ProcessGroup& group = default_process_group();
  const std::vector<Device> devices = choose_devices(training_options(options), group.size());
  const Device device = devices[0].type == DeviceType::cpu ? Device{} : devices[static_cast<size_t>(local_rank())];
  part.clocks = compare_clocks(group);
  for (const DdpWay& way : ddp_ways()) {
    Training training(options, device, way.options);
    part.variants.push_back(measure(way.name, training, {options, images, reference, false, &group}));
  }
}

}  // namespace

int threads_of_device(const CompareOptions& options) { return std::max(1, options.threads / options.devices); }

std::vector<Role> training_roles(const CompareOptions& options) {
  std::vector<Role> roles{{"one", "one device", 1}};
  if (threads_of_device(options) < options.threads) roles.push_back({"one_all_threads", "one device with all threads", 1});
  roles.push_back({"dp", fmt::format("DP on {} devices", options.devices), 1});
  roles.push_back({"ddp", fmt::format("DDP on {} processes", options.devices), options.devices});
  return roles;
}

int start_role(const Role& role, const CompareOptions& options, const std::vector<std::string>& arguments, bool expected_to_fail) {
  LaunchOptions launch_options;
  launch_options.nproc = role.processes;
  launch_options.command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  launch_options.command.insert(launch_options.command.end(), arguments.begin(), arguments.end());
  launch_options.command.insert(launch_options.command.end(), {"--threads", std::to_string(options.threads), "--role", role.name, "--parts", options.parts});
  launch_options.timeout = options.timeout;
  launch_options.announce = false;
  launch_options.report_failures = !expected_to_fail;
  launch_options.prefix = role.processes > 1;
  return launch(launch_options);
}

void play_role(const CompareOptions& options) {
  const std::string& role = options.role;
  const int rank = rank_from_environment();
  check(options.fail_role != fmt::format("{}:{}", role, rank), "this part was asked to fail");
  if (play_behaviour(options, rank)) return;

  const TrainingOptions training = training_options(options);
  const ImageDataset images = load_images(options.data.empty() ? default_data_directory() : options.data, Split::train);
  const std::filesystem::path reference = options.parts / "reference.bin";
  const int threads = role == "one_all_threads" ? options.threads : threads_of_device(options);
  set_threads_per_device(threads);
  const std::vector<Device> devices = choose_devices(training, role == "dp" ? options.devices : 1);
  Part part = describe(options, devices, threads);
  if (role == "one" || role == "one_all_threads") {
    Training one(options, devices[0]);
    part.variants.push_back(measure(role, one, {options, images, reference, role == "one", nullptr}));
  } else if (role == "dp") {
    Training dp(options, devices);
    part.variants.push_back(measure(role, dp, {options, images, reference, false, nullptr}));
  } else if (role == "ddp") {
    measure_ddp(options, images, reference, part);
  } else {
    throw UsageError("--role {}: no such part", role);
  }
  write_part(part_path(options.parts, role, rank), part);
}

}  // namespace miniddp
