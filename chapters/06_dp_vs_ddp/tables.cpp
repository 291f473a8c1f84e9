#include "chapters/06_dp_vs_ddp/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace miniddp {
namespace {

double largest(const std::vector<double>& values) { return values.empty() ? 0 : *std::max_element(values.begin(), values.end()); }

std::string where(const FirstDifference& first) {
  return first.step == 0 ? "none" : fmt::format("step {}, {}", first.step, first.what);
}

std::string parity_table(const Report& report) {
  std::string text = fmt::format("Parity: largest difference from one device over {} steps (tolerance of the losses {:.0e})\n",
                                 report.parity_steps, report.variants[0].parity.tolerance);
  text += fmt::format("  {:<30}{:>10}{:>10}{:>10}  {:<34}{}\n", "", "loss", "gradient", "parameter", "first bit that differs", "first beyond tolerance");
  for (const Variant& each : report.variants) {
    const Parity& parity = each.parity;
    text += fmt::format("  {:<30}{:>10.1e}{:>10.1e}{:>10.1e}  {:<34}{}\n", each.title, largest(parity.loss), largest(parity.gradients),
                        largest(parity.parameters), where(parity.first_bits), where(parity.first_beyond));
  }
  return text;
}

std::string speed_table(const Report& report) {
  std::string text = fmt::format("Speed: {} runs of {} steps of {} samples\n", report.runs, report.steps, report.global_batch);
  text += fmt::format("  {:<30}{:>8}{:>10}{:>18}{:>11}{:>9}{:>7}{:>12}{:>10}{:>9}\n", "", "threads", "ms a step", "lowest-highest", "samples/s",
                      "speedup", "ideal", "efficiency", "exposed", "hidden");
  for (const Variant& each : report.variants) {
    const Speed& speed = each.speed;
    text += fmt::format("  {:<30}{:>8}{:>10.2f}{:>18}{:>11.0f}{:>9.2f}{:>7.1f}{:>11.0f}%{:>10.2f}{:>9.2f}\n", each.title,
                        fmt::format("{} x {}", each.devices, each.threads), speed.step_ms,
                        fmt::format("{:.2f}-{:.2f}", speed.lowest_step_ms, speed.highest_step_ms), speed.samples_per_second, speed.speedup,
                        speed.ideal_speedup, 100 * speed.efficiency, speed.exposed_ms, speed.hidden_ms);
  }
  text += "  exposed, hidden: milliseconds of communication that the step waits for, and that run beside backward\n";
  return text;
}

// The busiest row of each variant: its first device or rank.
std::string phase_table(const Report& report) {
  std::vector<std::string> phases;
  std::map<std::pair<std::string, std::string>, double> times;
  for (const Variant& each : report.variants) {
    const std::string row = each.speed.phases.empty() ? "" : each.speed.phases[0].row;
    for (const PhaseTime& time : each.speed.phases) {
      if (time.row != row) continue;
      if (std::find(phases.begin(), phases.end(), time.phase) == phases.end()) phases.push_back(time.phase);
      times[{each.name, time.phase}] = time.ms;
    }
  }
  std::string text = "Phases of a step on the first device or rank, ms (iteration: what is in no other phase)\n" + fmt::format("  {:<30}", "");
  for (const std::string& phase : phases) text += fmt::format("{:>{}}", phase, std::max<size_t>(9, phase.size() + 2));
  text += "\n";
  for (const Variant& each : report.variants) {
    text += fmt::format("  {:<30}", each.title);
    for (const std::string& phase : phases) {
      const auto found = times.find({each.name, phase});
      const size_t width = std::max<size_t>(9, phase.size() + 2);
      text += found == times.end() ? fmt::format("{:>{}}", "-", width) : fmt::format("{:>{}.2f}", found->second, width);
    }
    text += "\n";
  }
  return text;
}

std::string byte_table(const Report& report) {
  std::string text = "Bytes a step: counted, and by formula\n";
  for (const Variant& each : report.variants) {
    for (const ByteCount& row : each.bytes) {
      text += fmt::format("  {:<30}{:<17}{:<12}{:<24}{:>12}{:>12}  {}\n", each.title, row.phase, row.kind, row.from + " -> " + row.to, row.counted,
                          row.formula, row.counted == row.formula ? row.formula_text : "DIFFERENT: " + row.formula_text);
    }
  }
  return text;
}

std::string memory_table(const Report& report) {
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / (1024 * 1024); };
  std::string text = "Memory of tensors, MiB\n";
  text += fmt::format("  {:<30}{:<16}{:>8}{:>12}{:>11}{:>10}{:>9}{:>26}\n", "", "", "peak", "parameters", "gradients", "momentum", "buckets",
                      "activations and the rest");
  for (const Variant& each : report.variants) {
    for (const Memory& row : each.memory) {
      text += fmt::format("  {:<30}{:<16}{:>8.2f}{:>12.2f}{:>11.2f}{:>10.2f}{:>9.2f}{:>26.2f}\n", each.title, row.device, mib(row.peak),
                          mib(row.parameters), mib(row.gradients), mib(row.momentum), mib(row.buckets), mib(row.rest));
    }
  }
  return text;
}

std::string behaviour_list(const Report& report) {
  std::string text = "Behaviour, on two virtual devices and two processes\n";
  for (const BehaviourRow& row : report.behaviour) {
    text += fmt::format("  {}\n    one device   {}\n    DP           {}\n    DDP          {}\n", row.difference, row.one, row.dp, row.ddp);
  }
  return text;
}

}  // namespace

std::string report_tables(const Report& report) {
  return fmt::format("{} on {} ({}), {} device{}, {} of gradients\n\n", report.model, report.device, report.machine, report.devices,
                     report.devices == 1 ? "" : "s", fmt::format("{:.2f} MiB", static_cast<double>(report.parameter_bytes()) / (1024 * 1024))) +
         parity_table(report) + "\n" + speed_table(report) + "\n" + phase_table(report) + "\n" + byte_table(report) + "\n" + memory_table(report) +
         "\n" + behaviour_list(report);
}

}  // namespace miniddp
