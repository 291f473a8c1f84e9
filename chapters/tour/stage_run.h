// One stage of the tour: its program runs, and what it prints and writes becomes numbers.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "chapters/tour/stages.h"
#include "common/nn/module.h"

namespace miniddp {

/// What a stage showed.
struct StageResult {
  std::string failure;         // what its program died of; empty: it ended well
  std::vector<double> losses;  // of every step, over the whole batch
  double samples_per_second = 0;  // from the first step's log line to the last one's; 0: there were not two
  int64_t correct = 0, total = 0;

  double accuracy() const { return total > 0 ? 100.0 * static_cast<double>(correct) / static_cast<double>(total) : 0; }
};

/// A log line of a running stage.
struct StageLine {
  std::string text;
  int64_t step = 0;  // counted from 1; 0: not a line of a training step
  double samples_per_second = 0;  // so far
};

/// Runs a stage. A program that fails is not an error here: it is in `failure`, with the last lines it wrote. `directory` is for files.
StageResult run_stage(const Stage& stage, const TourOptions& options, const std::filesystem::path& programs,
                      const std::filesystem::path& directory, const std::function<void(const StageLine&)>& on_line);

/// The weights after `steps` steps, by name. Throws Error if the program fails.
NamedTensors weights_after(const Stage& stage, const TourOptions& options, const std::filesystem::path& programs,
                           const std::filesystem::path& directory, int64_t steps);

/// The losses of a --loss-csv file. Throws DataError if a row is damaged or a step is out of order.
std::vector<double> read_losses(const std::filesystem::path& path);

}  // namespace miniddp
