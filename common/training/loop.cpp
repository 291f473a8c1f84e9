#include "common/training/loop.h"

#include "common/training/checkpoint.h"
#include "common/training/log.h"

namespace miniddp {

void train_epochs(const TrainingOptions& options, const std::vector<Device>& devices, TrainingData& data, Module& model, SGD& optimizer,
                  functional::LossFunction loss_function, const TrainStep& step, const Peers& peers) {
  Progress progress;
  if (!options.resume.empty()) progress = load_checkpoint(options.resume, options, model, optimizer, devices);
  DataLoader& loader = data.train_loader();
  TrainingLog log(options, data.train_set().size(), loader.size(), progress.steps, peers.rank, peers.size);
  const bool mid_epoch = progress.epoch > 0 && progress.pass.next_batch < loader.size();
  for (int epoch = progress.epoch + (mid_epoch ? 0 : 1); epoch <= options.epochs && !log.finished(); ++epoch) {
    model.train();
    DataPass pass = mid_epoch && epoch == progress.epoch ? loader.resume(progress.pass) : loader.pass(data.sampler_epoch(epoch));
    for (const Batch& batch : pass) {
      log.step(epoch, pass.batches_done() - 1, batch.size(), step(batch));
      if (log.finished()) break;
    }
    // Evaluating draws random numbers too (as PyTorch's loader does): in the middle of an epoch the checkpoint must be taken before them,
    // at its end after them.
    const bool complete = pass.batches_done() == loader.size();
    const auto save = [&] {
      if (!options.save.empty() && peers.rank == 0) save_checkpoint(options.save, options, model, optimizer, {log.steps(), epoch, pass.state()}, devices);
    };
    if (!complete) save();
    log.test(peers.evaluate ? peers.evaluate() : evaluate(model, data.test_loader(), loss_function, devices[0]));
    if (complete) save();
  }
  check(log.steps() > progress.steps, "nothing is left to train: {} stands at step {}, epoch {}; raise --epochs or --max-steps",
        options.resume.string(), progress.steps, progress.epoch);
  log.finish();
}

}  // namespace miniddp
