// Chapters 02 and 03 reach chapter 01's losses and weights; each of the usual mistakes does not.
#include <compare>
#include <limits>
#include <map>
#include <regex>

#include "chapters/01_single_device/networks.h"
#include "chapters/02_manual_parallel/gather.h"
#include "chapters/02_manual_parallel/parallel_apply.h"
#include "chapters/02_manual_parallel/replicate.h"
#include "chapters/02_manual_parallel/scatter.h"
#include "chapters/03_data_parallel/data_parallel.h"
#include "common/autograd/node.h"
#include "common/core/recorder.h"
#include "common/optim/sgd.h"
#include "common/training/data.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/cpus.h"
#include "tests/support/networks.h"
#include "tests/support/run_program.h"
#include "tests/support/warnings.h"

using namespace miniddp;
using namespace miniddp::testing;
namespace F = miniddp::functional;

namespace {

using Devices = std::vector<Device>;
using Losses = std::vector<double>;

Devices first_of(const Devices& devices, size_t count) { return {devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(count)}; }

/// What a step works with.
struct Setting {
  std::shared_ptr<Module> network;
  F::LossFunction loss;
  Devices devices;
};

/// Forward, loss and backward on one batch; returns the loss.
using Step = std::function<Tensor(const Setting& with, const Batch& batch)>;

// --- the right ones -----------------------------------------------------------------------------------------------

Tensor single_device(const Setting& with, const Batch& batch) {
  const Tensor loss = with.loss((*with.network)(batch.images), batch.labels, Reduction::mean);
  loss.backward();
  return loss;
}

Tensor by_hand(const Setting& with, const Batch& batch) {
  const auto inputs = scatter(batch.images, with.devices);
  const Devices used = first_of(with.devices, inputs.size());
  const Tensor output = gather(parallel_apply(replicate(*with.network, used), inputs, used), used[0]);
  const Tensor loss = with.loss(output, batch.labels.to(used[0]), Reduction::mean);
  loss.backward();
  return loss;
}

Tensor data_parallel(const Setting& with, const Batch& batch) {
  DataParallel model(with.network, with.devices);
  const Tensor loss = with.loss(model(batch.images), batch.labels.to(with.devices[0]), Reduction::mean);
  loss.backward();
  return loss;
}

// --- the usual mistakes -------------------------------------------------------------------------------------------

/// Gradients averaged over the replicas instead of summed.
Tensor averaged(const Setting& with, const Batch& batch) {
  const Tensor loss = by_hand(with, batch);
  const double replicas = static_cast<double>(chunk_sizes(batch.size(), with.devices.size()).size());
  for (const Tensor& parameter : with.network->parameters()) parameter.grad().mul_(1 / replicas);
  return loss;
}

/// Replicas that are copies without a way back (the C++ data_parallel of pytorch#19540).
Tensor cut_off(const Setting& with, const Batch& batch) {
  const auto inputs = scatter(batch.images, with.devices);
  const Devices used = first_of(with.devices, inputs.size());
  Replicas replicas;
  for (Device device : used) {
    replicas.push_back(with.network->clone());
    replicas.back()->visit_slots([&](const std::string&, Tensor& slot, bool) { slot = slot.clone().to(device).detach().set_requires_grad(); });
  }
  const Tensor output = gather(parallel_apply(replicas, inputs, used), used[0]);
  const Tensor loss = with.loss(output, batch.labels, Reduction::mean);
  loss.backward();
  return loss;
}

/// A reduction that leaves out the last device.
Tensor forgets_last_device(const Setting& with, const Batch& batch) {
  const auto inputs = scatter(batch.images, with.devices);
  const Devices used = first_of(with.devices, inputs.size());
  const std::vector<Tensor> originals = with.network->parameters();
  const size_t count = originals.size();
  std::vector<Tensor> copies;
  for (Device device : used) {
    for (const Tensor& original : originals) copies.push_back(original.detach().clone().to(device));
  }
  std::vector<Tensor*> outputs;
  for (Tensor& copy : copies) outputs.push_back(&copy);
  record("ForgetfulBroadcast", used[0], originals, outputs, [count, used](Grads grads) {
    Grads sums(grads.begin(), grads.begin() + static_cast<std::ptrdiff_t>(count));
    for (size_t d = 1; d + 1 < used.size(); ++d) {
      for (size_t i = 0; i < count; ++i) sums[i].add_(grads[d * count + i].to(used[0]));
    }
    return sums;
  });
  Replicas replicas;
  for (size_t d = 0; d < used.size(); ++d) {
    replicas.push_back(with.network->clone());
    size_t next = d * count;
    replicas.back()->visit_slots([&](const std::string&, Tensor& slot, bool) { slot = copies[next++]; });
  }
  const Tensor output = gather(parallel_apply(replicas, inputs, used), used[0]);
  const Tensor loss = with.loss(output, batch.labels, Reduction::mean);
  loss.backward();
  return loss;
}

/// A scatter that leaves out the last chunk if it is smaller than the others.
Tensor drops_partial_chunk(const Setting& with, const Batch& batch) {
  auto inputs = scatter(batch.images, with.devices);
  if (inputs.back().size(0) < inputs.front().size(0)) inputs.pop_back();
  const Devices used = first_of(with.devices, inputs.size());
  const Tensor output = gather(parallel_apply(replicate(*with.network, used), inputs, used), used[0]);
  const Tensor loss = with.loss(output, batch.labels.narrow(0, output.size(0)), Reduction::mean);
  loss.backward();
  return loss;
}

/// The mean of the chunks' mean losses.
Tensor mean_of_means(const Setting& with, const Batch& batch) {
  const auto inputs = scatter(batch.images, with.devices), labels = scatter(batch.labels, with.devices);
  const Devices used = first_of(with.devices, inputs.size());
  const Replicas replicas = replicate(*with.network, used);
  std::vector<Tensor> losses(used.size());
  parallel_for_devices(used, [&](size_t i) { losses[i] = with.loss((*replicas[i])(inputs[i]), labels[i], Reduction::mean); });
  const Tensor loss = F::mean(gather(losses, used[0]));
  loss.backward();
  return loss;
}

// --- running them -------------------------------------------------------------------------------------------------

struct Result {
  Losses losses;
  NamedTensors parameters;
  std::shared_ptr<Module> network;
};

const ImageDataset& mnist(Split split) {
  static const ImageDataset train = load_images(default_data_directory(), Split::train);
  static const ImageDataset test = load_images(default_data_directory(), Split::test);
  return split == Split::train ? train : test;
}

struct Run {
  std::string article;
  int64_t batch_size = 64;
  uint64_t seed = 1;
  int steps = 10;
  DType dtype = DType::float32;

  auto operator<=>(const Run&) const = default;
};

Result train(const Run& run, const Devices& devices, const Step& step) {
  set_threads_per_device(1);
  manual_seed(run.seed);
  Setting with{make_network(run.article, false), loss_of(run.article), devices};
  with.network->to(run.dtype);
  SGD optimizer(with.network->parameters(), {.lr = 0.01, .momentum = 0.5});
  RandomSampler sampler(mnist(Split::train).size());
  DataLoader loader(mnist(Split::train), sampler, {.batch_size = run.batch_size});
  Result result;
  DataPass pass = loader.pass(0);
  for (Batch batch : pass) {
    batch.images = batch.images.to(run.dtype);
    optimizer.zero_grad();
    result.losses.push_back(step(with, batch).item<double>());
    optimizer.step();
    if (pass.batches_done() == run.steps) break;
  }
  result.parameters = with.network->named_parameters();
  result.network = with.network;
  return result;
}

const Result& reference(const Run& run) {
  static std::map<Run, Result> known;
  Result& result = known[run];
  if (result.losses.empty()) result = train(run, cpus(1), single_device);
  return result;
}

Comparison losses_agree(const Result& found, const Result& expected, double tolerance) {
  return compare(found.losses, expected.losses, tolerance, "step");
}

/// The first parameter that differs, or the last one.
Comparison parameters_agree(const Result& found, const Result& expected, double tolerance) {
  Comparison result;
  for (size_t i = 0; i < expected.parameters.size(); ++i) {
    result = compare(found.parameters.at(i).second, expected.parameters[i].second, tolerance);
    result.message = expected.parameters[i].first + ": " + result.message;
    if (!result.passed) break;
  }
  return result;
}

void check_same_training(const Run& run, const Step& step, const std::vector<int>& device_counts, double tolerance) {
  for (const int count : device_counts) {
    INFO(run.article << ", batch " << run.batch_size << ", " << count << " devices");
    const Result found = train(run, cpus(count), step);
    const double allowed = count == 1 ? 0 : tolerance;
    const Comparison losses = losses_agree(found, reference(run), allowed), parameters = parameters_agree(found, reference(run), allowed);
    INFO(losses.message);
    INFO(parameters.message);
    CHECK(losses.passed);
    CHECK(parameters.passed);
  }
}

// Article B with seed 2: with seed 1 and batches of 13 two values in a pooling window are so close that another order of addition lets the
// other one win. A step of that size (5e-6 in the loss) is no error of anybody, and in float64 it does not happen: see below.
const Run article_a{"article_a"}, article_a_uneven{"article_a", 13}, article_b{"article_b", 64, 2}, article_b_uneven{"article_b", 13, 2};

}  // namespace

TEST_CASE("parity: article A by hand on 1 to 7 devices is chapter 01") {
  check_same_training(article_a, by_hand, {1, 2, 3, 4, 7}, 1e-6);
  check_same_training(article_a_uneven, by_hand, {1, 2, 3, 4, 7}, 1e-6);
}

TEST_CASE("parity: article B by hand on 1 to 7 devices is chapter 01") {
  check_same_training(article_b, by_hand, {1, 2, 3, 4, 7}, 1e-6);
  check_same_training(article_b_uneven, by_hand, {1, 2, 3, 4, 7}, 1e-6);
}

TEST_CASE("parity: article A in DataParallel on 1 to 7 devices is chapter 01") {
  check_same_training(article_a, data_parallel, {1, 2, 3, 4, 7}, 1e-6);
  check_same_training(article_a_uneven, data_parallel, {1, 2, 3, 4, 7}, 1e-6);
}

TEST_CASE("parity: article B in DataParallel on 1 to 7 devices is chapter 01") {
  check_same_training(article_b, data_parallel, {1, 2, 3, 4, 7}, 1e-6);
  check_same_training(article_b_uneven, data_parallel, {1, 2, 3, 4, 7}, 1e-6);
}

TEST_CASE("parity: article B in float64, with seed 1 too, is chapter 01 to the twelfth digit") {
  check_same_training({"article_b", 13, 1, 6, DType::float64}, data_parallel, {4}, 1e-12);
}

TEST_CASE("parity: two replicas on one device are as good as one") {
  const Result found = train(article_a_uneven, {cpus(1)[0], cpus(1)[0], cpus(2)[1]}, data_parallel);
  const Comparison losses = losses_agree(found, reference(article_a_uneven), 1e-6);
  INFO(losses.message);
  CHECK(losses.passed);
}

TEST_CASE("parity: runs on several devices repeat bit for bit") {
  const Result once = train(article_a_uneven, cpus(4), data_parallel), again = train(article_a_uneven, cpus(4), by_hand);
  CHECK(losses_agree(once, again, 0).passed);
  CHECK(parameters_agree(once, again, 0).passed);
}

TEST_CASE("parity: a NaN fails, a reference of zeros is refused") {
  const Result& good = reference(article_a_uneven);
  Result broken = good;
  broken.losses[3] = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(losses_agree(broken, good, 1e-6).passed);
  broken.parameters[0].second = good.parameters[0].second.clone();
  broken.parameters[0].second.fill_(std::numeric_limits<double>::quiet_NaN());
  CHECK_FALSE(parameters_agree(broken, good, 1e-6).passed);
  Result zeros = good;
  std::fill(zeros.losses.begin(), zeros.losses.end(), 0.0);
  CHECK_THROWS_AS(losses_agree(zeros, zeros, 1e-6), Error);
}

TEST_CASE("parity, case 93: Mini on 2, 3 and 4 devices") {
  const auto run = [](const Devices& devices) {
    manual_seed(1);
    Mini network;
    const Samples samples = d64();
    SGD optimizer(network.parameters(), {.lr = 0.1});
    DataParallel model(std::make_shared<Mini>(network), devices);
    Result result;
    for (int step = 0; step < 8; ++step) {
      optimizer.zero_grad();
      const Tensor loss = F::cross_entropy(model(samples.images), samples.labels);
      loss.backward();
      optimizer.step();
      result.losses.push_back(loss.item<double>());
    }
    result.parameters = network.named_parameters();
    return result;
  };
  const Result single = run(cpus(1));
  for (const int count : {2, 3, 4}) {
    INFO(count << " devices");
    const Result found = run(cpus(count));
    CHECK(losses_agree(found, single, 1e-6).passed);
    CHECK(parameters_agree(found, single, 1e-6).passed);
  }
}

// --- negative controls --------------------------------------------------------------------------------------------

TEST_CASE("parity: each of the usual mistakes is noticed") {
  const std::vector<std::pair<std::string, Step>> mistakes{{"averaged", averaged},
                                                           {"cut off", cut_off},
                                                           {"forgets the last device", forgets_last_device},
                                                           {"drops a partial chunk", drops_partial_chunk},
                                                           {"mean of means", mean_of_means}};
  const CaughtWarnings warnings;  // mean_of_means gathers scalars
  for (const auto& [name, step] : mistakes) {
    const Result wrong = train(article_a_uneven, cpus(4), step);  // chunks of 4, 4, 4 and 1
    const Comparison losses = losses_agree(wrong, reference(article_a_uneven), 1e-6);
    const Comparison parameters = parameters_agree(wrong, reference(article_a_uneven), 1e-6);
    INFO(name << ": " << losses.message << "; " << parameters.message);
    CHECK_FALSE(losses.passed);
    CHECK_FALSE(parameters.passed);
    CHECK(losses.largest > 1e-4);  // far beyond rounding: no tolerance that is of use would let it through
  }
}

TEST_CASE("parity: replicas without a way back leave the accuracy at chance") {
  const auto accuracy = [](const Step& step) {
    const Result result = train({"article_a", 64, 1, 60}, cpus(3), step);
    const NoGrad no_grad;
    SequentialSampler sampler(1000);
    DataLoader loader(mnist(Split::test), sampler, {.batch_size = 500});
    return static_cast<double>(evaluate(*result.network, loader, F::cross_entropy, Device{}).correct) / 1000;
  };
  CHECK(accuracy(by_hand) > 0.75);
  CHECK(accuracy(cut_off) < 0.25);
}

TEST_CASE("parity, D5: 7 losses of 1 and 6 of 2 make 1.461538 and not 1.5") {
  const std::vector<float> values{1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2};
  const Tensor losses = Tensor::from(values, {13});
  const auto chunks = scatter(losses, cpus(2));
  const CaughtWarnings warnings;
  CHECK(F::mean(gather(chunks, Device{})).item<float>() == Approx(1.461538).epsilon(1e-6));
  CHECK(F::mean(gather(std::vector<Tensor>{F::mean(chunks[0]), F::mean(chunks[1])}, Device{})).item<float>() == 1.5f);
}

// --- what is moved ------------------------------------------------------------------------------------------------

TEST_CASE("parity: the bytes a profile counts are the formula's") {
  for (const std::string article : {"article_a", "article_b"}) {
    for (const auto& [batch_size, count] : std::vector<std::pair<int64_t, int>>{{64, 2}, {64, 7}, {13, 4}, {3, 4}, {64, 1}}) {
      for (const Step& step : {Step(by_hand), Step(data_parallel)}) {
        Profile profile;
        const Result result = train({article, batch_size, 1, 1}, cpus(count), [&](const Setting& with, const Batch& batch) {
          recorder().start();
          const Tensor loss = step(with, batch);
          profile = recorder().take();
          return loss;
        });
        INFO(article << ", batch " << batch_size << ", " << count << " devices");
        const std::vector<int64_t> chunks = chunk_sizes(batch_size, static_cast<size_t>(count));
        const int64_t copies = static_cast<int64_t>(chunks.size()) - 1, elsewhere = batch_size - chunks[0];
        int64_t model = 0;
        for (const auto& [name, parameter] : result.parameters) model += static_cast<int64_t>(parameter.nbytes());
        CHECK(profile.bytes("scatter", "input") == elsewhere * 28 * 28 * 4);
        CHECK(profile.bytes("replicate", "parameters") == model * copies);
        CHECK(profile.bytes("gather", "outputs") == elsewhere * 10 * 4);
        CHECK(profile.bytes("gather backward", "gradients") == elsewhere * 10 * 4);
        CHECK(profile.bytes("reduce", "gradients") == model * copies);
        int64_t total = 0;
        for (const TransferTotal& each : profile.transfers) total += each.bytes;
        CHECK(total == elsewhere * (28 * 28 + 2 * 10) * 4 + 2 * model * copies);
      }
    }
  }
}

// --- whole runs ---------------------------------------------------------------------------------------------------

namespace {

/// The numbers of the log lines: losses of "Train Epoch" lines, then average losses and correct answers of the tests.
struct PrintedLog {
  Losses train, test, correct;
};

PrintedLog run_article_a(const std::string& program, const std::vector<std::string>& more) {
  std::vector<std::string> command{std::string(MINIDDP_BINARY_DIR) + "/bin/" + program, "--model", "article_a", "--device", "cpu"};
  command.insert(command.end(), more.begin(), more.end());
  const ProgramResult result = testing::run_program(command, std::chrono::seconds(280), {{"OMP_WAIT_POLICY", "passive"}});
  INFO(result.summary());
  REQUIRE(result.exit_code == 0);
  PrintedLog log;
  const std::regex train_line(R"(Train Epoch: .*Loss: ([0-9.]+))"), test_line(R"(Test set: Average loss: ([0-9.]+), Accuracy: (\d+)/10000.*)");
  for (const std::string& line : split_lines(result.output)) {
    std::smatch found;
    if (std::regex_match(line, found, train_line)) log.train.push_back(std::stod(found[1]));
    if (std::regex_match(line, found, test_line)) {
      log.test.push_back(std::stod(found[1]));
      log.correct.push_back(std::stod(found[2]));
    }
  }
  return log;
}

}  // namespace

TEST_CASE("parity: two epochs of article A on 4 devices print chapter 01's losses") {
  const PrintedLog single = run_article_a("01_single_device", {"--threads", "1"});
  const PrintedLog parallel = run_article_a("03_data_parallel", {"--devices", "4", "--threads", "4"});
  REQUIRE(single.train.size() == 188);
  REQUIRE(single.test.size() == 2);
  const Comparison train = compare(parallel.train, single.train, 2e-4, "line"), test = compare(parallel.test, single.test, 2e-4, "epoch");
  INFO(train.message);
  INFO(test.message);
  CHECK(train.passed);
  CHECK(test.passed);
  CHECK(compare(parallel.correct, single.correct, 10, "epoch").passed);
}
