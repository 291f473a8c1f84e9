// What a backend for host memory must do. A HostProcessGroup calls it from one thread, one operation after
// another.
#pragma once

#include <memory>
#include <string>

#include "chapters/04_process_group/collective.h"
#include "chapters/04_process_group/tcp_store.h"

namespace miniddp {

class HostBackend {
 public:
  virtual ~HostBackend() = default;

  virtual std::string name() const = 0;
  /// Runs a collective whose tensors are in host memory, and returns the bytes of payload this rank sent.
  /// Compares fingerprints before it moves data. Throws TimeoutError at the deadline, DistNetworkError if a
  /// connection was lost or abort() was called, Error for a mismatch. After an exception run() is not called
  /// again.
  virtual int64_t run(const Collective& collective, const Deadline& deadline) = 0;
  /// Ends a run() that waits in another thread, and closes the connections so that the other ranks notice.
  /// May be called at any time.
  virtual void abort() = 0;
};

/// Where this process can be reached by its peers: the address of the network interface GLOO_SOCKET_IFNAME,
/// if it is set; else the local address that leads to the store (a loopback address when all is on one
/// machine).
std::string address_for_peers(const TcpStore& store);

/// Every rank of the group calls it; the ranks find each other through `keys`. Throw DistBackendError when
/// the build lacks the backend.
std::unique_ptr<HostBackend> make_ring_backend(int rank, int size, Store& keys, const std::string& address,
                                               const Deadline& deadline);
std::unique_ptr<HostBackend> make_gloo_backend(int rank, int size, Store& keys, const std::string& address,
                                               Milliseconds timeout);

}  // namespace miniddp
