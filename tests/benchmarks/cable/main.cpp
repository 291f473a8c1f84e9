// A cable between two network namespaces with a latency and a bandwidth, for kernels without netem: each end is a TUN device, this program
// carries the packets.
//   cable NAMESPACE NAMESPACE MICROSECONDS BITS_PER_SECOND      makes a device `cable` in each, says "ready", ends when its parent does
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr size_t longest_packet = 65536;
constexpr size_t longest_queue = 2000;  // packets; a switch drops what is beyond, TCP sends it again

int check(int result, const std::string& what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), "cable: " + what);
  return result;
}

/// A TUN device named `cable` in a namespace; its descriptor goes on working when this process has left the namespace.
int open_end(const std::string& name) {
  const int place = check(::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC), "namespace " + name);
  check(::setns(place, CLONE_NEWNET), "namespace " + name);
  ::close(place);
  const int fd = check(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strcpy(request.ifr_name, "cable");
  check(::ioctl(fd, TUNSETIFF, &request), "TUN device in " + name);
  return fd;
}

/// One direction: packets leave one after the other at the cable's bandwidth and arrive a latency later.
struct Direction {
  struct Packet {
    Clock::time_point arrival;
    std::vector<char> bytes;
  };
  int from = -1, to = -1;
  std::deque<Packet> under_way;
  Clock::time_point free;  // when the last packet will have left

  void take(nanoseconds latency, double bits_per_second) {
    std::array<char, longest_packet> buffer;
    for (ssize_t n; (n = ::read(from, buffer.data(), buffer.size())) > 0;) {
      if (under_way.size() == longest_queue) continue;
      const nanoseconds on_the_wire(static_cast<int64_t>(double(n) * 8e9 / bits_per_second));
      free = std::max(free, Clock::now()) + on_the_wire;
      under_way.push_back({free + latency, {buffer.data(), buffer.data() + n}});
    }
  }
  void deliver() {
    for (; !under_way.empty() && under_way.front().arrival <= Clock::now(); under_way.pop_front()) {
      const std::vector<char>& bytes = under_way.front().bytes;
      // A device that is down or full drops the packet, as a cable would.
      [[maybe_unused]] const ssize_t written = ::write(to, bytes.data(), bytes.size());
    }
  }
};

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) throw std::runtime_error("usage: cable NAMESPACE NAMESPACE MICROSECONDS BITS_PER_SECOND");
  const std::chrono::microseconds latency(std::stol(arguments[2]));
  const double bits_per_second = std::stod(arguments[3]);
  if (latency.count() < 0 || !(bits_per_second > 0)) throw std::runtime_error("cable: a latency of 0 or more and a bandwidth above 0 expected");
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int a = open_end(arguments[0]), b = open_end(arguments[1]);
  Direction there{a, b, {}, {}}, back{b, a, {}, {}};
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    nanoseconds wait = std::chrono::seconds(1);
    for (const Direction* direction : {&there, &back})
      if (!direction->under_way.empty()) wait = std::min<nanoseconds>(wait, direction->under_way.front().arrival - Clock::now());
    const timespec limit{wait.count() > 0 ? wait.count() / 1'000'000'000 : 0, wait.count() > 0 ? wait.count() % 1'000'000'000 : 0};
    std::array<pollfd, 2> ends{{{a, POLLIN, 0}, {b, POLLIN, 0}}};
    if (::ppoll(ends.data(), ends.size(), &limit, nullptr) < 0 && errno != EINTR) check(-1, "poll");
    for (Direction* direction : {&there, &back}) {
      direction->take(latency, bits_per_second);
      direction->deliver();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
