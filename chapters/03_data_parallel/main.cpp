// Chapter 03: the same CNN in DataParallel. Beside chapter 01, two lines of the training changed.
#include "chapters/01_single_device/networks.h"
#include "chapters/03_data_parallel/data_parallel.h"
#include "common/optim/sgd.h"
#include "common/training/data.h"
#include "common/training/loop.h"
#include "common/training/options.h"

using namespace miniddp;

static int train(int argc, char** argv) {
  const TrainingOptions options =
      parse_training_options("Chapter 03: trains a small CNN on MNIST, on several devices, in DataParallel [--devices 2]", argc, argv);
  const std::vector<Device> devices = choose_devices(options, 2);
  const Device first = devices[0];
  prepare_devices(options, devices);

  TrainingData data(options);
  manual_seed(options.seed);
  const std::shared_ptr<Module> network = make_network(options.model, !options.no_dropout);
  const functional::LossFunction loss_function = loss_of(options.model);
  network->to(first);
  DataParallel model(network, devices);  // the first line
  SGD optimizer(model.parameters(), {.lr = options.lr, .momentum = options.momentum});

  train_epochs(options, devices, data, model, optimizer, loss_function, [&](const Batch& batch) {
    optimizer.zero_grad();
    const Tensor output = model(batch.images);  // the second: DataParallel takes the whole batch and moves it. (B, 10), on `first`
    const Tensor loss = loss_function(output, batch.labels.to(first), Reduction::mean);
    loss.backward();
    optimizer.step();
    return loss;
  });
  return 0;
}

int main(int argc, char** argv) { return run_program(train, argc, argv); }
