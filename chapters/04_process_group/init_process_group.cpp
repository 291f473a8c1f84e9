#include "chapters/04_process_group/init_process_group.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>

#include <cstdio>
#include <cstdlib>
#include <future>

#include "chapters/04_process_group/host_process_group.h"
#include "chapters/04_process_group/nccl.h"
#include "common/core/console.h"

namespace miniddp {

namespace {

struct DefaultGroup {
  RankInfo info;
  InitOptions options;
  DebugLevel debug = DebugLevel::off;
  std::shared_ptr<TcpStore> store;
  std::shared_ptr<ProcessGroup> group;
  int groups = 0;
};

DefaultGroup& state() {
  static DefaultGroup group;
  return group;
}

void check_backend(const std::string& backend) {
  check(backend == "gloo" || backend == "ring" || backend == "nccl",
        "Invalid backend: '{}'; there are gloo, ring and nccl", backend);
}

// Makes a backend, which connects the ranks, while listening for news: a rank that dies meanwhile must not make the others
// wait out their limit.
template <class Make>
auto make_watched(const std::string& backend, const DefaultGroup& state, Make make) {
  using Made = decltype(make());
  const Milliseconds limit = state.options.rendezvous_timeout;
  std::promise<Made> promise;
  auto made = promise.get_future();
  std::thread thread(
      [make](std::promise<Made> result) {
        try {
          result.set_value(make());
        } catch (...) {
          result.set_exception(std::current_exception());
        }
      },
      std::move(promise));
  const Deadline deadline(limit);
  std::string failure;
  while (failure.empty() && made.wait_for(Milliseconds(0)) != std::future_status::ready) {
    try {
      failure = state.store->watch(Milliseconds(20));
    } catch (const Error& error) {
      failure = error.what();
    }
    if (failure.empty() && deadline.passed()) failure = "not all ranks connected in time";
  }
  if (failure.empty()) {
    thread.join();
    try {
      return made.get();
    } catch (const std::exception& error) {
      // The others wait for us: they shall hear why we do not come.
      state.store->report(fmt::format("rank {} could not connect: {}", state.info.rank, error.what()));
      throw;
    }
  }
  thread.detach();  // it holds all it needs, and ends with its own limit
  throw DistBackendError("{}: could not connect rank {} with the others within {}: {}", backend, state.info.rank,
                         to_string(limit), failure);
}

std::shared_ptr<ProcessGroup> make_group(const std::string& backend) {
  DefaultGroup& all = state();
  const int rank = all.info.rank, size = all.info.world_size;
  const std::string prefix = fmt::format("group/{}", all.groups);
  const auto keys = std::make_shared<PrefixStore>(prefix, all.store->clone());
  std::shared_ptr<ProcessGroup> group;
  if (backend == "nccl") {
    const Device device{DeviceType::cuda, all.info.local_rank};
    group = make_watched(backend, all, [=, store = all.store] { return make_nccl_group(rank, size, device, store, keys); });
  } else {
    const auto make = [=, address = address_for_peers(*all.store), limits = all.options] {
      if (backend == "gloo") return make_gloo_backend(rank, size, *keys, address, limits.timeout);
      return make_ring_backend(rank, size, *keys, address, Deadline(limits.rendezvous_timeout));
    };
    auto connected = make_watched(backend, all, make);
    group = std::make_shared<HostProcessGroup>(rank, size, all.store, keys, std::move(connected), all.debug);
  }
  group->set_timeout(all.options.timeout);
  ++all.groups;
  return group;
}

}  // namespace

ProcessGroup& init_process_group(const InitOptions& options) {
  check(!is_initialized(), "trying to initialize the default process group twice!");
  check_backend(options.backend);
  DefaultGroup& all = state();
  all = DefaultGroup{};
  all.options = options;
  all.debug = debug_level();
  if (options.init_method.starts_with("tcp://")) {
    all.info = tcp_rendezvous(options.init_method, options.rank, options.world_size);
  } else {
    check(options.init_method == "env://",
          "No rendezvous handler for {}; there are env:// and tcp://host:port", options.init_method);
    all.info = env_rendezvous(options.rank, options.world_size);
  }
  if (all.info.store_fd >= 0) unsetenv("MINIDDP_STORE_FD");  // it is the store's now
  try {
    all.store = rendezvous(all.info, options.rendezvous_timeout);
    if (all.debug != DebugLevel::off) {
      print_errors("miniddp: rank {} of {} ({}), local rank {}, backend {}, store {}:{}, address {}\n",
                 all.info.rank, all.info.world_size, all.info.launcher, all.info.local_rank, options.backend,
                 all.store->host(), all.store->port(), address_for_peers(*all.store));
    }
    all.group = make_group(options.backend);
  } catch (...) {
    all = DefaultGroup{};
    throw;
  }
  return *all.group;
}

bool is_initialized() {
  return state().group != nullptr;
}

ProcessGroup& default_process_group() {
  check(is_initialized(),
        "Default process group has not been initialized, please make sure to call init_process_group.");
  return *state().group;
}

int local_rank() {
  default_process_group();
  return state().info.local_rank;
}

std::shared_ptr<ProcessGroup> new_group(const std::string& backend) {
  default_process_group();
  check_backend(backend);
  return make_group(backend);
}

void destroy_process_group() {
  state() = DefaultGroup{};
}

std::string address_for_peers(const TcpStore& store) {
  const char* name = std::getenv("GLOO_SOCKET_IFNAME");
  if (!name || !*name) return store.local_address();
  ifaddrs* list = nullptr;
  check(getifaddrs(&list) == 0, "cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::string known;
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
      continue;
    const socklen_t length = at->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST];
    if (getnameinfo(at->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (std::string_view(at->ifa_name) == name) return text;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", at->ifa_name, text);
  }
  throw Error("GLOO_SOCKET_IFNAME names the network interface {}, which has no address; there are {}", name,
              known);
}

}  // namespace miniddp
