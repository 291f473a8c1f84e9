// From the parts to the report.
#include <algorithm>

#include "chapters/05_distributed_data_parallel/distributed_data_parallel.h"
#include "chapters/06_dp_vs_ddp/bytes.h"
#include "chapters/06_dp_vs_ddp/compare.h"
#include "chapters/06_dp_vs_ddp/roles.h"
#include "chapters/06_dp_vs_ddp/training.h"
#include "common/training/profile.h"

namespace miniddp {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

using Ranks = std::vector<const VariantPart*>;

// "rank 1 cpu:0" where there are several.
std::string row_name(const Ranks& ranks, int rank, const std::string& row) { return ranks.size() == 1 ? row : fmt::format("rank {} {}", rank, row); }

std::string title_of(const std::string& name, const RoleParts& role) {
  for (const DdpWay& way : ddp_ways()) {
    if (way.name == name) return way.title;
  }
  if (name == "dp") return "DP";
  return name == "one" ? "one device" : role.title;
}

Speed speed_of(const Ranks& ranks, int64_t global_batch) {
  Speed speed;
  const size_t runs = ranks[0]->runs.size();
  for (size_t run = 0; run < runs; ++run) {
    double slowest = 0;
    for (const VariantPart* rank : ranks) slowest = std::max(slowest, mean(rank->runs.at(run).step_ms));
    speed.run_step_ms.push_back(slowest);
  }
  speed.step_ms = median(speed.run_step_ms);
  speed.lowest_step_ms = *std::min_element(speed.run_step_ms.begin(), speed.run_step_ms.end());
  speed.highest_step_ms = *std::max_element(speed.run_step_ms.begin(), speed.run_step_ms.end());
  speed.samples_per_second = static_cast<double>(global_batch) / speed.step_ms * 1000;
  // The run next to the median speaks for the phases.
  size_t chosen = 0;
  for (size_t run = 1; run < runs; ++run) {
    if (std::abs(speed.run_step_ms[run] - speed.step_ms) < std::abs(speed.run_step_ms[chosen] - speed.step_ms)) chosen = run;
  }
  for (const VariantPart* rank : ranks) {
    for (const PhaseTime& each : rank->runs[chosen].phases) speed.phases.push_back({each.phase, row_name(ranks, rank->rank, each.row), each.ms});
  }
  speed.exposed_ms = ranks[0]->runs[chosen].exposed_ms;
  speed.hidden_ms = ranks[0]->runs[chosen].hidden_ms;
  return speed;
}

std::vector<ByteCount> bytes_of(const std::string& kind, const Ranks& ranks, const ByteSetup& setup, int64_t steps) {
  std::vector<ByteCount> rows;
  for (const VariantPart* rank : ranks) {
    const auto formulas = kind == "one"  ? one_device_bytes(setup)
                          : kind == "dp" ? dp_bytes(setup)
                                         : ddp_bytes(setup, rank->reduced_elements, rank->rank);
    for (ByteCount& row : beside_counted(formulas, rank->runs.back().transfers, steps)) rows.push_back(std::move(row));
  }
  return rows;
}

Variant variant_of(const RoleParts& role, size_t index, const CompareOptions& options, int64_t parameter_bytes) {
  Ranks ranks;
  for (const Part& part : role.ranks) ranks.push_back(&part.variants.at(index));
  Variant variant;
  variant.name = ranks[0]->name;
  variant.title = title_of(variant.name, role);
  variant.kind = role.role.starts_with("one") ? "one" : role.role;
  variant.devices = variant.kind == "one" ? 1 : options.devices;
  variant.threads = role.ranks[0].threads;
  variant.parity = ranks[0]->parity;
  for (const VariantPart* rank : ranks) {
    if (!rank->parity.passed && variant.parity.passed) variant.parity = rank->parity;
  }
  variant.speed = speed_of(ranks, options.global_batch);
  const DeviceType type = Device::parse(role.ranks[0].device).type;
  const ByteSetup setup{options.global_batch, parameter_bytes, options.devices, type, options.backend};
  variant.bytes = bytes_of(variant.kind, ranks, setup, options.steps);
  for (const VariantPart* rank : ranks) {
    for (Memory memory : rank->memory) {
      memory.device = row_name(ranks, rank->rank, memory.device);
      variant.memory.push_back(memory);
    }
  }
  variant.timeline = timeline_of(ranks);
  for (const int64_t elements : ranks[0]->reduced_elements) variant.bucket_bytes.push_back(elements * 4);
  return variant;
}

/// Devices of their own may all work at once; virtual ones share the cores.
double ideal_speedup(const Variant& variant, DeviceType type, int threads_of_one, int threads) {
  if (type != DeviceType::cpu) return variant.devices;
  const double all = static_cast<double>(threads) / threads_of_one;
  return variant.kind == "one" ? static_cast<double>(variant.threads) / threads_of_one : std::min<double>(variant.devices, all);
}

}  // namespace

Report assemble(const CompareOptions& options, const std::vector<RoleParts>& parts) {
  const Part& first = parts.at(0).ranks.at(0);
  Report report;
  report.model = options.model;
  report.device = first.device;
  report.backend = options.backend;
  report.machine = first.machine;
  report.cores = options.threads;
  report.devices = options.devices;
  report.global_batch = options.global_batch;
  report.steps = options.steps;
  report.runs = options.runs;
  report.parity_steps = options.parity_steps;
  report.seed = options.seed;
  report.tensors = first.tensors;
  const DeviceType type = Device::parse(first.device).type;
  for (const RoleParts& role : parts) {
    for (size_t i = 0; i < role.ranks.at(0).variants.size(); ++i) {
      report.variants.push_back(variant_of(role, i, options, report.parameter_bytes()));
    }
    if (!role.ranks[0].clocks.empty()) report.clocks = role.ranks[0].clocks;
  }
  const double one_rate = report.variants[0].speed.samples_per_second;
  for (Variant& variant : report.variants) {
    Speed& speed = variant.speed;
    speed.speedup = speed.samples_per_second / one_rate;
    speed.ideal_speedup = ideal_speedup(variant, type, report.variants[0].threads, options.threads);
    speed.efficiency = speed.speedup / speed.ideal_speedup;
  }
  return report;
}

std::vector<TimelineRow> timeline_of(const Ranks& ranks) {
  const auto iterations = [](const VariantPart& part) {
    std::vector<SpanRecord> found;
    for (const SpanRecord& span : part.spans) {
      if (span.phase == "iteration") found.push_back(span);
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    return found;
  };
  std::vector<SpanRecord> steps = iterations(*ranks[0]);
  if (steps.empty()) return {};
  std::vector<size_t> order(steps.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return steps[a].end - steps[a].begin < steps[b].end - steps[b].begin; });
  const size_t chosen = order[order.size() / 2];

  int64_t zero = steps[chosen].begin;
  for (const VariantPart* rank : ranks) zero = std::min(zero, iterations(*rank).at(chosen).begin);
  std::vector<TimelineRow> rows;
  for (const VariantPart* rank : ranks) {
    const SpanRecord window = iterations(*rank)[chosen];
    std::map<std::pair<size_t, std::string>, std::vector<SpanRecord>> by_row;  // "cpu:0" before "cpu:0 communication"
    for (const SpanRecord& span : rank->spans) {
      if (span.begin >= window.begin && span.end <= window.end) by_row[{span.row.size(), span.row}].push_back(span);
    }
    for (auto& [key, spans] : by_row) {
      std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) { return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end); });
      TimelineRow row{row_name(ranks, rank->rank, key.second), {}};
      std::vector<int64_t> open;  // ends of the spans around
      for (const SpanRecord& span : spans) {
        while (!open.empty() && open.back() <= span.begin) open.pop_back();
        const auto microseconds = [&](int64_t time) { return static_cast<double>(time - zero) / 1000; };
        row.spans.push_back({span.phase, microseconds(span.begin), microseconds(span.end), static_cast<int>(open.size())});
        open.push_back(span.end);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

nlohmann::json assemble_trace(const CompareOptions&, const std::vector<RoleParts>& parts) {
  nlohmann::json events = nlohmann::json::array();
  int process = 0;
  for (const RoleParts& role : parts) {
    for (size_t i = 0; i < role.ranks.at(0).variants.size(); ++i) {
      for (const Part& part : role.ranks) {
        const VariantPart& variant = part.variants.at(i);
        Profile profile;
        profile.spans = variant.spans;
        const nlohmann::json one = nlohmann::json::parse(trace_json(profile, process++));
        for (nlohmann::json event : one.at("traceEvents")) {
          const std::string title = title_of(variant.name, role);
          if (event.at("name") == "process_name") {
            event["args"]["name"] = role.ranks.size() == 1 ? title : fmt::format("{}, rank {}", title, variant.rank);
          }
          events.push_back(std::move(event));
        }
      }
    }
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

}  // namespace miniddp
