// `--simulate`: what the same training would take on more devices, by a model.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "chapters/06_dp_vs_ddp/calibrate.h"
#include "chapters/06_dp_vs_ddp/published.h"

namespace CLI {
class App;
}

namespace miniddp {

struct SimulateOptions {
  bool simulate = false;
  std::string link = "measured";  // or nvlink, pcie, 100gbe, or a file
  std::optional<double> sample_us, step_us;  // a device's compute time, instead of this machine's
};

void add_simulate_options(CLI::App& app, SimulateOptions& options);

/// A link and, if the file has them, a device's compute time.
struct LinkFile {
  Link link;
  std::optional<double> sample_us, step_us;
};
/// "nvlink", "pcie", "100gbe", or a JSON file {"name": …, "latency_us": …, "gigabytes_per_second": …, "sample_us": …, "step_us": …}, the
/// last two optional. Throws DataError for a file that is not of this form.
LinkFile find_link(const std::string& name);

/// One row of the table: seconds of a step with the same number of samples on each device.
struct ScalingRow {
  int devices = 1;
  double dp = 0, ddp_after = 0, ddp_ring = 0, ddp_tree = 0;  // ddp_after: ring after backward; the others beside it
};
/// 1, 2, 4 … 1024 devices, each with a core of its own.
std::vector<ScalingRow> scaling(const Workload& work, const Link& link, double samples_per_device);

struct Simulation {
  Calibration machine;
  std::vector<ModelCheck> checks;
  std::vector<PublishedCheck> published;
  Link link;
  Line compute;
  double samples_per_device = 0;
  std::vector<ScalingRow> rows;
};

/// Measures this machine, checks the model against it and against published figures, and asks it about more devices.
Simulation simulate(const CompareOptions& options, const SimulateOptions& simulate_options, const std::filesystem::path& programs);

std::string simulation_text(const Simulation& simulation);
nlohmann::json simulation_json(const Simulation& simulation);

}  // namespace miniddp
