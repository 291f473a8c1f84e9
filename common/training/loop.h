// The loop around the training step: epochs, log, evaluation, checkpoints. The step itself is what the chapters are about.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/nn/functional.h"
#include "common/nn/module.h"
#include "common/optim/sgd.h"
#include "common/training/data.h"
#include "common/training/options.h"

namespace miniddp {

/// Trains on one batch and returns its loss, a scalar.
using TrainStep = std::function<Tensor(const Batch& batch)>;

/// This process among those that train together (chapter 05).
struct Peers {
  int rank = 0;
  int size = 1;
  /// Evaluates the model with all of them; none: this process does it alone.
  std::function<TestResult()> evaluate = {};
  /// Every process gives a text; all get all of them, in the order of the ranks. Needed where size > 1.
  std::function<std::vector<std::string>(const std::string&)> gather = {};
};

/// Calls `step` for every batch of every epoch that the options ask for, from where --resume says. Logs; after each epoch evaluates
/// `model` on the test set, on devices[0], and saves. At the end writes the CSV, the trace and the profile. Throws Error if there is
/// nothing left to train. Of several processes rank 0 prints, saves and writes the losses; all load what --resume names.
/// A name that cannot be written is refused at once. With --save or --loss-csv Ctrl-C (SIGTERM, SIGHUP) ends a run of one process in good
/// order: after the step it is at, both files written.
void train_epochs(const TrainingOptions& options, const std::vector<Device>& devices, TrainingData& data, Module& model, SGD& optimizer,
                  functional::LossFunction loss_function, const TrainStep& step, const Peers& peers = {});

}  // namespace miniddp
