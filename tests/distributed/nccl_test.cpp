// The "nccl" backend on as many GPUs as ranks: the emulator's, or real ones. Skipped where there are fewer, since NCCL refuses to share one.
#include <unistd.h>

#include <thread>

#include "chapters/04_process_group/init_process_group.h"
#include "common/core/file.h"
#include "common/kernels/kernels.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/idx_files.h"
#include "tests/support/ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;
using namespace miniddp::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int64_t numel = 1013;

// What rank r puts in: small whole numbers, so that sums are exact in any order, and different everywhere.
float value(int rank, int64_t i) {
  return static_cast<float>(1 + (i * 7 + rank * 3) % 5);
}

// Collects what is wrong, in words; "" if nothing.
class Checker {
 public:
  explicit Checker(ProcessGroup& group) : group_(group), device_{DeviceType::cuda, group.rank()} {}

  Tensor input(int rank) const {
    std::vector<float> values;
    for (int64_t i = 0; i < numel; ++i) values.push_back(value(rank, i));
    return Tensor::from(values, {numel}, device_);
  }
  Tensor mine() const { return input(group_.rank()); }
  std::vector<Tensor> empty() const {
    std::vector<Tensor> tensors;
    for (int rank = 0; rank < group_.size(); ++rank) tensors.push_back(Tensor::zeros({numel}, DType::float32, device_));
    return tensors;
  }
  std::vector<Tensor> all() const {
    std::vector<Tensor> tensors;
    for (int rank = 0; rank < group_.size(); ++rank) tensors.push_back(input((rank + group_.rank()) % group_.size()));
    return tensors;
  }
  void expect(const std::string& what, const Tensor& found, const std::function<float(int64_t)>& expected) {
    const std::vector<float> values = found.to_vector<float>();
    for (int64_t i = 0; i < numel; ++i) {
      if (values[static_cast<size_t>(i)] == expected(i)) continue;
      problems += fmt::format("rank {}: {}: element {} is {}, expected {}\n", group_.rank(), what, i, values[static_cast<size_t>(i)], expected(i));
      return;
    }
  }

  std::string problems;

 private:
  ProcessGroup& group_;
  Device device_;
};

float reduced(ReduceOp op, int world, int64_t i) {
  float result = op == ReduceOp::avg ? 0 : value(0, i);
  for (int rank = op == ReduceOp::avg ? 0 : 1; rank < world; ++rank) {
    const float v = value(rank, i);
    switch (op) {
      case ReduceOp::avg: result += v * static_cast<float>(1.0 / world); break;  // divided before the sum, as gradients are
      case ReduceOp::product: result *= v; break;
      case ReduceOp::min: result = std::min(result, v); break;
      case ReduceOp::max: result = std::max(result, v); break;
      default: result += v;
    }
  }
  return result;
}

std::string every_collective(ProcessGroup& group) {
  Checker check(group);
  const int rank = group.rank(), size = group.size();
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
    Tensor tensor = check.mine();
    group.all_reduce(tensor, op)->wait();
    check.expect(fmt::format("all_reduce({})", name_of(op)), tensor, [&](int64_t i) { return reduced(op, size, i); });
    Tensor part = Tensor::zeros({numel}, DType::float32, tensor.device());
    std::vector<Tensor> inputs = check.all();
    group.reduce_scatter(part, inputs, op)->wait();
    // Rank s gives input(r + s) to rank r: each gets the inputs of all ranks.
    if (op != ReduceOp::avg) check.expect("reduce_scatter", part, [&](int64_t i) { return reduced(op, size, i); });
    check.expect("reduce_scatter's input", inputs[0], [&](int64_t i) { return value(rank, i); });
  }
  for (int root = 0; root < size; ++root) {
    Tensor tensor = check.mine();
    group.broadcast(tensor, root)->wait();
    check.expect("broadcast", tensor, [&](int64_t i) { return value(root, i); });
    tensor = check.mine();
    group.reduce(tensor, root)->wait();
    if (rank == root) check.expect("reduce", tensor, [&](int64_t i) { return reduced(ReduceOp::sum, size, i); });
    std::vector<Tensor> outputs = rank == root ? check.empty() : std::vector<Tensor>{};
    group.gather(outputs, check.mine(), root)->wait();
    for (size_t r = 0; r < outputs.size(); ++r)
      check.expect("gather", outputs[r], [&](int64_t i) { return value(static_cast<int>(r), i); });
    Tensor part = Tensor::zeros({numel}, DType::float32, tensor.device());
    group.scatter(part, rank == root ? check.all() : std::vector<Tensor>{}, root)->wait();
    check.expect("scatter", part, [&](int64_t i) { return value((rank + root) % size, i); });
  }
  std::vector<Tensor> gathered = check.empty();
  group.all_gather(gathered, check.mine())->wait();
  for (int r = 0; r < size; ++r) check.expect("all_gather", gathered[static_cast<size_t>(r)], [&](int64_t i) { return value(r, i); });
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  Tensor from_previous = Tensor::zeros({numel}, DType::float32, gathered[0].device());
  group.exchange(check.mine(), next, from_previous, previous)->wait();
  check.expect("exchange", from_previous, [&](int64_t i) { return value(previous, i); });
  if (rank == 0) group.send(check.mine(), 1)->wait();
  if (rank == 1) {
    group.recv(from_previous, 0)->wait();
    check.expect("recv", from_previous, [&](int64_t i) { return value(0, i); });
  }
  group.barrier()->wait();
  return check.problems;
}

// "" or why these ranks cannot run. The GPUs are counted in the ranks: a process that has used CUDA must not fork.
std::string why_not(int world) {
  const int count = device_count(DeviceType::cuda);
  return count < world ? fmt::format("skip: NCCL needs {} GPUs, found {}", world, count) : "";
}

std::string run_nccl(Milliseconds timeout, int world, const std::function<std::string(ProcessGroup&)>& body) {
  const std::string reason = why_not(world);
  if (!reason.empty()) return reason;
  InitOptions init;
  init.backend = "nccl";
  init.timeout = timeout;
  const ProcessGroupGuard guard(init);
  return body(default_process_group());
}

}  // namespace

#define SKIP_IF_ASKED(text) \
  if ((text).starts_with("skip: ")) SKIP_TEST("NCCL", (text).substr(6))

TEST_CASE("nccl: every collective, 2 ranks") {
  const auto results = run_ranks_all(2, [](int) { return run_nccl(Milliseconds(60'000), 2, every_collective); });
  SKIP_IF_ASKED(results[0]);
  for (const std::string& problems : results) CHECK(problems == "");
}

TEST_CASE("nccl: every collective, 3 ranks") {
  const auto results = run_ranks_all(3, [](int) { return run_nccl(Milliseconds(60'000), 3, every_collective); });
  SKIP_IF_ASKED(results[0]);
  for (const std::string& problems : results) CHECK(problems == "");
}

TEST_CASE("nccl: one rank") {
  const auto results = run_ranks_all(1, [](int) {
    return run_nccl(Milliseconds(60'000), 1, [](ProcessGroup& group) {
      Checker check(group);
      Tensor tensor = check.mine();
      group.all_reduce(tensor, ReduceOp::avg)->wait();
      group.broadcast(tensor, 0)->wait();
      check.expect("one rank", tensor, [](int64_t i) { return value(0, i); });
      group.barrier()->wait();
      return check.problems;
    });
  });
  SKIP_IF_ASKED(results[0]);
  CHECK(results[0] == "");
}

TEST_CASE("nccl: a rank that does not call runs the others into their time limit") {
  const auto outcomes = run_ranks(2, [](int) {
    return run_nccl(Milliseconds(1500), 2, [](ProcessGroup& group) {
      if (group.rank() == 0) {
        group.barrier()->wait();
        return std::string("no error");
      }
      std::this_thread::sleep_for(std::chrono::seconds(4));
      return std::string("slept");
    });
  });
  INFO(describe(outcomes));
  SKIP_IF_ASKED(outcomes[0].text);
  CHECK_FALSE(outcomes[0].returned);
  CHECK_THAT(outcomes[0].text, ContainsSubstring("timed out after 1500ms"));
  CHECK(outcomes[0].seconds < 20);
}

TEST_CASE("nccl: a rank that dies is noticed by the others") {
  const auto outcomes = run_ranks(3, [](int) {
    return run_nccl(Milliseconds(60'000), 3, [](ProcessGroup& group) {
      group.barrier()->wait();
      if (group.rank() == 2) _exit(7);
      group.barrier()->wait();
      return std::string("no error");
    });
  });
  INFO(describe(outcomes));
  SKIP_IF_ASKED(outcomes[0].text);
  for (size_t rank : {0, 1}) {
    CHECK_FALSE(outcomes[rank].returned);
    CHECK_THAT(outcomes[rank].text, ContainsSubstring("rank 2"));
    CHECK(outcomes[rank].seconds < 20);
  }
}

TEST_CASE("nccl: chapter 05 trains as it does with gloo") {
  const auto count = run_ranks_all(1, [](int) { return why_not(2); });
  SKIP_IF_ASKED(count[0]);
  const TemporaryDirectory directory;
  for (const auto& [split, n] : {std::pair{"train", 200u}, std::pair{"t10k", 30u}}) {
    const std::string stem = (directory.path() / split).string();
    write_file(stem + "-images-idx3-ubyte", idx_header({n, 28, 28}) + random_bytes(n * 784));
    write_file(stem + "-labels-idx1-ubyte", idx_header({n}) + random_bytes(n, 10));
  }
  const auto losses = [&](const std::string& backend) {
    const std::string csv = directory.path() / (backend + ".csv");
    const ProgramResult result = run_program(
        {MINIDDP_BINARY_DIR "/bin/launch", "--nproc", "2", "--no-prefix", "--", MINIDDP_BINARY_DIR "/bin/05_distributed_data_parallel",
         "--data", directory.path().string(), "--device", "cuda", "--backend", backend, "--model", "article_a", "--batch-size",
         "13", "--max-steps", "4", "--quiet", "--loss-csv", csv},
        std::chrono::seconds(200));
    if (result.exit_code != 0) throw Error("{}: {}", backend, result.summary());
    return read_loss_csv(csv);
  };
  const Comparison comparison = compare(losses("nccl"), losses("gloo"), 1e-6, "step");
  INFO(comparison.message);
  CHECK(comparison.passed);
}
