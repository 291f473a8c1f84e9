// Rendezvous: how N processes that know nothing of each other become ranks 0 … N-1 with a common store.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/04_process_group/tcp_store.h"

namespace miniddp {

/// What a process knows at its start.
struct RankInfo {
  int rank = 0;
  int world_size = 1;
  /// Its number on its machine, to choose a GPU by.
  int local_rank = 0;
  std::string master_addr;
  /// One port, or several to try (see env_rendezvous).
  std::vector<int> master_ports;
  /// The same for all ranks of a run and no other; may be empty.
  std::string run_id;
  /// An open socket for rank 0's store that the launcher handed over; -1: none.
  int store_fd = -1;
  /// Who set the variables: "env", "torchrun", "mpirun", "PMI", "srun".
  std::string launcher;
};

/// Reads an environment variable; nullptr if unset. Tests give their own.
using Getenv = std::function<const char*(const char*)>;

/// Reads `env://`: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; `rank` and `world_size` go before the
/// variables unless they are -1. Without RANK and WORLD_SIZE it takes OMPI_COMM_WORLD_* (mpirun), PMI_*
/// (MPICH, Intel MPI) or SLURM_* (srun).
///
/// Two launchers leave rank 0's store no port of its own. torchrun keeps MASTER_PORT for its own store, whose
/// protocol is PyTorch's private matter (TORCHELASTIC_USE_AGENT_STORE says so): then the ports behind it are
/// tried. mpirun and srun on one machine set no port at all: then the run's id chooses some. In both cases
/// rank 0 takes the first that is free, and the others find their run by its id.
///
/// Throws Error with PyTorch's message for a missing or wrong variable; an empty one counts as missing.
RankInfo env_rendezvous(int rank = -1, int world_size = -1, const Getenv& getenv = nullptr);

/// `tcp://host:port`; rank and world size must be given.
RankInfo tcp_rendezvous(const std::string& init_method, int rank, int world_size);

/// Builds the store (rank 0 hosts it), joins and waits for all. Throws within about `timeout`: TimeoutError
/// that lists who joined, DistStoreError at once for a duplicate or out-of-range rank, disagreeing world
/// sizes or a rank that died meanwhile; DistNetworkError at once for a port that is taken.
std::shared_ptr<TcpStore> rendezvous(const RankInfo& info, Milliseconds timeout);

}  // namespace miniddp
