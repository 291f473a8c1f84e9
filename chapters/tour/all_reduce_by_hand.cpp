// Stage 04 of the tour: chapter 01's training step in N processes, with nothing but chapter 04's process group: a broadcast before the
// first step, an all-reduce after every backward. Chapter 05 makes a module of it. `--break` leaves one thing out.
#include <signal.h>

#include <CLI/CLI.hpp>

#include "chapters/01_single_device/networks.h"
#include "chapters/04_process_group/init_process_group.h"
#include "chapters/05_distributed_data_parallel/distributed_sampler.h"
#include "chapters/05_distributed_data_parallel/evaluate_distributed.h"
#include "chapters/tour/mistakes.h"
#include "common/optim/sgd.h"
#include "common/training/data.h"
#include "common/training/loop.h"
#include "common/training/options.h"

using namespace miniddp;

static int train(int argc, char** argv) {
  TrainingOptions options;
  std::string mistake;
  InitOptions init;
  init.timeout = Milliseconds(60'000);
  CLI::App app("Stage 04 of the tour: trains a small CNN on MNIST with several processes that average their gradients by hand");
  add_training_options(app, options);
  app.add_option("--backend", init.backend, "gloo, or ring (written by hand in chapter 04)")
      ->check(CLI::IsMember({"gloo", "ring"}))
      ->capture_default_str();
  app.add_option("--break", mistake, mistakes_help())->check(CLI::IsMember(mistake_names()));
  parse_command_line(app, options, argc, argv);

  const ProcessGroupGuard guard(init);
  ProcessGroup& group = default_process_group();
  const std::vector<Device> devices = choose_devices(options);
  check<UsageError>(devices.size() == 1 && devices[0].type == DeviceType::cpu, "each process has one device, cpu:0, found --devices {}",
                    options.devices);
  prepare_devices(options, devices);

  // 1. The data: every rank takes each size-th sample, from its own number on.
  TrainingData data(options, [&](int64_t samples, Split split) {
    const int share = mistake == "same-samples" && split == Split::train ? 0 : group.rank();
    return sampler_of_rank(samples, group.size(), share, split);
  });

  // 2. The weights: each rank draws others, so that only the broadcast makes them equal.
  manual_seed(options.seed + static_cast<uint64_t>(group.rank()));
  const std::unique_ptr<Module> network = make_network(options.model, !options.no_dropout);
  for (const Tensor& parameter : network->parameters()) {
    if (mistake != "no-broadcast") group.broadcast(parameter.detach(), 0)->wait();
  }
  const functional::LossFunction loss_function = loss_of(options.model);
  SGD optimizer(network->parameters(), {.lr = options.lr, .momentum = options.momentum});

  // 3. Training: chapter 01's step, and between backward and step the gradients' mean over all ranks.
  const Peers peers{group.rank(), group.size(), [&] {
                      return sum_over_ranks(group, evaluate(*network, data.test_loader(), loss_function, devices[0]), devices[0]);
                    }};
  int64_t steps = 0;
  train_epochs(
      options, devices, data, *network, optimizer, loss_function,
      [&](const Batch& batch) {
        if (mistake == "crash" && group.rank() + 1 == group.size() && ++steps == 3) ::raise(SIGKILL);
        optimizer.zero_grad();
        const Tensor output = (*network)(batch.images);
        const Tensor loss = loss_function(output, batch.labels, Reduction::mean);
        loss.backward();
        for (const auto& [name, parameter] : network->named_parameters()) {
          if (mistake == "no-all-reduce" || (mistake == "drop-bucket" && name.starts_with("fc"))) continue;
          group.all_reduce(parameter.grad(), mistake == "sum" ? ReduceOp::sum : ReduceOp::avg)->wait();
        }
        optimizer.step();
        return mean_over_ranks(group, loss);
      },
      peers);
  return 0;
}

int main(int argc, char** argv) { return run_program(train, argc, argv); }
