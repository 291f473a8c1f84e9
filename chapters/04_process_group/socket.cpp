#include "chapters/04_process_group/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace miniddp {

namespace {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

AddressList resolve(const std::string& host, int port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  check<DistNetworkError>(code == 0, "cannot resolve the host name \"{}\": {}", host, gai_strerror(code));
  return {list, freeaddrinfo};
}

std::string describe_errno(int number) {
  return fmt::format("errno: {} - {}", number, std::strerror(number));
}

// Waits until `events` or an error; false at the deadline.
bool wait_for(int fd, short events, const Deadline& deadline) {
  while (true) {
    pollfd wait = {fd, events, 0};
    const int ready = poll(&wait, 1, deadline.left_ms());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) throw DistNetworkError("poll failed ({})", describe_errno(errno));
  }
}

sockaddr_storage address_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  check<DistNetworkError>(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0,
                          "cannot read a socket's address ({})", describe_errno(errno));
  return address;
}

}  // namespace

int Deadline::left_ms() const {
  const auto left = std::chrono::ceil<Milliseconds>(end_ - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3600 * 1000));
}

std::string Deadline::str() const {
  return to_string(limit_);
}

std::string to_string(Milliseconds duration) {
  if (duration.count() % 1000 == 0) return fmt::format("{}s", duration.count() / 1000);
  return fmt::format("{}ms", duration.count());
}

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void prepare(const Socket& socket) {
  fcntl(socket.fd(), F_SETFL, fcntl(socket.fd(), F_GETFL) | O_NONBLOCK);
  fcntl(socket.fd(), F_SETFD, FD_CLOEXEC);
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // what is left of it must not keep the next run from its port
}

void allow_reuse(const Socket& listener) {
  const int on = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

Socket listen_on(const std::string& host, int port) {
  int reason = 0;
  const AddressList list = resolve(host, port);
  for (const addrinfo* at = list.get(); at; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    allow_reuse(socket);
    if (socket.is_open() && bind(socket.fd(), at->ai_addr, at->ai_addrlen) == 0 &&
        listen(socket.fd(), 512) == 0)
      return socket;
    reason = errno;
  }
  const char* advice =
      reason == EADDRINUSE
          ? "another program, perhaps another run, uses this port: choose another MASTER_PORT"
      : reason == EADDRNOTAVAIL
          ? "this is not an address of this machine: MASTER_ADDR must name the machine of rank 0"
          : "check MASTER_ADDR and MASTER_PORT";
  throw DistNetworkError("The server socket has failed to listen on {}:{} ({}); {}", host, port,
                         describe_errno(reason), advice);
}

int port_of(int fd) {
  const sockaddr_storage address = address_of(fd);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string local_address(int fd) {
  const sockaddr_storage address = address_of(fd);
  char text[NI_MAXHOST];
  const int code = getnameinfo(reinterpret_cast<const sockaddr*>(&address), sizeof address, text, sizeof text,
                               nullptr, 0, NI_NUMERICHOST);
  check<DistNetworkError>(code == 0, "cannot write a socket's address: {}", gai_strerror(code));
  return text;
}

bool is_connected_to_itself(int fd) {
  const sockaddr_storage own = address_of(fd);
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return false;  // not connected any more
  return std::memcmp(&own, &peer, length) == 0;
}

Socket connect_once(const std::string& host, int port, const Deadline& deadline, int own_port) {
  int reason = 0;
  const AddressList list = resolve(host, port);
  for (const addrinfo* at = list.get(); at; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    check<DistNetworkError>(socket.is_open(), "cannot open a socket ({})", describe_errno(errno));
    // If our own port happens to be the one we call, whoever wants to listen there still can.
    const int on = 1;
    setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (own_port != 0) {
      sockaddr_storage own{};
      own.ss_family = static_cast<sa_family_t>(at->ai_family);  // any address
      (at->ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port : reinterpret_cast<sockaddr_in&>(own).sin_port) =
          htons(static_cast<uint16_t>(own_port));
      if (bind(socket.fd(), reinterpret_cast<sockaddr*>(&own), at->ai_addrlen) != 0) {
        reason = errno;
        continue;
      }
    }
    if (connect(socket.fd(), at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) {
      reason = errno;
      continue;
    }
    check<TimeoutError>(wait_for(socket.fd(), POLLOUT, deadline), "no answer from {}:{} within {}", host,
                        port, deadline.str());
    socklen_t length = sizeof reason;
    getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &reason, &length);
    if (reason != 0) continue;
    if (is_connected_to_itself(socket.fd())) {
      const linger at_once{1, 0};  // reset: the usual farewell would hold the port for a minute
      setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      reason = ECONNREFUSED;
      continue;
    }
    prepare(socket);
    return socket;
  }
  throw DistNetworkError("cannot connect to {}:{} ({})", host, port, describe_errno(reason));
}

Socket accept_one(const Socket& listener, const Deadline& deadline) {
  while (wait_for(listener.fd(), POLLIN, deadline)) {
    Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) continue;  // the caller went away again
    prepare(socket);
    return socket;
  }
  throw TimeoutError("nobody connected within {}", deadline.str());
}

void send_all(const Socket& socket, std::span<const std::byte> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      check<TimeoutError>(wait_for(socket.fd(), POLLOUT, deadline), "could not send within {}",
                          deadline.str());
    } else if (errno != EINTR) {
      throw DistNetworkError("the connection was lost ({})", describe_errno(errno));
    }
  }
}

void receive_all(const Socket& socket, std::span<std::byte> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t got = recv(socket.fd(), bytes.data(), bytes.size(), 0);
    check<DistNetworkError>(got != 0, "the connection was closed by the other side");
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (errno == EAGAIN) {
      check<TimeoutError>(wait_for(socket.fd(), POLLIN, deadline), "no answer within {}", deadline.str());
    } else if (errno != EINTR) {
      throw DistNetworkError("the connection was lost ({})", describe_errno(errno));
    }
  }
}

}  // namespace miniddp
