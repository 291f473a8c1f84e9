#include "chapters/tour/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "chapters/tour/mistakes.h"
#include "chapters/tour/stage_run.h"
#include "common/core/error.h"
#include "common/training/options.h"

namespace miniddp {
namespace {

constexpr int64_t training_samples = 60'000, recorded_batch_size = 64;
constexpr uint64_t recorded_seed = 0;

}  // namespace

TourOptions parse_tour_options(int argc, const char* const* argv) {
  TourOptions options;
  CLI::App app("The tour: trains the same network at each of chapters 01 to 05 on the CPU, without dropout, and compares them in one table");
  app.add_option("--model", options.model, "Network: article_a (one convolution) or article_b (two convolutions)")
      ->check(CLI::IsMember({"article_a", "article_b"}))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "Training steps of each stage, within one epoch")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--devices", options.devices, "Devices of stages 02 and 03, processes of stages 04 and 05")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "Samples of a step, of all devices together")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of the weights")->capture_default_str();
  app.add_option("--data", options.data, "Directory with MNIST's four IDX files [datasets/mnist]");
  app.add_option("--timeout", options.timeout, "Seconds that one stage may take")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--break", options.mistake, mistakes_help())->check(CLI::IsMember(mistake_names()));
  parse_command_line(app, argc, argv);
  // Equal shares: only then is the mean of the processes' losses the loss of the whole batch.
  check<UsageError>(options.batch_size % options.devices == 0, "--batch-size {} cannot be dealt out equally to {} devices", options.batch_size,
                    options.devices);
  check<UsageError>(options.steps <= training_samples / options.batch_size, "--steps {} of {} samples are more than one epoch: {} at most",
                    options.steps, options.batch_size, training_samples / options.batch_size);
  check<UsageError>(options.mistake.empty() || options.devices > 1, "--break {} needs --devices 2 or more", options.mistake);
  return options;
}

std::vector<double> recorded_losses(const TourOptions& options) {
  const char* other_data = std::getenv("MINIDDP_DATA");
  if (options.seed != recorded_seed || options.batch_size != recorded_batch_size || !options.data.empty() || (other_data != nullptr && *other_data != '\0'))
    return {};
  return read_losses(std::filesystem::path(MINIDDP_SOURCE_DIR) / "chapters/tour/recorded" / (options.model + ".csv"));
}

}  // namespace miniddp
