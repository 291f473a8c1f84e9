// DistributedDataParallel reaches PyTorch's losses on D64 and D256: cases 94 and 96.
#include <sstream>

#include "chapters/04_process_group/init_process_group.h"
#include "chapters/05_distributed_data_parallel/distributed_data_parallel.h"
#include "chapters/05_distributed_data_parallel/distributed_sampler.h"
#include "chapters/05_distributed_data_parallel/evaluate_distributed.h"
#include "common/optim/sgd.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/networks.h"
#include "tests/support/ranks.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

using Series = std::vector<double>;

Series series_of(const std::string& text) {
  std::istringstream stream(text);
  Series values;
  for (double value; stream >> value;) values.push_back(value);
  return values;
}

// Each rank's own losses. `batch_of(step)` are the rows of this rank.
template <class Network, class BatchOf>
std::vector<Series> train(int world, int steps, const Samples& samples, double lr, BatchOf batch_of) {
  const auto texts = run_ranks_all(world, [&](int rank) {
    set_threads_per_device(1);
    const ProcessGroupGuard guard;
    manual_seed(1);
    auto network = std::make_shared<Network>();
    DistributedDataParallel model(network);
    SGD optimizer(model.parameters(), {.lr = lr});
    std::string losses;
    for (int step = 0; step < steps; ++step) {
      const Samples mine = select(samples, batch_of(rank, step));
      optimizer.zero_grad();
      const Tensor loss = functional::cross_entropy(model(mine.images), mine.labels);
      loss.backward();
      optimizer.step();
      losses += fmt::format("{:.9g} ", loss.item<float>());
    }
    return losses;
  });
  std::vector<Series> all;
  for (const std::string& text : texts) all.push_back(series_of(text));
  return all;
}

Series mean_of(const std::vector<Series>& ranks) {
  Series mean(ranks[0].size());
  for (const Series& rank : ranks) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += rank[i] / static_cast<double>(ranks.size());
  }
  return mean;
}


}  // namespace

TEST_CASE("case 94: 2 and 4 ranks with contiguous shards of D64 have the losses of the whole batch") {
  const Samples samples = d64();
  for (int world : {2, 4}) {
    const auto shard = [&](int rank, int) {
      std::vector<int64_t> rows;
      for (int64_t i = 64 / world * rank; i < 64 / world * (rank + 1); ++i) rows.push_back(i);
      return rows;
    };
    const auto mini = train<Mini>(world, 8, samples, 0.1, shard);
    const Comparison result = compare(mean_of(mini), mini_losses, 1e-5, "step");
    INFO("Mini on " << world << " ranks: " << result.message);
    CHECK(result.passed);
    Series first;
    for (const Series& rank : mini) first.push_back(rank[0]);
    const Series expected = world == 2 ? Series{2.314436197, 2.303836346} : Series{2.357525110, 2.271347046, 2.297205448, 2.310467243};
    CHECK(compare(first, expected, 1e-6, "rank").passed);
    const Comparison net = compare(mean_of(train<Net>(world, 8, samples, 0.1, shard)), net_losses, 1e-5, "step");
    INFO("Net on " << world << " ranks: " << net.message);
    CHECK(net.passed);
  }
}

TEST_CASE("case 96: D256 over 2 epochs with a DistributedSampler, on 2 and on 4 ranks") {
  const Samples samples = d256();
  const Series expected{2.310997, 2.296194, 2.294908, 2.271488, 2.322451, 2.290425, 2.326228, 2.349609,
                        2.279211, 2.275492, 2.312023, 2.281564, 2.298109, 2.254700, 2.338693, 2.354723};
  std::vector<Series> curves;
  for (int world : {2, 4}) {
    const auto batch = [&](int rank, int step) {
      const std::vector<int64_t> order = DistributedSampler(256, world, rank).order(step / 8);
      const int64_t size = 32 / world;
      return std::vector<int64_t>(order.begin() + step % 8 * size, order.begin() + (step % 8 + 1) * size);
    };
    curves.push_back(mean_of(train<Mini>(world, 16, samples, 0.1, batch)));
    const Comparison result = compare(curves.back(), expected, 1e-5, "step");
    INFO(world << " ranks: " << result.message);
    CHECK(result.passed);
  }
  const Comparison same = compare(curves[1], curves[0], 1e-6, "step");
  INFO(same.message);
  CHECK(same.passed);
}
