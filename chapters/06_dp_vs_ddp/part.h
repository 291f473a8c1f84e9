// What one process of a comparison leaves for the one that started it: a JSON file for each.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chapters/06_dp_vs_ddp/report.h"
#include "common/core/recorder.h"

namespace miniddp {

/// One timed run in one process.
struct RunPart {
  std::vector<double> step_ms;
  std::vector<PhaseTime> phases;  // mean of a step
  double exposed_ms = 0, hidden_ms = 0;
  std::vector<TransferTotal> transfers;  // of all steps
};

/// One variant in one process.
struct VariantPart {
  std::string name;
  int rank = 0;
  Parity parity;
  std::vector<RunPart> runs;
  std::vector<SpanRecord> spans;  // of the last run
  std::vector<Memory> memory;     // of the run with the highest peak
  std::vector<int64_t> reduced_elements;
};

/// One process.
struct Part {
  std::string device, machine;
  int threads = 0;  // of each device
  std::vector<NamedTensorSize> tensors;
  std::vector<VariantPart> variants;
  std::vector<ClockOffset> clocks;               // rank 0 of several
  std::map<std::string, std::string> behaviour;  // what was found, by a short name
};

/// "ddp", 1 -> "ddp.rank1.json".
std::filesystem::path part_path(const std::filesystem::path& folder, const std::string& role, int rank);
void write_part(const std::filesystem::path& path, const Part& part);
/// Throws DataError if it is missing or damaged.
Part read_part(const std::filesystem::path& path);

}  // namespace miniddp
