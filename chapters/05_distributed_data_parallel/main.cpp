// Chapter 05: the same CNN by N processes, in DistributedDataParallel. Start it N times:
//   ./tutorial run 05 --nproc 2
#include <CLI/CLI.hpp>

#include "chapters/01_single_device/networks.h"
#include "chapters/04_process_group/init_process_group.h"
#include "chapters/05_distributed_data_parallel/distributed_data_parallel.h"
#include "chapters/05_distributed_data_parallel/distributed_sampler.h"
#include "chapters/05_distributed_data_parallel/evaluate_distributed.h"
#include "chapters/05_distributed_data_parallel/options.h"
#include "common/optim/sgd.h"
#include "common/training/data.h"
#include "common/training/loop.h"

using namespace miniddp;

static int train(int argc, char** argv) {
  const DistributedOptions options = parse_distributed_options(argc, argv);
  // 1. The other processes. Whoever fails to come is named within the time limit.
  const ProcessGroupGuard guard(options.init);
  ProcessGroup& group = default_process_group();
  const std::vector<Device> devices{device_of_rank(options)};
  const Device device = devices[0];
  if (group.rank() == 0) prepare_devices(options, devices);

  // 2. The data: this rank's share of every epoch, and of the test set.
  TrainingData data(options, [&](int64_t samples, Split split) {
    return sampler_of_rank(samples, group.size(), group.rank(), split, !options.no_shuffle);
  });

  // 3. The model: the wrapper gives all ranks rank 0's weights. Dropout must differ between the ranks.
  manual_seed(options.seed);
  const std::shared_ptr<Module> network = make_network(options.model, !options.no_dropout);
  const functional::LossFunction loss_function = loss_of(options.model);
  network->to(device);
  DistributedDataParallel model(network, options.ddp);
  if (options.compress) model.register_comm_hook(options.compress);
  SGD optimizer(model.parameters(), {.lr = options.lr, .momentum = options.momentum});
  if (group.rank() > 0) manual_seed(options.seed + static_cast<uint64_t>(group.rank()));

  // 4. Training: chapter 01's step, word for word. backward() averages the gradients.
  const Peers peers{group.rank(), group.size(), [&] {
                      return sum_over_ranks(group, evaluate(*network, data.test_loader(), loss_function, device), device);
                    },
                    [&](const std::string& text) { return gather_texts(group, text, device); }};
  train_epochs(
      options, devices, data, model, optimizer, loss_function,
      [&](const Batch& batch) {
        optimizer.zero_grad();
        const Tensor output = model(batch.images.to(device));
        const Tensor loss = loss_function(output, batch.labels.to(device), Reduction::mean);
        loss.backward();
        optimizer.step();
        return mean_over_ranks(group, loss);
      },
      peers);
  model.check_finished();
  return 0;
}

int main(int argc, char** argv) { return run_program(train, argc, argv); }
