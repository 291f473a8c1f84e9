// What is decided once, before the first rank starts.
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/core/error.h"
#include "common/launch/rank_process.h"

namespace miniddp {

namespace {

// A listening socket on a free port of `address`.
int open_store_socket(const std::string& address, int* port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int code = getaddrinfo(address.c_str(), "0", &hints, &list);
  check(code == 0, "cannot resolve --master-addr {}: {}", address, gai_strerror(code));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  const int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(fd >= 0, "cannot open a socket: {}", std::strerror(errno));
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, 128) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    const int reason = errno;
    close(fd);
    throw Error("cannot listen on {}: {}. --master-addr must be an address of this machine", address,
                std::strerror(reason));
  }
  *port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                            : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
  return fd;
}

int cores_of_this_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace

LaunchPlan make_plan(const LaunchOptions& options) {
  LaunchPlan plan;
  plan.options = options;
  plan.master_port = options.master_port;
  if (options.master_port == 0) plan.store_socket = open_store_socket(options.master_addr, &plan.master_port);

  unsigned char random[8];
  check(getrandom(random, sizeof random, 0) == sizeof random, "cannot read random bytes: {}",
        std::strerror(errno));
  for (unsigned char byte : random) plan.run_id += fmt::format("{:02x}", byte);

  // Without this each rank starts a thread for every core, and every added rank makes all of them slower.
  const char* set_by_user = getenv("OMP_NUM_THREADS");
  if (!set_by_user || !*set_by_user) plan.omp_threads = std::max(1, cores_of_this_process() / options.nproc);
  return plan;
}

}  // namespace miniddp
