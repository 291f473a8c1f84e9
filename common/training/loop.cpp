#include "common/training/loop.h"

#include "common/core/console.h"
#include "common/core/file.h"
#include "common/core/interrupt.h"
#include "common/training/checkpoint.h"
#include "common/training/log.h"
#include "common/training/profile.h"

namespace miniddp {
namespace {

// Before the work, so that no hours of it end with a name that cannot be written.
void check_outputs(const TrainingOptions& options, int rank) {
  if (!options.trace.empty()) check_writable(trace_path(options.trace, rank));
  if (rank != 0) return;
  for (const auto& path : {options.save, options.loss_csv}) {
    if (!path.empty()) check_writable(path);
  }
}

[[noreturn]] void end_interrupted(const OrderlyStop& stop, const TrainingOptions& options, int64_t steps) {
  const std::string saved =
      options.save.empty() ? "" : fmt::format("; --resume {} goes on from there", options.save.string());
  print_errors("Interrupted after step {}{}\n", steps, saved);
  stop.end();
}

}  // namespace

void train_epochs(const TrainingOptions& options, const std::vector<Device>& devices, TrainingData& data, Module& model, SGD& optimizer,
                  functional::LossFunction loss_function, const TrainStep& step, const Peers& peers) {
  check_outputs(options, peers.rank);
  Progress progress;
  if (!options.resume.empty()) progress = load_checkpoint(options.resume, options, model, optimizer, devices, peers.rank, peers.size);
  DataLoader& loader = data.train_loader();
  TrainingLog log(options, data.train_set().size(), loader.size(), progress.steps, peers.rank, peers.size);
  if (progress.epoch > 0) {
    try {
      loader.resume(progress.pass);  // the position must be one in these data
    } catch (const Error& error) {
      throw DataError("{}: cannot be resumed: {}", options.resume.string(), error.what());
    }
  }
  const bool mid_epoch = progress.epoch > 0 && progress.pass.next_batch < loader.size();
  // Ctrl-C finishes the step and saves. Several processes end at once: their launcher tells them all, and none must wait for another.
  const OrderlyStop stop(peers.size == 1 && !(options.save.empty() && options.loss_csv.empty()));
  for (int epoch = progress.epoch + (mid_epoch ? 0 : 1); epoch <= options.epochs && !log.finished() && !stop.asked(); ++epoch) {
    model.train();
    DataPass pass = mid_epoch && epoch == progress.epoch ? loader.resume(progress.pass) : loader.pass(data.sampler_epoch(epoch));
    for (const Batch& batch : pass) {
      log.step(epoch, pass.batches_done() - 1, batch.size(), step(batch));
      if (log.finished() || stop.asked()) break;
    }
    // Evaluating draws random numbers too (as PyTorch's loader does): in the middle of an epoch the checkpoint must be taken before them,
    // at its end after them.
    const bool complete = pass.batches_done() == loader.size();
    const auto save = [&] {
      if (options.save.empty()) return;
      const std::string mine = generators_state(devices);
      const std::vector<std::string> all = peers.gather ? peers.gather(mine) : std::vector{mine};
      if (peers.rank == 0) save_checkpoint(options.save, options, model, optimizer, {log.steps(), epoch, pass.state()}, devices, all);
    };
    if (!complete) save();
    if (!complete && stop.asked()) break;
    log.test(peers.evaluate ? peers.evaluate() : evaluate(model, data.test_loader(), loss_function, devices[0]));
    if (complete) save();
  }
  check(log.steps() > progress.steps, "nothing is left to train: {} stands at step {}, epoch {}; raise --epochs or --max-steps",
        options.resume.string(), progress.steps, progress.epoch);
  log.finish();
  if (stop.asked()) end_interrupted(stop, options, log.steps());
}

}  // namespace miniddp
