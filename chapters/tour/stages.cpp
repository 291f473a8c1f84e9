#include "chapters/tour/stages.h"

#include <fmt/format.h>

namespace miniddp {

std::vector<Stage> stages_of(const TourOptions& options) {
  const int n = options.devices;
  const int64_t whole = options.batch_size, share = whole / n;
  return {
      {"01", "one device", "01_single_device", 1, 0, whole},
      {"02", "several devices by hand", "02_manual_parallel", 1, n, whole},
      {"03", "DataParallel", "03_data_parallel", 1, n, whole},
      {"04", "all-reduce by hand", "tour_all_reduce_by_hand", n, 0, share, options.mistake},
      {"05", "DistributedDataParallel", "05_distributed_data_parallel", n, 0, share},
  };
}

std::string Stage::devices() const {
  if (processes > 1) return fmt::format("{} processes", processes);
  return replicas > 1 ? fmt::format("{} devices", replicas) : "1 device";
}

std::vector<std::string> command_of(const Stage& stage, const TourOptions& options, const std::filesystem::path& programs, int64_t steps,
                                    const std::vector<std::string>& more) {
  std::vector<std::string> command{
      programs / "launch", "--nproc", std::to_string(stage.processes), "--no-prefix", "--timeout", fmt::format("{}", options.timeout),
      "--", programs / stage.program, "--device", "cpu", "--model", options.model, "--no-dropout", "--sampler", "distributed",
      "--seed", std::to_string(options.seed), "--batch-size", std::to_string(stage.batch_size), "--max-steps", std::to_string(steps),
      "--log-interval", "1"};
  if (stage.replicas > 0) command.insert(command.end(), {"--devices", std::to_string(stage.replicas)});
  if (!stage.mistake.empty()) command.insert(command.end(), {"--break", stage.mistake});
  if (!options.data.empty()) command.insert(command.end(), {"--data", options.data});
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

}  // namespace miniddp
