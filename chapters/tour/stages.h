// The stages of the tour: which chapter's program, started how often, with which options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace miniddp {

struct TourOptions {
  std::string model = "article_b";
  int64_t steps = 200;
  int64_t batch_size = 64;  // of all devices together
  int devices = 2;          // stages 02 to 05
  uint64_t seed = 0;
  std::string mistake;         // --break: what stage 04 leaves out; empty: nothing
  std::filesystem::path data;  // empty: the repository's MNIST
  double timeout = 600;        // seconds that one stage may take
};

struct Stage {
  std::string number, name;
  std::string program;
  int processes = 1;       // that the launcher starts
  int replicas = 0;        // --devices of a program that has this option; 0: leave it out
  int64_t batch_size = 0;  // of each process
  std::string mistake = {};

  /// "1 device", "2 devices", "2 processes".
  std::string devices() const;
};

/// Chapters 01 to 05. Every stage takes the same samples at the same step: `batch_size` of them, in DistributedSampler's order, which stages
/// 04 and 05 deal out to their processes.
std::vector<Stage> stages_of(const TourOptions& options);

/// The command that runs a stage for `steps` steps: the launcher, which limits its time and leaves nothing behind, and the chapter's program,
/// both from `programs`. `more`: further options of the program.
std::vector<std::string> command_of(const Stage& stage, const TourOptions& options, const std::filesystem::path& programs, int64_t steps,
                                    const std::vector<std::string>& more);

}  // namespace miniddp
