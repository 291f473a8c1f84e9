// TCP sockets with time limits. Every wait ends at a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "common/core/error.h"

namespace miniddp {

/// A connection that failed: refused, reset, closed by the other side. (A wait that reached its limit is a
/// TimeoutError.)
class DistNetworkError : public Error {
 public:
  using Error::Error;
};

using Milliseconds = std::chrono::milliseconds;

/// A point in time by which something must have happened.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(Milliseconds limit) : limit_(limit), end_(Clock::now() + limit) {}

  bool passed() const { return Clock::now() >= end_; }
  /// What is left, rounded up, at least 0: for poll().
  int left_ms() const;
  /// The whole limit, for messages: "5s", "250ms".
  std::string str() const;

 private:
  Milliseconds limit_;
  Clock::time_point end_;
};

/// "5s", "250ms".
std::string to_string(Milliseconds duration);

/// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket() { close(); }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

/// Listens on host:port (0: any free port) and on no other address. Throws DistNetworkError: the port is
/// taken, or the host is not this machine.
Socket listen_on(const std::string& host, int port);

/// Lets the next listener have the port while connections of this one are still dying away (TIME_WAIT).
void allow_reuse(const Socket& listener);

/// The port that a socket is bound to.
int port_of(int fd);
/// The local address of a connected socket, as digits: on a machine with several networks, the one that leads
/// to the peer.
std::string local_address(int fd);

/// True if both ends of a connection are the same socket. The kernel picks a caller's own port, and may pick the very port that is
/// called: with nobody listening there, the two opening packets meet, which TCP takes for an answer.
bool is_connected_to_itself(int fd);

/// Connects once. Throws DistNetworkError (refused, unreachable, answered by nobody but itself), TimeoutError. Never keeps others from
/// listening on the port it calls. `own_port`: the caller's; 0: the kernel picks one.
Socket connect_once(const std::string& host, int port, const Deadline& deadline, int own_port = 0);

/// Accepts one connection. Throws TimeoutError.
Socket accept_one(const Socket& listener, const Deadline& deadline);

/// Sends or receives all the bytes. Throw DistNetworkError when the other side has gone, TimeoutError.
void send_all(const Socket& socket, std::span<const std::byte> bytes, const Deadline& deadline);
void receive_all(const Socket& socket, std::span<std::byte> bytes, const Deadline& deadline);

/// Non-blocking, no delay for small messages, closed on exec.
void prepare(const Socket& socket);

}  // namespace miniddp
