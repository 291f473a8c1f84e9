// What a training run tells: the articles' log lines, a progress bar on a terminal, the losses as CSV, a profile.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/tensor/tensor.h"
#include "common/training/options.h"

namespace miniddp {

/// The average loss and the accuracy over every sample of a test set.
struct TestResult {
  double average_loss = 0;
  int64_t correct = 0;
  int64_t total = 0;
};

class TrainingLog {
 public:
  /// `samples`: of one pass over the data, by all processes together; `batches`: of one pass, in this process; `steps_done`: before this
  /// run (--resume). Only rank 0 of the `processes` that train together prints and writes the CSV.
  /// With --profile or --trace a profile begins here: the network and the optimizer should be there by now.
  TrainingLog(const TrainingOptions& options, int64_t samples, int64_t batches, int64_t steps_done = 0, int rank = 0, int processes = 1);
  ~TrainingLog();

  /// After each training step. Reads the loss, and so waits for the device, only when it is needed. Epochs count from 1, batches from 0.
  void step(int epoch, int64_t batch, int64_t batch_samples, const Tensor& loss);
  /// Prints the test set's line, and writes the CSV as far as it goes.
  void test(const TestResult& result);

  int64_t steps() const { return steps_; }
  /// --max-steps is reached.
  bool finished() const { return options_.max_steps > 0 && steps_ >= options_.max_steps; }
  /// The end of the run: writes the CSV and the trace (of rank 2 to "trace.rank2.json") and prints the profile, whichever were asked for.
  void finish();

 private:
  void write_losses() const;
  void draw_bar(int epoch, int64_t batch);
  void clear_bar();

  const TrainingOptions options_;
  int64_t samples_, batches_, steps_;
  int rank_, processes_;
  bool speaks_, bar_;
  int64_t samples_seen_ = 0;  // by this run: for samples/s
  std::chrono::steady_clock::time_point start_, last_draw_;
  bool bar_drawn_ = false;
  std::string csv_ = "step,loss\n";
};

/// "Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.483908"
std::string train_line(int epoch, int64_t batch, int64_t batches, int64_t sample, int64_t samples, double loss);
/// "Test set: Average loss: 0.0468, Accuracy: 9846/10000 (98%)"
std::string test_line(const TestResult& result);

}  // namespace miniddp
