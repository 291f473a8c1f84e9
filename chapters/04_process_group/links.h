// One TCP connection between every two ranks: send and receive, which everything else is built on.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "chapters/04_process_group/collective.h"
#include "chapters/04_process_group/store.h"

namespace miniddp {

class Links {
 public:
  /// What arrives. `progress`, if given, is told after each piece how many bytes are there: work on them can
  /// begin.
  struct Incoming {
    std::span<std::byte> bytes;
    std::function<void(size_t received)> progress = {};
    /// What the sender must announce, if it is not what we announce ourselves.
    std::optional<Fingerprint> what = {};
  };

  /// Every rank calls it; addresses are exchanged through `keys`. Throws TimeoutError, naming a rank that did
  /// not come.
  Links(int rank, int size, Store& keys, const std::string& address, const Deadline& deadline);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Sends `out` to one rank and receives `in` from another (perhaps the same) at the same time, so that a
  /// ring of ranks that all send and receive cannot block. Each message begins with the fingerprint of the
  /// operation; a different one from the other side throws Error. Throws DistNetworkError naming the peer,
  /// TimeoutError.
  void exchange(const Fingerprint& what, int to, std::span<const std::byte> out, int from, Incoming in,
                const Deadline& deadline);
  void send(const Fingerprint& what, int to, std::span<const std::byte> out, const Deadline& deadline);
  void receive(const Fingerprint& what, int from, Incoming in, const Deadline& deadline);

  /// Bytes of payload sent so far.
  int64_t bytes_sent() const { return bytes_sent_; }

  /// Closes all connections: a call that waits in another thread, and the other ranks', end with
  /// DistNetworkError.
  void abort();

 private:
  struct Header {
    Fingerprint what;
    uint64_t nbytes;
  };
  class Sending;
  class Receiving;

  int peer_fd(int peer) const { return peers_[static_cast<size_t>(peer)].fd(); }
  void accept_peers(const Socket& listener, const std::string& secret, const Deadline& deadline);

  int rank_;
  int size_;
  std::vector<Socket> peers_;  // by rank; our own place is empty
  std::atomic<bool> aborted_ = false;
  int64_t bytes_sent_ = 0;
};

}  // namespace miniddp
