// Chapter 06's own options.
#pragma once

#include <filesystem>
#include <string>

#include "common/training/options.h"

namespace CLI {
class App;
}

namespace miniddp {

struct CompareOptions {
  std::string model = "article_b";
  int devices = 2;
  int64_t global_batch = 64;
  int64_t steps = 20;  // of each timed run
  int64_t runs = 3;
  int64_t parity_steps = 20;  // compared tensor by tensor before the timed runs
  std::filesystem::path output = "report";
  std::string device = "auto";
  std::string backend = "ring";
  double lr = 0.01, momentum = 0.5;
  uint64_t seed = 2;
  int threads = 0;  // of the whole machine; 0: all cores
  std::filesystem::path data;
  double timeout = 600;  // seconds that one part may take
  bool quiet = false;

  // How the program calls itself: one process plays one part and leaves what it found in a folder.
  std::string role;
  std::filesystem::path parts;
  std::string fail_role;  // for tests: this part throws
};

void add_compare_options(CLI::App& app, CompareOptions& options);
/// Fills in what 0 stands for ("auto" is left to the parts: the program that starts them must not touch a GPU). Throws UsageError for what cannot be compared.
void check_compare_options(CompareOptions& options);

/// The same as the chapters' shared options, for their helpers.
TrainingOptions training_options(const CompareOptions& options);

}  // namespace miniddp
