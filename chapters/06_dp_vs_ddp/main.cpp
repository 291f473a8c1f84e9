// Chapter 06: one device, DataParallel and DistributedDataParallel on the same batches. Prints tables, and writes report/index.html,
// report.json and trace.json.
//   ./tutorial compare --devices 2
//   ./tutorial compare --simulate       a model of more devices instead
#include <CLI/CLI.hpp>

#include "chapters/06_dp_vs_ddp/compare.h"
#include "chapters/06_dp_vs_ddp/options.h"
#include "chapters/06_dp_vs_ddp/page.h"
#include "chapters/06_dp_vs_ddp/roles.h"
#include "chapters/06_dp_vs_ddp/simulate.h"
#include "chapters/06_dp_vs_ddp/tables.h"
#include "common/core/console.h"
#include "common/core/error.h"
#include "common/core/file.h"

using namespace miniddp;

static int run(int argc, char** argv) {
  CompareOptions options;
  CLI::App app("Chapter 06: one device, DataParallel and DistributedDataParallel on the same batches, compared");
  add_compare_options(app, options);
  SimulateOptions simulation;
  add_simulate_options(app, simulation);
  TrainingOptions unused;  // the parser fills in what is left open there
  parse_command_line(app, unused, argc, argv);
  check_compare_options(options);
  if (!options.role.empty()) {  // started by the comparison itself
    play_role(options);
    return 0;
  }

  if (simulation.simulate) {
    const Simulation result = simulate(options, simulation, std::filesystem::read_symlink("/proc/self/exe").parent_path());
    write_output(simulation_text(result));
    write_file(options.output / "simulation.json", simulation_json(result).dump(1) + "\n");
    return 0;
  }

  // No thread and no GPU in this process: it only starts others and reads what they leave.
  const Comparison result = compare(options, {argv + 1, argv + argc});
  write_output(report_tables(result.report));
  write_file(options.output / "report.json", nlohmann::json(result.report).dump(1) + "\n");
  write_file(options.output / "trace.json", result.trace.dump() + "\n");
  write_file(options.output / "index.html", report_page(result.report));
  print_output("\nPictures: {}\nTimeline of every step: {} (open it at ui.perfetto.dev)\nNumbers: {}\n", (options.output / "index.html").string(),
             (options.output / "trace.json").string(), (options.output / "report.json").string());
  for (const Variant& each : result.report.variants) {
    const FirstDifference& first = each.parity.first_beyond;
    check(each.parity.passed, "{} differs from one device beyond the tolerance: first at step {}, {} by {:.2e}", each.title, first.step, first.what,
          first.difference);
  }
  return 0;
}

int main(int argc, char** argv) { return run_program(run, argc, argv); }
