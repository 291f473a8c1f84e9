// The tour's last word: the table, and what is out of tolerance.
#pragma once

#include <string>
#include <vector>

#include "chapters/tour/stage_run.h"
#include "chapters/tour/verdict.h"

namespace miniddp {

/// Something that is not as it must be.
struct Problem {
  const Stage* stage = nullptr;
  std::string text;               // names the stage, and the step if there is one
  int64_t weights_last_step = 0;  // the weights have parted from stage 01's after this step at the latest; 0: they cannot be compared
};

/// What the tour is going to do.
std::string headline(const TourOptions& options);

/// Results that are missing at the end were not reached. `pytorch`: its losses, none if they were not recorded. Keeps references to `stages`.
class Report {
 public:
  Report(const TourOptions& options, const std::vector<Stage>& stages, std::vector<StageResult> results, const std::vector<double>& pytorch);

  /// One row for each stage, and under them what is allowed.
  std::string table() const;
  std::vector<Problem>& problems() { return problems_; }

 private:
  struct Row {
    double from_first = -1, from_pytorch = -1;  // largest difference of the losses; negative: not compared
  };
  Row judge(const Stage& stage, const StageResult& result);

  const TourOptions options_;
  const std::vector<Stage>& stages_;
  std::vector<StageResult> results_;
  const std::vector<double> pytorch_;
  std::vector<Row> rows_;
  std::vector<Problem> problems_;
};

/// "; after step 1 conv1.weight differs by up to 1.2e-03".
std::string describe(const TensorDifference& difference);

}  // namespace miniddp
