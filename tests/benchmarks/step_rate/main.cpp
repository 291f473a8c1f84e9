// Training steps per second of chapter 01's networks, on data that is already in memory. compare_with_pytorch.py runs it beside PyTorch.
// Prints one line of JSON.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "chapters/01_single_device/networks.h"
#include "common/core/generator.h"
#include "common/optim/sgd.h"

using namespace miniddp;
using Clock = std::chrono::steady_clock;

namespace {

struct Options {
  std::string model = "article_b";
  int64_t batch_size = 64;
  int threads = 1;
  double seconds = 2;
  bool no_dropout = false;
};

/// As compare_with_pytorch.py makes them: rand(n, 1, 28, 28), then randint(10, (n)), seed 1234.
constexpr int64_t batch_count = 8;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void measure(const Options& options) {
  set_threads_per_device(options.threads);
  manual_seed(1);
  const std::unique_ptr<Module> network = make_network(options.model, !options.no_dropout);
  const auto loss_function = loss_of(options.model);
  SGD optimizer(network->parameters(), {.lr = 0.01, .momentum = 0.5});

  const int64_t samples = batch_count * options.batch_size;
  Generator generator(1234);
  Tensor images = Tensor::empty({samples, 1, 28, 28}), labels = Tensor::empty({samples}, DType::int64);
  std::generate_n(images.data<float>(), images.numel(), [&] { return generator.rand(); });
  std::generate_n(labels.data<int64_t>(), samples, [&] { return generator.randint(0, 10); });
  const auto batch = [&](const Tensor& all, int64_t step) {
    return all.narrow(step % batch_count * options.batch_size, options.batch_size);
  };

  const auto loss_at = [&](int64_t step) { return loss_function((*network)(batch(images, step)), batch(labels, step), Reduction::mean); };
  network->eval();
  const double first_loss = loss_at(0).item<double>();  // shows that both sides compute the same thing
  network->train();

  const auto run_for = [&](double seconds, int64_t least) {
    int64_t steps = 0;
    const Clock::time_point start = Clock::now();
    for (; steps < least || seconds_since(start) < seconds; ++steps) {
      optimizer.zero_grad();
      const Tensor loss = loss_at(steps);
      loss.backward();
      optimizer.step();
      loss.item<double>();
    }
    return static_cast<double>(steps * options.batch_size) / seconds_since(start);
  };
  run_for(0.3, 5);
  const double rate = run_for(options.seconds, 5);
  std::printf("{\"samples_per_second\": %.1f, \"first_loss\": %.9g}\n", rate, first_loss);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Training steps per second on data in memory");
  app.add_option("--model", options.model)->check(CLI::IsMember({"article_a", "article_b"}));
  app.add_option("--batch-size", options.batch_size)->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds)->check(CLI::PositiveNumber);
  app.add_flag("--no-dropout", options.no_dropout);
  try {
    app.parse(argc, argv);
    measure(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
