// The options that all chapter programs share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/core/device.h"

namespace CLI {
class App;
class Validator;
}

namespace miniddp {

struct TrainingOptions {
  std::string model = "article_b";  // article_a or article_b
  int epochs = 0;                   // 0: the article's own number
  int64_t max_steps = 0;            // training steps of the whole run; 0: no limit
  int64_t batch_size = 64;          // per process
  int64_t test_batch_size = 1000;
  double lr = 0.01;
  double momentum = 0.5;
  uint64_t seed = 1;
  int log_interval = 0;  // batches between two log lines; 0: the article's own number
  std::string device = "auto";
  bool tf32 = false;           // GPUs may round the factors of large products
  std::string devices;         // "4" or "cpu:0,cpu:1"; empty: the program's own number
  int threads = 0;             // of the whole process, shared by its devices; 0: all cores
  std::filesystem::path data;  // empty: the repository's MNIST
  bool no_dropout = false;
  bool no_shuffle = false;
  std::string sampler = "random";  // random or distributed
  bool no_set_epoch = false;
  std::filesystem::path loss_csv, trace, save, resume;
  bool profile = false;
  bool quiet = false;

  bool is_article_a() const { return model == "article_a"; }
};

/// For programs with the shared options alone: parses the command line as parse_command_line does. `about` begins the help.
TrainingOptions parse_training_options(const char* about, int argc, const char* const* argv);

/// Adds the shared options, with their help, to a program's command line.
void add_training_options(CLI::App& app, TrainingOptions& options);

/// For options that name something: an empty text, as of a shell variable that is not set, is refused.
CLI::Validator not_empty();

/// Parses the command line. `--help` prints the help and exits 0. Throws UsageError on a wrong option.
void parse_command_line(CLI::App& app, int argc, const char* const* argv);
/// The same, then fills in the model's own numbers where 0 stood for them, and checks the options against each other.
void parse_command_line(CLI::App& app, TrainingOptions& options, int argc, const char* const* argv);

/// The devices a run uses: `--devices` if given, else `count` devices of `--device`'s type. "auto" is cuda where there is a GPU, else
/// cpu. Throws UsageError for a list that makes no sense, DeviceError for a device that does not exist.
std::vector<Device> choose_devices(const TrainingOptions& options, int count = 1);

/// Gives each of `devices` its share of `options.threads`, and prints on stderr which devices and threads the run uses.
void prepare_devices(const TrainingOptions& options, const std::vector<Device>& devices);

/// Runs a program's body. Errors are printed as "error: …" on stderr; returns the exit status: 0, 1 for errors, 2 for wrong usage.
/// Standard streams that are closed, and signals that ask to end, are dealt with first.
int run_program(int (*body)(int argc, char** argv), int argc, char** argv);

}  // namespace miniddp
