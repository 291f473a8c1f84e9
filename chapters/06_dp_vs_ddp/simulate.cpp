#include "chapters/06_dp_vs_ddp/simulate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "common/core/error.h"
#include "common/core/file.h"

namespace miniddp {
namespace {

// Where the numbers come from is in the lesson. Line rates are lower in practice; latencies are a collective's, for each round.
const std::map<std::string, Link> known_links{
    {"nvlink", {"NVLink 4 (H100, H200)", 3e-6, 370e9}},
    {"pcie", {"PCIe 4.0 x16", 6e-6, 20e9}},
    {"100gbe", {"100 Gbit/s Ethernet", 30e-6, 11e9}},
};

std::optional<double> positive_number(const nlohmann::json& json, const std::string& file, const char* name, bool required, bool may_be_zero) {
  if (!json.contains(name) && !required) return std::nullopt;
  check<DataError>(json.contains(name) && json[name].is_number() && (json[name].get<double>() > 0 || (may_be_zero && json[name].get<double>() == 0)),
                   "{}: expected a number {} above zero", file, name);
  return json[name].get<double>();
}

}  // namespace

void add_simulate_options(CLI::App& app, SimulateOptions& options) {
  app.add_flag("--simulate", options.simulate, "Instead of comparing: measure this machine, and say by a model what 2 to 1024 devices would do");
  app.add_option("--link", options.link, "Link of the simulated devices: measured (this machine's), nvlink, pcie, 100gbe, or a JSON file")
      ->capture_default_str();
  app.add_option("--sample-us", options.sample_us, "Microseconds that a simulated device computes for a sample [this machine's core]")
      ->check(CLI::PositiveNumber);
  app.add_option("--step-us", options.step_us, "Microseconds of a step whatever the batch: launches, optimizer [this machine's core]")
      ->check(CLI::NonNegativeNumber);
}

LinkFile find_link(const std::string& name) {
  if (const auto known = known_links.find(name); known != known_links.end()) return {known->second, {}, {}};
  const nlohmann::json json = nlohmann::json::parse(read_file(name, "a link"), nullptr, false);
  check<DataError>(json.is_object(), "{}: expected a JSON object with latency_us and gigabytes_per_second", name);
  check<DataError>(!json.contains("name") || json["name"].is_string(), "{}: expected a text as name", name);
  LinkFile file;
  file.link = {json.value("name", name), *positive_number(json, name, "latency_us", true, true) * 1e-6,
               *positive_number(json, name, "gigabytes_per_second", true, false) * 1e9};
  file.sample_us = positive_number(json, name, "sample_us", false, false);
  file.step_us = positive_number(json, name, "step_us", false, true);
  return file;
}

std::vector<ScalingRow> scaling(const Workload& work, const Link& link, double samples_per_device) {
  std::vector<ScalingRow> rows;
  for (int devices = 1; devices <= 1024; devices *= 2) {
    rows.push_back({devices, dp_step(work, link, devices, samples_per_device).total(),
                    ddp_step(work, link, AllReduce::ring, false, devices, samples_per_device).total(),
                    ddp_step(work, link, AllReduce::ring, true, devices, samples_per_device).total(),
                    ddp_step(work, link, AllReduce::tree, true, devices, samples_per_device).total()});
  }
  return rows;
}

Simulation simulate(const CompareOptions& options, const SimulateOptions& wanted, const std::filesystem::path& programs) {
  check<UsageError>(options.global_batch % 4 == 0, "--simulate checks the model with 4 processes: --global-batch {} must be divisible by 4",
                    options.global_batch);
  LinkFile link;
  if (wanted.link != "measured") link = find_link(wanted.link);  // a wrong name is told before anything is measured
  Simulation result;
  MachineMeasured measured = measure_machine(options, programs);
  result.machine = std::move(measured.calibration);
  result.checks = std::move(measured.checks);
  result.published = published_checks();
  result.link = wanted.link == "measured" ? result.machine.link : link.link;
  result.compute = result.machine.compute;
  const auto sample_us = wanted.sample_us ? wanted.sample_us : link.sample_us, step_us = wanted.step_us ? wanted.step_us : link.step_us;
  if (sample_us) result.compute.per_sample = *sample_us * 1e-6;
  if (step_us) result.compute.per_step = *step_us * 1e-6;
  result.samples_per_device = static_cast<double>(options.global_batch);
  result.rows = scaling(workload_of(options, result.compute), result.link, result.samples_per_device);
  return result;
}

std::string simulation_text(const Simulation& s) {
  std::string text = fmt::format(
      "This is a model, not a measurement. It knows latency, bandwidth and compute time; nothing of congestion, stragglers or other programs.\n\n"
      "This machine, {} cores: a step on one core takes {:.2f} ms + {:.3f} ms a sample; {}: {:.0f} us, {:.2f} GB/s\n\n"
      "{:<34}{:>12}{:>12}{:>9}\n",
      s.machine.cores, 1e3 * s.machine.compute.per_step, 1e3 * s.machine.compute.per_sample, s.machine.link.name, 1e6 * s.machine.link.latency,
      1e-9 * s.machine.link.bandwidth, "ms a step here", "model", "measured", "error");
  for (const ModelCheck& each : s.checks) {
    text += fmt::format("{:<34}{:>12.2f}{:>12.2f}{:>8.0f}%\n", each.what, 1e3 * each.predicted, 1e3 * each.measured, 100 * each.error());
  }
  text += "\nPublished figures\n";
  for (const PublishedCheck& each : s.published) {
    const std::string model = each.lowest == each.highest ? fmt::format("{:.1f}", each.lowest) : fmt::format("{:.1f} to {:.1f}", each.lowest, each.highest);
    text += fmt::format("  {}: {:.1f} {}; the model says {} {}\n    {}; assumed: {}\n", each.what, each.published, each.unit, model, each.unit,
                        each.source, each.assumed);
  }
  text += fmt::format(
      "\n{:.0f} samples on each device, a device takes {:.3f} ms + {:.4f} ms a sample; link {}: {:.1f} us, {:.2f} GB/s\n\n"
      "{:<9}{:>16}{:>20}{:>20}{:>20}\n{:<9}{:>16}{:>20}{:>20}{:>20}\n",
      s.samples_per_device, 1e3 * s.compute.per_step, 1e3 * s.compute.per_sample, s.link.name, 1e6 * s.link.latency, 1e-9 * s.link.bandwidth, "ms a step", "DP",
      "DDP, ring", "DDP, ring", "DDP, tree", "devices", "", "after backward", "beside backward", "beside backward");
  for (const ScalingRow& row : s.rows) {
    const auto cell = [&](double seconds) { return fmt::format("{:.3f} ({:3.0f}%)", 1e3 * seconds, 100 * s.rows[0].dp / seconds); };
    text += fmt::format("{:<9}{:>16}{:>20}{:>20}{:>20}", row.devices, cell(row.dp), cell(row.ddp_after), cell(row.ddp_ring), cell(row.ddp_tree));
    text += "\n";
  }
  return text + "(in brackets: efficiency, one device's time beside it)\n";
}

nlohmann::json simulation_json(const Simulation& s) {
  const auto link_json = [](const Link& link) {
    return nlohmann::json{{"name", link.name}, {"latency_us", 1e6 * link.latency}, {"gigabytes_per_second", 1e-9 * link.bandwidth}};
  };
  nlohmann::json json{{"is_model", true},
                      {"cores", s.machine.cores},
                      {"measured_sample_us", 1e6 * s.machine.compute.per_sample},
                      {"measured_step_us", 1e6 * s.machine.compute.per_step},
                      {"measured_link", link_json(s.machine.link)},
                      {"link", link_json(s.link)},
                      {"sample_us", 1e6 * s.compute.per_sample},
                      {"step_us", 1e6 * s.compute.per_step},
                      {"samples_per_device", s.samples_per_device}};
  for (const ModelCheck& each : s.checks) {
    json["checks"].push_back({{"what", each.what}, {"devices", each.devices}, {"predicted_ms", 1e3 * each.predicted}, {"measured_ms", 1e3 * each.measured}, {"error", each.error()}});
  }
  for (const PublishedCheck& each : s.published) {
    json["published"].push_back({{"what", each.what}, {"source", each.source}, {"published", each.published}, {"lowest", each.lowest}, {"highest", each.highest}, {"unit", each.unit}, {"assumed", each.assumed}});
  }
  for (const ScalingRow& row : s.rows) {
    json["scaling"].push_back({{"devices", row.devices}, {"dp_ms", 1e3 * row.dp}, {"ddp_after_backward_ms", 1e3 * row.ddp_after}, {"ddp_ring_ms", 1e3 * row.ddp_ring}, {"ddp_tree_ms", 1e3 * row.ddp_tree}});
  }
  return json;
}

}  // namespace miniddp
