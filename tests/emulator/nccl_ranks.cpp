// nccl_ranks SCENARIO: ranks that are processes, and mistakes that hang with real NCCL. Exits 0 if what should happen did.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "tests/emulator/nccl_rank.h"

namespace {

using namespace miniddp::testing;

constexpr int ranks = 3;
constexpr int count = 100003;

/// Waits for the stream; what the communicator then says.
ncclResult_t outcome(NcclRank& rank) {
  check(cudaStreamSynchronize(rank.stream));
  ncclResult_t error = ncclSuccess;
  ncclCommGetAsyncError(rank.comm, &error);
  return error;
}

bool received_nan(NcclRank& rank) {
  const auto values = rank.received(10);
  return std::isnan(values[0]) && std::isnan(values[9]);
}

/// One rank's part in a scenario. 0: as it should be.
int play(const std::string& scenario, int r, const ncclUniqueId& id) {
  NcclRank rank(r, ranks, count);
  if (scenario == "a rank never joins") {
    if (r == 2) return 0;
    return ncclCommInitRank(&rank.comm, ranks, id, r) == ncclRemoteError ? 0 : 1;
  }
  if (ncclCommInitRank(&rank.comm, ranks, id, r) != ncclSuccess) return 1;
  if (scenario == "everything") {
    const std::string problem = rank.everything();
    if (!problem.empty()) std::fprintf(stderr, "%s\n", problem.c_str());
    return problem.empty() ? 0 : 1;
  }
  if (scenario == "a rank dies") {
    if (r == 2) _exit(0);  // without a word to the others
    if (rank.all_reduce() != ncclSuccess) return 1;
    return outcome(rank) == ncclRemoteError && received_nan(rank) && rank.all_reduce() == ncclRemoteError ? 0 : 1;
  }
  if (scenario == "a rank never calls") {
    if (r == 2) {
      sleep(6);
      return 0;
    }
    if (rank.all_reduce() != ncclSuccess) return 1;
    return outcome(rank) == ncclRemoteError ? 0 : 1;
  }
  if (scenario == "a rank leaves") {
    if (r == 2) {
      ncclCommDestroy(rank.comm);
      rank.comm = nullptr;
      sleep(2);
      return 0;
    }
    if (rank.all_reduce() != ncclSuccess) return 1;
    return outcome(rank) == ncclRemoteError ? 0 : 1;
  }
  if (scenario == "counts differ") {
    if (ncclAllReduce(rank.send, rank.receive, 10 + r, ncclFloat, ncclSum, rank.comm, rank.stream) != ncclSuccess) return 1;
    return outcome(rank) == ncclInvalidUsage && received_nan(rank) ? 0 : 1;
  }
  if (scenario == "operations differ") {
    const auto status = r == 0 ? ncclBroadcast(rank.send, rank.receive, 10, ncclFloat, 0, rank.comm, rank.stream)
                               : ncclAllReduce(rank.send, rank.receive, 10, ncclFloat, ncclSum, rank.comm, rank.stream);
    if (status != ncclSuccess) return 1;
    return outcome(rank) == ncclInvalidUsage ? 0 : 1;
  }
  if (scenario == "message lengths differ") {
    const auto status = r == 0   ? ncclSend(rank.send, 10, ncclFloat, 1, rank.comm, rank.stream)
                        : r == 1 ? ncclRecv(rank.receive, 11, ncclFloat, 0, rank.comm, rank.stream)
                                 : ncclSuccess;
    if (status != ncclSuccess) return 1;
    return outcome(rank) == ncclInvalidUsage || r != 1 ? 0 : 1;
  }
  if (scenario == "abort") {
    if (r == 2) {
      sleep(5);
      return 0;
    }
    if (rank.all_reduce() != ncclSuccess) return 1;
    if (r == 1) return outcome(rank) == ncclRemoteError ? 0 : 1;  // rank 0's abort releases it
    usleep(200000);
    ncclCommAbort(rank.comm);
    rank.comm = nullptr;
    return cudaStreamSynchronize(rank.stream) == cudaSuccess ? 0 : 1;
  }
  std::fprintf(stderr, "unknown scenario\n");
  return 2;
}

/// One thread that calls for two ranks without a group.
int play_without_group() {
  NcclRank first(0, 2, 10), second(1, 2, 10);
  ncclComm_t comms[2];
  if (ncclCommInitAll(comms, 2, nullptr) != ncclSuccess) return 1;
  first.comm = comms[0];
  second.comm = comms[1];
  check(cudaSetDevice(0));
  if (first.all_reduce() != ncclSuccess) return 1;
  check(cudaSetDevice(1));
  if (second.all_reduce() != ncclInvalidUsage) return 1;
  ncclCommAbort(second.comm);
  second.comm = nullptr;
  return outcome(first) == ncclRemoteError ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string scenario = argv[1];
  if (scenario == "no group") return play_without_group();
  ncclUniqueId id;
  ncclGetUniqueId(&id);  // touches no device: forking afterwards is fine
  pid_t children[ranks];
  for (int r = 0; r < ranks; ++r) {
    children[r] = fork();
    if (children[r] == 0) std::exit(play(scenario, r, id));
  }
  int failed = 0;
  for (int r = 0; r < ranks; ++r) {
    int status = 0;
    waitpid(children[r], &status, 0);
    if (status != 0) {
      std::fprintf(stderr, "rank %d: status %d\n", r, status);
      ++failed;
    }
  }
  return failed ? 1 : 0;
}
