// One rank of a NCCL test: buffers, every operation and what it must give.
#pragma once

#include <nccl.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/emulator/device_buffer.h"

namespace miniddp::testing {

/// Rank r gives value(r, i) = i % 1000 + 1000 r, small integers, so that sums are exact.
class NcclRank {
 public:
  NcclRank(int rank_, int ranks_, int count_) : rank(rank_), ranks(ranks_), count(count_) {
    check(cudaSetDevice(rank));
    std::vector<float> values(std::size_t(count) * ranks);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(rank, int(i));
    check(cudaMalloc(&send, values.size() * sizeof(float)));
    check(cudaMalloc(&receive, values.size() * sizeof(float)));
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaMemcpy(send, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
  }
  ~NcclRank() {
    cudaSetDevice(rank);
    cudaStreamSynchronize(stream);
    if (comm) ncclCommDestroy(comm);
    cudaStreamDestroy(stream);
    cudaFree(send);
    cudaFree(receive);
  }
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  static float value(int rank, int i) { return float(i % 1000 + 1000 * rank); }
  float total(int i) const {
    float sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value(r, i);
    return sum;
  }

  ncclResult_t all_reduce() { return ncclAllReduce(send, receive, count, ncclFloat, ncclSum, comm, stream); }
  std::string check_all_reduce() {
    return compare("AllReduce", count, [this](int i) { return total(i); });
  }

  std::vector<float> received(int n) {
    std::vector<float> values(n);
    check(cudaSetDevice(rank));
    check(cudaMemcpyAsync(values.data(), receive, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    check(cudaStreamSynchronize(stream));
    return values;
  }

  /// Runs all of them; the first problem in words, or nothing.
  std::string everything() {
    check(cudaSetDevice(rank));
    const std::size_t n = count;
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    struct Step {
      const char* name;
      std::function<ncclResult_t()> run;
      int elements;
      std::function<float(int)> expected;
    };
    const std::vector<Step> steps = {
        {"AllReduce", [&] { return all_reduce(); }, count, [&](int i) { return total(i); }},
        {"AllReduce of the average",
         [&] { return ncclAllReduce(send, receive, n, ncclFloat, ncclAvg, comm, stream); }, count,
         [&](int i) { return total(i) / ranks; }},
        {"AllReduce of the maximum",
         [&] { return ncclAllReduce(send, receive, n, ncclFloat, ncclMax, comm, stream); }, count,
         [&](int i) { return value(ranks - 1, i); }},
        {"ReduceScatter", [&] { return ncclReduceScatter(send, receive, n, ncclFloat, ncclSum, comm, stream); }, count,
         [&](int i) { return total(rank * count + i); }},
        {"AllGather", [&] { return ncclAllGather(send, receive, n, ncclFloat, comm, stream); }, count * ranks,
         [&](int i) { return value(i / count, i % count); }},
        {"Broadcast", [&] { return ncclBroadcast(send, receive, n, ncclFloat, ranks - 1, comm, stream); }, count,
         [&](int i) { return value(ranks - 1, i); }},
        {"Reduce", [&] { return ncclReduce(send, receive, n, ncclFloat, ncclSum, 0, comm, stream); },
         rank == 0 ? count : 0, [&](int i) { return total(i); }},
        {"Send and Recv around the ring",
         [&] {
           ncclGroupStart();
           ncclSend(send, n, ncclFloat, next, comm, stream);
           ncclRecv(receive, n, ncclFloat, before, comm, stream);
           return ncclGroupEnd();
         },
         count, [&](int i) { return value(before, i); }},
        {"nothing", [&] { return ncclAllReduce(send, receive, 0, ncclFloat, ncclSum, comm, stream); }, 0, {}},
    };
    for (const Step& step : steps) {
      if (const auto status = step.run(); status != ncclSuccess)
        return std::string(step.name) + ": " + ncclGetErrorString(status);
      const std::string problem = compare(step.name, step.elements, step.expected);
      if (!problem.empty()) return problem;
    }
    return "";
  }

  const int rank, ranks, count;
  float* send = nullptr;     // (ranks * count)
  float* receive = nullptr;  // (ranks * count)
  cudaStream_t stream = nullptr;
  ncclComm_t comm = nullptr;

 private:
  std::string compare(const char* what, int n, const std::function<float(int)>& expected) {
    const auto found = received(n);
    for (int i = 0; i < n; ++i) {
      const float want = expected(i);
      if (!(std::abs(found[i] - want) <= 1e-6f * std::abs(want)))
        return std::string(what) + ": rank " + std::to_string(rank) + " has " + std::to_string(found[i]) + " at " +
               std::to_string(i) + " instead of " + std::to_string(want);
    }
    return "";
  }
};

}  // namespace miniddp::testing
