#include "chapters/04_process_group/rendezvous.h"

#include <atomic>
#include <sys/socket.h>

#include <charconv>
#include <cstdlib>

namespace miniddp {

namespace {

constexpr int candidate_ports = 16;

constexpr std::string_view how_to_start =
    " (start all ranks with ./tutorial run NN --nproc N, torchrun, mpirun or srun; or set RANK, WORLD_SIZE, MASTER_ADDR and "
    "MASTER_PORT for each)";

/// Variables, with PyTorch's words for those that are missing or wrong.
class Environment {
 public:
  explicit Environment(const Getenv& getenv)
      : getenv_(getenv ? getenv : [](const char* name) -> const char* { return std::getenv(name); }) {}

  std::optional<std::string> find(const char* name) const {
    const char* value = getenv_(name);
    if (!value || !*value) return std::nullopt;
    return value;
  }
  bool has(const char* name) const { return find(name).has_value(); }

  std::string text(const char* name, std::string_view advice = how_to_start) const {
    const auto value = find(name);
    check(value.has_value(),
          "Error initializing torch.distributed using env:// rendezvous: environment variable {} expected, "
          "but not set{}",
          name, advice);
    return *value;
  }

  int number(const char* name, std::string_view advice = how_to_start) const {
    const std::string value = text(name, advice);
    int result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    check(error == std::errc() && end == value.data() + value.size(),
          "environment variable {}: invalid literal for int() with base 10: '{}'", name, value);
    return result;
  }

  int number_or(const char* name, int fallback) const { return has(name) ? number(name) : fallback; }

 private:
  Getenv getenv_;
};

/// What each launcher calls the same four numbers, and what tells its runs apart.
struct Launcher {
  const char* name;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
  std::vector<const char*> run_id;
};

const std::vector<Launcher>& foreign_launchers() {
  static const std::vector<Launcher> launchers = {
      {"mpirun",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
      {"PMI",
       "PMI_RANK",
       "PMI_SIZE",
       "MPI_LOCALRANKID",
       "MPI_LOCALNRANKS",
       {"PMI_JOB_ID", "PMI_ID_JOB", "HYDRA_JOB_ID"}},
      {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
  };
  return launchers;
}

std::string join_found(const Environment& environment, const std::vector<const char*>& names) {
  std::string joined;
  for (const char* name : names) {
    if (const auto value = environment.find(name)) joined += (joined.empty() ? "" : ".") + *value;
  }
  return joined;
}

// A launcher that gave no port: all ranks compute the same candidates from the run's id (FNV-1a, spread over
// unprivileged ports below those that Linux hands out itself).
std::vector<int> ports_from(const std::string& run_id) {
  uint32_t hash = 2166136261u;
  for (char c : run_id) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  std::vector<int> ports;
  for (int i = 0; i < candidate_ports; ++i)
    ports.push_back(static_cast<int>(10'000 + (hash + static_cast<uint32_t>(i) * 997u) % 20'000));
  return ports;
}

int checked_port(int port) {
  check(port >= 0 && port <= 65535, "port must have value from 0 to 65535 but was {}.", port);
  return port;
}

void check_world_size(const RankInfo& info) {
  check(info.world_size >= 1, "WORLD_SIZE must be at least 1, found {}", info.world_size);
}

// A rank that cannot exist. Tries to tell the others, who would wait for it, then throws.
void refuse_rank(const RankInfo& info, TcpStoreOptions options) {
  options.timeout = std::min(options.timeout, Milliseconds(2000));
  try {
    TcpStore(options).join(info.rank, info.world_size);
  } catch (const Error&) {
    // They refuse it too, or nobody is there.
  }
  check(false, "RANK {} is out of range: with WORLD_SIZE {} ranks go from 0 to {}", info.rank,
        info.world_size, info.world_size - 1);
}

void read_foreign(const Environment& environment, const Launcher& launcher, RankInfo& info) {
  info.launcher = launcher.name;
  info.rank = environment.number(launcher.rank);
  info.world_size = environment.number(launcher.world_size);
  info.local_rank = environment.number_or(launcher.local_rank, 0);
  info.run_id = join_found(environment, launcher.run_id);
  const bool one_machine = std::string_view(launcher.name) == "srun"
                               ? environment.number_or("SLURM_NNODES", 0) == 1
                               : environment.number_or(launcher.local_world_size, 0) == info.world_size;
  const std::string advice = fmt::format(
      " ({} was recognised by {}; it does not say where rank 0 is: export it, for instance with {})",
      launcher.name, launcher.rank,
      std::string_view(launcher.name) == "mpirun" ? "mpirun -x MASTER_ADDR=host" : "export MASTER_ADDR=host");
  if (environment.has("MASTER_ADDR") || !one_machine) {
    info.master_addr = environment.text("MASTER_ADDR", advice);
  } else {
    info.master_addr = "127.0.0.1";
  }
  if (environment.has("MASTER_PORT") || info.run_id.empty()) {
    info.master_ports = {checked_port(environment.number("MASTER_PORT", advice))};
  } else {
    info.master_ports = ports_from(info.run_id);
  }
}

// A socket left by the launcher is used only if it is what it should be: listening, on this port.
int inherited_socket(const Environment& environment, int port) {
  const int fd = environment.number_or("MINIDDP_STORE_FD", -1);
  int listening = 0;
  socklen_t length = sizeof listening;
  if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || !listening) return -1;
  const int bound = port_of(fd);
  return bound == port ? fd : -1;
}

}  // namespace

RankInfo env_rendezvous(int rank, int world_size, const Getenv& getenv) {
  const Environment environment(getenv);
  RankInfo info;
  if (!environment.has("RANK") && !environment.has("WORLD_SIZE") && rank < 0 && world_size < 0) {
    for (const Launcher& launcher : foreign_launchers()) {
      if (!environment.has(launcher.rank) || !environment.has(launcher.world_size)) continue;
      read_foreign(environment, launcher, info);
      check_world_size(info);
      return info;
    }
  }
  info.launcher = "env";
  info.rank = rank >= 0 ? rank : environment.number("RANK");
  info.world_size = world_size >= 0 ? world_size : environment.number("WORLD_SIZE");
  info.local_rank = environment.number_or("LOCAL_RANK", 0);
  info.master_addr = environment.text("MASTER_ADDR");
  const int port = checked_port(environment.number("MASTER_PORT"));
  info.master_ports = {port};
  info.run_id = environment.find("MINIDDP_RUN_ID").value_or("");
  check_world_size(info);
  if (environment.find("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    info.launcher = "torchrun";
    // A restarted run is another run: stragglers of the one before must not get in.
    info.run_id =
        join_found(environment, {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"});
    info.master_ports.clear();
    for (int i = 1; i <= candidate_ports; ++i) info.master_ports.push_back(1 + (port + i - 1) % 65535);
  } else if (info.rank == 0) {
    info.store_fd = inherited_socket(environment, port);
  }
  return info;
}

RankInfo tcp_rendezvous(const std::string& init_method, int rank, int world_size) {
  check(rank >= 0, "tcp:// rendezvous: rank parameter missing");
  check(world_size >= 0, "tcp:// rendezvous: world size parameter missing");
  RankInfo info;
  info.launcher = "tcp";
  info.rank = rank;
  info.world_size = world_size;
  const std::string_view rest = std::string_view(init_method).substr(std::string_view("tcp://").size());
  const size_t colon = rest.rfind(':');
  int port = -1;
  if (colon != std::string_view::npos)
    std::from_chars(rest.data() + colon + 1, rest.data() + rest.size(), port);
  check(colon != std::string_view::npos && colon > 0 && port >= 0, "expected tcp://host:port, found {}",
        init_method);
  info.master_addr = rest.substr(0, colon);
  info.master_ports = {checked_port(port)};
  check_world_size(info);
  return info;
}

std::shared_ptr<TcpStore> rendezvous(const RankInfo& info, Milliseconds timeout) {
  TcpStoreOptions options;
  options.host = info.master_addr;
  options.ports = info.master_ports;
  options.is_server = info.rank == 0;
  options.listening_fd = info.store_fd;
  options.world_size = info.world_size;
  options.timeout = timeout;
  // A second group in the same processes must not meet the first one's store, which may still be closing.
  static std::atomic<int> groups_before = 0;
  options.run_id = fmt::format("{}/{}", info.run_id, groups_before.load());
  if (info.rank < 0 || info.rank >= info.world_size) refuse_rank(info, options);
  auto store = std::make_shared<TcpStore>(options);
  try {
    store->join(info.rank, info.world_size);
    store->wait_all_joined(timeout);
  } catch (...) {
    // The others have the same news already, or hear it from the connection's end.
    store->set_linger(Milliseconds(500));
    throw;
  }
  ++groups_before;
  return store;
}

}  // namespace miniddp
