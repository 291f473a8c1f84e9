// What a comparison found: the structures behind report.json. Each structure is a JSON object with the same names.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace miniddp {

/// Where two trainings part for the first time. `step` counts from 1; 0: they do not.
struct FirstDifference {
  int64_t step = 0;
  std::string what;  // "loss", or "gradient of conv1.weight", "parameter conv1.weight"
  double difference = 0;
};

/// A variant against one device: largest absolute differences, one entry for each step.
struct Parity {
  std::vector<double> losses, loss, gradients, parameters;  // the losses themselves, then the differences
  FirstDifference first_beyond;                             // the tolerance
  FirstDifference first_bits;                               // any difference at all
  double tolerance = 0;  // of losses; those of tensors are in reference.h
  bool passed = false;
};

/// Milliseconds of a phase in one step, on one row: "cpu:0", or "rank 1 cpu:0".
struct PhaseTime {
  std::string phase, row;
  double ms = 0;
};

struct Speed {
  std::vector<double> run_step_ms;           // mean step of each run, of the slowest rank
  double step_ms = 0;                        // their median
  double lowest_step_ms = 0, highest_step_ms = 0;
  double samples_per_second = 0;             // from the median
  double speedup = 0;                        // against one device with the same threads as one of these devices
  double ideal_speedup = 0;                  // the number of devices, or what the machine's cores allow
  double efficiency = 0;                     // speedup / ideal_speedup
  std::vector<PhaseTime> phases;             // of the median run
  double exposed_ms = 0, hidden_ms = 0;      // communication while nothing else ran, and while backward ran; rank 0 or the whole process
};

/// Bytes in one step: what was counted, and what the formula says.
struct ByteCount {
  std::string phase, kind, from, to;
  int64_t counted = 0, formula = 0;
  std::string formula_text;
};

/// Bytes on one device or rank.
struct Memory {
  std::string device;
  int64_t peak = 0;
  int64_t parameters = 0, gradients = 0, momentum = 0, buckets = 0;
  int64_t rest = 0;  // of the peak: activations and temporary tensors
};

/// Microseconds from the beginning of the step. `depth`: spans around it on its row.
struct TimelineSpan {
  std::string phase;
  double begin = 0, end = 0;
  int depth = 0;
};
struct TimelineRow {
  std::string name;
  std::vector<TimelineSpan> spans;
};

/// One way to train.
struct Variant {
  std::string name;   // "one", "one_all_threads", "dp", "ddp_after_backward", "ddp_per_gradient", "ddp_buckets", "ddp_overlap"
  std::string title;  // for people
  std::string kind;   // "one", "dp", "ddp"
  int devices = 1;
  int threads = 1;  // CPU threads of each device
  Parity parity;
  Speed speed;
  std::vector<ByteCount> bytes;
  std::vector<Memory> memory;
  std::vector<TimelineRow> timeline;      // one step, of median length in the last run
  std::vector<int64_t> bucket_bytes;      // of the all-reduces of a step, in the order in which they start
};

/// One difference between DP and DDP, measured.
struct BehaviourRow {
  std::string difference;
  std::string one, dp, ddp;  // what was found
  std::vector<std::string> tests;  // ctest's names of the tests that prove it
};

/// A rank's clock against rank 0's.
struct ClockOffset {
  int rank = 0;
  double offset_us = 0, round_trip_us = 0;
};

struct NamedTensorSize {
  std::string name;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

struct Report {
  int format = 1;
  std::string model, device, backend, machine;
  int cores = 0;
  int devices = 0;
  int64_t global_batch = 0, steps = 0, runs = 0, parity_steps = 0;
  uint64_t seed = 0;
  std::vector<NamedTensorSize> tensors;
  std::vector<Variant> variants;
  std::vector<ClockOffset> clocks;
  std::vector<BehaviourRow> behaviour;
  nlohmann::json simulation;  // what --simulate adds; null without it

  /// Throws Error if there is none of that name.
  const Variant& variant(const std::string& name) const;
  int64_t parameter_bytes() const;
};

void to_json(nlohmann::json& json, const Report& report);
/// Throws nlohmann's exceptions if something is missing.
void from_json(const nlohmann::json& json, Report& report);

}  // namespace miniddp
