// Chapter 02: the same CNN on several devices, by hand.
#include "chapters/01_single_device/networks.h"
#include "chapters/02_manual_parallel/gather.h"
#include "chapters/02_manual_parallel/parallel_apply.h"
#include "chapters/02_manual_parallel/replicate.h"
#include "chapters/02_manual_parallel/scatter.h"
#include "common/optim/sgd.h"
#include "common/training/data.h"
#include "common/training/loop.h"
#include "common/training/options.h"

using namespace miniddp;

static int train(int argc, char** argv) {
  const TrainingOptions options =
      parse_training_options("Chapter 02: trains a small CNN on MNIST, on several devices, by hand [--devices 2]", argc, argv);
  const std::vector<Device> devices = choose_devices(options, 2);
  const Device first = devices[0];
  prepare_devices(options, devices);

  TrainingData data(options);
  manual_seed(options.seed);
  const std::unique_ptr<Module> model = make_network(options.model, !options.no_dropout);
  const functional::LossFunction loss_function = loss_of(options.model);
  model->to(first);
  SGD optimizer(model->parameters(), {.lr = options.lr, .momentum = options.momentum});

  train_epochs(options, devices, data, *model, optimizer, loss_function, [&](const Batch& batch) {
    optimizer.zero_grad();

    // 1. Scatter: chunk i of the batch goes to device i. A small batch may make fewer chunks than there are devices.
    const std::vector<Tensor> inputs = scatter(batch.images, devices);  // (ceil(B/D), 1, 28, 28) each
    const std::vector<Device> used(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(inputs.size()));

    // 2. Replicate: a copy of the network for each chunk.
    const Replicas replicas = replicate(*model, used);

    // 3. Parallel apply: every copy works on its chunk, at the same time.
    const std::vector<Tensor> outputs = parallel_apply(replicas, inputs, used);  // (ceil(B/D), 10) each

    // 4. Gather: all outputs on the first device, in the order of the samples.
    const Tensor output = gather(outputs, first);  // (B, 10)

    // One loss over the whole batch. Its backward goes through gather, the replicas and replicate, all recorded, and leaves the sum of
    // the replicas' gradients in the one model that the optimizer knows.
    const Tensor loss = loss_function(output, batch.labels.to(first), Reduction::mean);
    loss.backward();
    optimizer.step();
    return loss;
  });
  return 0;
}

int main(int argc, char** argv) { return run_program(train, argc, argv); }
