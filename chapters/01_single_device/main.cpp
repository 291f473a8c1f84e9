// Chapter 01: the CNN on one device.
#include <CLI/CLI.hpp>

#include "chapters/01_single_device/graphed_step.h"
#include "chapters/01_single_device/networks.h"
#include "chapters/01_single_device/predict.h"
#include "common/optim/sgd.h"
#include "common/training/checkpoint.h"
#include "common/training/data.h"
#include "common/training/loop.h"
#include "common/training/options.h"
#include "common/training/safetensors.h"

using namespace miniddp;

static int train(int argc, char** argv) {
  // 1. What to do.
  TrainingOptions options;
  PredictOptions predict;
  CLI::App app("Chapter 01: trains a small CNN on MNIST, on one device");
  add_training_options(app, options);
  add_predict_options(app, predict);
  bool graph = false;
  app.add_flag("--graph", graph, "Launch the whole training step as one CUDA graph; needs --device cuda");
  parse_command_line(app, options, argc, argv);
  check_predictions(predict, options);

  const std::vector<Device> devices = choose_devices(options);
  check<UsageError>(devices.size() == 1, "chapter 01 uses one device, found --devices {}; chapters 02 and 03 use several", options.devices);
  const Device device = devices[0];
  check<UsageError>(!graph || device.type == DeviceType::cuda, "--graph captures the step of a GPU; it needs --device cuda");
  prepare_devices(options, devices);

  // 2. The data, the network, the optimizer. The seed comes first: the weights are the first random numbers drawn.
  TrainingData data(options);
  manual_seed(options.seed);
  const std::unique_ptr<Module> model = make_network(options.model, !options.no_dropout);
  const functional::LossFunction loss_function = loss_of(options.model);
  model->to(device);
  SGD optimizer(model->parameters(), {.lr = options.lr, .momentum = options.momentum});

  if (predict.asked() && !options.resume.empty()) {  // a trained network is there: only look at pictures
    load_weights(options.resume, read_safetensors(options.resume).tensors, *model);
    run_predictions(predict, *model, data.test_set(), device);
    return 0;
  }

  // 3. Training. A step is forward, loss, backward, step; train_epochs calls it for every batch, logs, evaluates and saves.
  TrainStep step = [&](const Batch& batch) {
    optimizer.zero_grad();
    const Tensor output = (*model)(batch.images.to(device));  // (B, 10)
    const Tensor loss = loss_function(output, batch.labels.to(device), Reduction::mean);
    loss.backward();
    optimizer.step();
    return loss;
  };
  if (graph) step = GraphedStep(step, device);
  train_epochs(options, devices, data, *model, optimizer, loss_function, step);

  // 4. What the network says about pictures.
  run_predictions(predict, *model, data.test_set(), device);
  return 0;
}

int main(int argc, char** argv) { return run_program(train, argc, argv); }
