// NCCL with one thread for all GPUs and with one thread a GPU. The same file runs on several real GPUs.
#include <nccl.h>

#include <functional>
#include <thread>

#include "tests/emulator/device_buffer.h"
#include "tests/emulator/nccl_rank.h"
#include "tests/emulator/needs_devices.h"
#include "tests/support/catch.h"

namespace miniddp::testing {
namespace {

constexpr int count = 100003;  // several pieces of a slot, and an uneven rest

/// Ranks 0 … n-1 on devices 0 … n-1 of this process.
std::vector<std::unique_ptr<NcclRank>> make_ranks(int n) {
  std::vector<std::unique_ptr<NcclRank>> ranks;
  for (int r = 0; r < n; ++r) ranks.push_back(std::make_unique<NcclRank>(r, n, count));
  std::vector<ncclComm_t> comms(n);
  REQUIRE(ncclCommInitAll(comms.data(), n, nullptr) == ncclSuccess);
  for (int r = 0; r < n; ++r) ranks[r]->comm = comms[r];
  check(cudaSetDevice(0));
  return ranks;
}

}  // namespace

TEST_CASE("nccl: one thread drives all ranks in a group") {
  NEEDS_DEVICES(3);
  auto ranks = make_ranks(3);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (auto& rank : ranks) REQUIRE(rank->all_reduce() == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (auto& rank : ranks) CHECK(rank->check_all_reduce() == "");
  check(cudaSetDevice(0));
}

TEST_CASE("nccl: one thread for each rank, every collective, send and receive") {
  NEEDS_DEVICES(3);
  auto ranks = make_ranks(3);
  std::vector<std::string> problems(ranks.size());
  std::vector<std::thread> threads;
  for (auto& rank : ranks) threads.emplace_back([&problems, &rank] { problems[rank->rank] = rank->everything(); });
  for (auto& thread : threads) thread.join();
  CHECK(problems == std::vector<std::string>(ranks.size()));
  check(cudaSetDevice(0));
}

TEST_CASE("nccl: results are the same bits on every rank and in every run") {
  NEEDS_DEVICES(2);
  auto ranks = make_ranks(2);
  std::vector<std::vector<float>> results;
  for (int run = 0; run < 2; ++run) {
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (auto& rank : ranks) REQUIRE(rank->all_reduce() == ncclSuccess);
    REQUIRE(ncclGroupEnd() == ncclSuccess);
    for (auto& rank : ranks) results.push_back(rank->received(count));
  }
  for (const auto& result : results) CHECK(result == results[0]);
  check(cudaSetDevice(0));
}

TEST_CASE("nccl: a single rank needs nobody") {
  NEEDS_DEVICES(1);
  auto ranks = make_ranks(1);
  CHECK(ranks[0]->all_reduce() == ncclSuccess);
  CHECK(ranks[0]->check_all_reduce() == "");
}

TEST_CASE("nccl: two ranks on one GPU are refused") {
  NEEDS_DEVICES(1);
  const int same[] = {0, 0};
  ncclComm_t comms[2] = {};
  CHECK(ncclCommInitAll(comms, 2, same) == ncclInvalidUsage);
}

TEST_CASE("nccl: collectives in a captured graph") {
  NEEDS_DEVICES(2);
  auto ranks = make_ranks(2);
  std::vector<std::string> problems(ranks.size());
  std::vector<std::thread> threads;
  for (auto& rank : ranks)
    threads.emplace_back([&problems, &rank] {
      check(cudaSetDevice(rank->rank));
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t exec = nullptr;
      check(cudaStreamBeginCapture(rank->stream, cudaStreamCaptureModeThreadLocal));
      const auto status = rank->all_reduce();
      check(cudaStreamEndCapture(rank->stream, &graph));
      check(cudaGraphInstantiate(&exec, graph, 0));
      for (int i = 0; i < 2; ++i) check(cudaGraphLaunch(exec, rank->stream));
      check(cudaStreamSynchronize(rank->stream));
      problems[rank->rank] = status != ncclSuccess ? ncclGetErrorString(status) : rank->check_all_reduce();
      check(cudaGraphExecDestroy(exec));
      check(cudaGraphDestroy(graph));
    });
  for (auto& thread : threads) thread.join();
  CHECK(problems == std::vector<std::string>(ranks.size()));
  check(cudaSetDevice(0));
}

}  // namespace miniddp::testing
