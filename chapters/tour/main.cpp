// The tour: the same network through chapters 01 to 05, and one table that compares them.
//   ./tutorial run
#include <filesystem>

#include "chapters/tour/options.h"
#include "chapters/tour/progress.h"
#include "chapters/tour/report.h"
#include "chapters/tour/stage_run.h"
#include "chapters/tour/working_directory.h"
#include "common/core/console.h"
#include "common/launch/child_program.h"
#include "common/training/options.h"

using namespace miniddp;

static int run(int argc, char** argv) {
  const TourOptions options = parse_tour_options(argc, argv);
  const std::filesystem::path programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const WorkingDirectory directory;
  const std::vector<Stage> stages = stages_of(options);
  const std::vector<double> pytorch = recorded_losses(options);

  print_output("{}\n", headline(options));
  std::vector<StageResult> results;
  for (const Stage& stage : stages) {
    Progress progress(stage, options);
    results.push_back(run_stage(stage, options, programs, directory.path(), [&](const StageLine& line) { progress.line(line); }));
    if (!results[0].failure.empty()) break;  // nothing to compare the others with
  }

  Report report(options, stages, results, pytorch);
  print_output("\n{}\n", report.table());
  // Where a stage has parted from stage 01, both run again, to see which tensor was the first.
  for (Problem& problem : report.problems()) {
    if (problem.weights_last_step > 0) {
      const auto weights = [&](const Stage& stage) {
        return [&](int64_t steps) { return weights_after(stage, options, programs, directory.path(), steps); };
      };
      const TensorDifference tensor =
          find_parting(weights(*problem.stage), weights(stages[0]), problem.weights_last_step, allowed::weights);
      problem.text += describe(tensor);
    }
    print_errors("error: {}\n", problem.text);
  }
  return report.problems().empty() ? 0 : 1;
}

int main(int argc, char** argv) {
  stop_on_signals();
  const int status = run_program(run, argc, argv);
  die_of_signal();
  return status;
}
