// The variables that torchrun, mpirun, PMI and srun set; ports that they leave, or do not leave, to us.
#include <map>

#include "chapters/04_process_group/init_process_group.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/run_program.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_directory.h"

using namespace miniddp;
using namespace miniddp::testing;

namespace {

using Variables = std::map<std::string, std::string>;

RankInfo read_env(const Variables& variables) {
  return env_rendezvous(-1, -1, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string message_of(const Variables& variables) {
  try {
    read_env(variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const std::string program = MINIDDP_BINARY_DIR "/bin/04_process_group";

}  // namespace

TEST_CASE("rendezvous: mpirun's variables, on one machine without an address or a port") {
  Variables mpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                   {"OMPI_COMM_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                   {"PMIX_NAMESPACE", "1234567"}};
  const RankInfo info = read_env(mpi);
  CHECK(info.launcher == "mpirun");
  CHECK(info.rank == 3);
  CHECK(info.world_size == 4);
  CHECK(info.local_rank == 3);
  CHECK(info.master_addr == "127.0.0.1");
  CHECK(info.run_id == "1234567");
  REQUIRE(info.master_ports.size() == 16);
  // All ranks compute the same ports, another run others.
  mpi["OMPI_COMM_WORLD_RANK"] = "0";
  CHECK(read_env(mpi).master_ports == info.master_ports);
  mpi["PMIX_NAMESPACE"] = "1234568";
  CHECK(read_env(mpi).master_ports != info.master_ports);

  // On several machines somebody must say where rank 0 is.
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  CHECK(
      message_of(mpi).find("environment variable MASTER_ADDR expected, but not set (mpirun was recognised") !=
      std::string::npos);
  mpi["MASTER_ADDR"] = "node7";
  mpi["MASTER_PORT"] = "1234";
  CHECK(read_env(mpi).master_addr == "node7");
  CHECK(read_env(mpi).master_ports == std::vector<int>{1234});
}

TEST_CASE("rendezvous: PMI's and srun's variables, RANK goes before them") {
  const RankInfo pmi = read_env({{"PMI_RANK", "1"},
                                 {"PMI_SIZE", "2"},
                                 {"MPI_LOCALRANKID", "1"},
                                 {"MASTER_ADDR", "a"},
                                 {"MASTER_PORT", "5"}});
  CHECK(pmi.launcher == "PMI");
  CHECK(pmi.rank == 1);
  CHECK(pmi.local_rank == 1);
  CHECK(
      message_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "a"}}).find("MASTER_PORT expected") !=
      std::string::npos);

  Variables slurm = {{"SLURM_PROCID", "5"},  {"SLURM_NTASKS", "8"},  {"SLURM_LOCALID", "1"},
                     {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NNODES", "4"}};
  CHECK(message_of(slurm).find("MASTER_ADDR expected") != std::string::npos);
  slurm["MASTER_ADDR"] = "n1";
  const RankInfo srun = read_env(slurm);
  CHECK(srun.launcher == "srun");
  CHECK(srun.rank == 5);
  CHECK(srun.world_size == 8);
  CHECK(srun.local_rank == 1);
  CHECK(srun.run_id == "77.0");

  slurm.insert({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "9"}});
  CHECK(read_env(slurm).rank == 0);
  CHECK(read_env(slurm).world_size == 2);
}

TEST_CASE("rendezvous: under torchrun the store takes a port behind torchrun's own") {
  // Somebody else's store listens on MASTER_PORT, and somebody sits on the port behind it.
  const Socket theirs = listen_on("127.0.0.1", 0);
  const int port = port_of(theirs.fd());
  Socket behind;
  try {
    behind = listen_on("127.0.0.1", port + 1);
  } catch (const DistNetworkError&) {
    // Taken already: as good.
  }
  const auto results =
      run_ranks_all(2,
                    [](int rank) {
                      unsetenv("MINIDDP_STORE_FD");
                      unsetenv("MINIDDP_RUN_ID");
                      const ProcessGroupGuard guard({.backend = "ring"});
                      Tensor tensor = Tensor::full({1}, rank + 1);
                      default_process_group().all_reduce(tensor)->wait();
                      return fmt::format("{} {}", tensor.item<float>(), local_rank());
                    },
                    std::chrono::seconds(60),
                    {"MASTER_PORT=" + std::to_string(port), "TORCHELASTIC_USE_AGENT_STORE=True",
                     "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=0",
                     "TORCHELASTIC_MAX_RESTARTS=0", "GROUP_RANK=0", "ROLE_RANK=0", "ROLE_WORLD_SIZE=2"});
  CHECK(results[0] == "3 0");
  CHECK(results[1] == "3 1");
}

TEST_CASE("rendezvous: mpirun starts the chapter's program with the same sums") {
  if (run_program({"sh", "-c", "command -v mpirun"}, std::chrono::seconds(10)).exit_code != 0) {
    SKIP_TEST("MPIRUN", "mpirun (package openmpi-bin) is not installed");
  }
  const auto result = run_program(
      {"mpirun", "--oversubscribe", "-n", "2", program, "--numel", "1009", "--repeats", "3"},
      std::chrono::seconds(60),
      {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}, {"OMP_NUM_THREADS", "1"}});
  INFO(result.output << result.summary());
  CHECK(result.exit_code == 0);
  CHECK(result.output.find("I am rank 0 of 2") != std::string::npos);
  CHECK(result.output.find("I am rank 1 of 2") != std::string::npos);
  CHECK(result.output.find("all_reduce   before  2.0   mean   1.5") != std::string::npos);
  CHECK(result.output.find("largest difference of the sums 0.0e+00") != std::string::npos);
}

TEST_CASE("rendezvous: a working torchrun starts the chapter's program") {
  const TemporaryDirectory directory;
  // Debian 13's PyTorch lacks libuv, without which torchrun has no store: there its processes meet in a file. Debian
  // 12's torchrun cannot start anything under that Debian's Python.
  const auto torchrun = [&](bool file, const std::string& processes, const std::vector<std::string>& command) {
    std::vector<std::string> arguments{"torchrun", "--no_python", "--nproc_per_node", processes};
    if (file) {
      arguments.insert(arguments.end(), {"--rdzv-backend", "c10d", "--rdzv-conf", "store_type=file", "--rdzv-id", "1",
                                         "--rdzv-endpoint", (directory.path() / command[0].substr(command[0].rfind('/') + 1)).string()});
    } else {
      arguments.push_back("--standalone");
    }
    arguments.insert(arguments.end(), command.begin(), command.end());
    return run_program(arguments, std::chrono::seconds(90), {{"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", file ? "1" : "0"}});
  };
  const auto starts = [&](bool file) { return torchrun(file, "1", {"true"}).exit_code == 0; };
  const bool store = starts(false);
  if (!store && !starts(true)) SKIP_TEST("TORCHRUN", "torchrun is not installed or cannot start a program");
  const auto result = torchrun(!store, "2", {program, "--numel", "1009"});
  INFO(result.output << result.summary());
  CHECK(result.exit_code == 0);
  CHECK(result.output.find("all_reduce   before  2.0   mean   1.5") != std::string::npos);
}

TEST_CASE("rendezvous: GLOO_SOCKET_IFNAME chooses the interface, and a wrong one is named") {
  const auto works = run_ranks_all(2,
                                   [](int) {
                                     const ProcessGroupGuard guard({.backend = "gloo"});
                                     default_process_group().barrier()->wait();
                                     return std::string("ok");
                                   },
                                   std::chrono::seconds(60), {"GLOO_SOCKET_IFNAME=lo"});
  CHECK(works[0] == "ok");
  const auto fails = run_ranks(1,
                               [](int) {
                                 init_process_group();
                                 return std::string();
                               },
                               std::chrono::seconds(60), {"GLOO_SOCKET_IFNAME=nowhere7"});
  INFO(describe(fails));
  CHECK(fails[0].text.find("nowhere7") != std::string::npos);
  CHECK(fails[0].text.find("lo (127.0.0.1)") != std::string::npos);
}

TEST_CASE("rendezvous: two runs cannot stray into each other") {
  TcpStoreOptions server;
  server.is_server = true;
  server.run_id = "one";
  const TcpStore store(server);
  TcpStoreOptions client;
  client.ports = {store.port()};
  client.run_id = "two";
  client.timeout = Milliseconds(500);
  try {
    TcpStore stray(client);
    FAIL("joined another run's store");
  } catch (const TimeoutError& error) {
    CHECK(std::string(error.what()).find("belongs to another run") != std::string::npos);
  }
}
