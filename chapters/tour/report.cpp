#include "chapters/tour/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

namespace miniddp {
namespace {

std::string title(const Stage& stage) { return fmt::format("stage {} ({})", stage.number, stage.name); }

std::string difference_cell(double value) { return value < 0 ? "-" : fmt::format("{:.1e}", value); }

std::string table_row(const std::vector<std::string>& cells) {
  static const int widths[] = {28, 12, 11, 13, 14, 12, 10};
  std::string row;
  for (size_t i = 0; i < cells.size(); ++i) row += i < 2 ? fmt::format("{:<{}}", cells[i], widths[i]) : fmt::format("{:>{}}", cells[i], widths[i]);
  return row + "\n";
}

}  // namespace

std::string headline(const TourOptions& options) {
  return fmt::format("The tour: {} without dropout, seed {}, {} steps of {} samples at every stage, {} cores", options.model, options.seed,
                     options.steps, options.batch_size, std::thread::hardware_concurrency());
}

Report::Report(const TourOptions& options, const std::vector<Stage>& stages, std::vector<StageResult> results, const std::vector<double>& pytorch)
    : options_(options), stages_(stages), results_(std::move(results)), pytorch_(pytorch) {
  for (size_t i = 0; i < results_.size(); ++i) rows_.push_back(judge(stages_[i], results_[i]));
}

Report::Row Report::judge(const Stage& stage, const StageResult& result) {
  Row row;
  if (!result.failure.empty()) {
    problems_.push_back({&stage, title(stage) + ": " + result.failure});
    return row;
  }
  const bool first = &stage == &stages_[0];
  const auto complain = [&](const LossDifference& difference, const std::string& whose, double tolerance, bool weights) {
    if (difference.first_step == 0) return;
    problems_.push_back({&stage, fmt::format("{}: step {}: loss {:.7f}, {} has {:.7f}: {:.1e} apart, {:.0e} allowed", title(stage),
                                             difference.first_step, difference.found, whose, difference.expected,
                                             std::abs(difference.found - difference.expected), tolerance),
                         weights ? difference.first_step : 0});
  };
  bool parted = false;
  if (!first) {
    const LossDifference difference = compare_losses(result.losses, results_[0].losses, allowed::from_first_stage);
    row.from_first = difference.largest;
    parted = difference.first_step > 0;
    complain(difference, "stage 01", allowed::from_first_stage, true);
  }
  if (!pytorch_.empty()) {
    const size_t count = std::min(result.losses.size(), pytorch_.size());
    const LossDifference difference =
        compare_losses(result.losses, {pytorch_.begin(), pytorch_.begin() + static_cast<std::ptrdiff_t>(count)}, allowed::from_pytorch);
    row.from_pytorch = difference.largest;
    if (!parted) complain(difference, "PyTorch", allowed::from_pytorch, false);  // else it has been said already
  }
  if (!first && !(std::abs(result.accuracy() - results_[0].accuracy()) <= allowed::accuracy)) {
    problems_.push_back({&stage, fmt::format("{}: test accuracy {:.2f} % after step {}, stage 01 has {:.2f} %: more than {} points apart",
                                             title(stage), result.accuracy(), options_.steps, results_[0].accuracy(), allowed::accuracy)});
  }
  return row;
}

std::string Report::table() const {
  const size_t compared = std::min<size_t>(allowed::steps, static_cast<size_t>(options_.steps));
  std::string text = fmt::format("{:<51}loss, first {} steps,\n{:<51}largest difference\n", "", compared, "");
  text += table_row({"stage", "on", "samples/s", "from 01", "from PyTorch", "final loss", "accuracy"});
  for (size_t i = 0; i < stages_.size(); ++i) {
    const std::string name = stages_[i].number + " " + stages_[i].name;
    if (i >= results_.size()) {
      text += table_row({name, stages_[i].devices(), "not reached"});
    } else if (!results_[i].failure.empty()) {
      text += table_row({name, stages_[i].devices(), "failed"});
    } else {
      const StageResult& result = results_[i];
      text += table_row({name, stages_[i].devices(), result.samples_per_second > 0 ? fmt::format("{:.0f}", result.samples_per_second) : "-",
                         difference_cell(rows_[i].from_first), difference_cell(rows_[i].from_pytorch), fmt::format("{:.6f}", result.losses.back()),
                         fmt::format("{:.2f} %", result.accuracy())});
    }
  }
  text += fmt::format("\nAllowed: {:.0e} from stage 01, {:.0e} from PyTorch, {} points of accuracy.", allowed::from_first_stage,
                      allowed::from_pytorch, allowed::accuracy);
  if (pytorch_.empty()) text += " PyTorch's losses are recorded for seed 0 and batches of 64 only.";
  text += problems_.empty() ? " All stages are the same training." : "";
  return text;
}

std::string describe(const TensorDifference& difference) {
  if (difference.name.empty()) return fmt::format("; no tensor differs by more than {:.0e} up to there", allowed::weights);
  return fmt::format("; the weights part in step {}: {} differs by up to {:.1e}", difference.step, difference.name, difference.largest);
}

}  // namespace miniddp
