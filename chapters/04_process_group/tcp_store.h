// The store over TCP: rank 0 hosts it, everybody (rank 0 too) is a client.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "chapters/04_process_group/store_server.h"

namespace miniddp {

struct TcpStoreOptions {
  /// Where the server listens, and on no other address.
  std::string host = "127.0.0.1";
  /// The port. The server may have several to try, if a launcher left none for it; clients then look for
  /// their run on each. 0 (server only): any free port.
  std::vector<int> ports = {0};
  bool is_server = false;
  /// A listening socket that somebody opened for the server; -1: open one.
  int listening_fd = -1;
  /// For the server: members it expects; 0: none, a bare store.
  int world_size = 0;
  /// Limit of connecting, and of get() and wait() afterwards.
  Milliseconds timeout{60'000};
  /// Only clients with the same id are served, so a run cannot stray into another run's store.
  std::string run_id;
};

class TcpStore : public Store {
 public:
  /// Hosts the server or not, and connects to it. Throws DistNetworkError (the port is taken, at once),
  /// TimeoutError (no server), DistStoreError (something else answers there).
  explicit TcpStore(TcpStoreOptions options);
  /// A member leaves.
  ~TcpStore() override;

  using Store::wait;
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  void wait(const std::vector<std::string>& keys, Milliseconds timeout) override;
  bool check(const std::vector<std::string>& keys) override;
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override;
  bool delete_key(const std::string& key) override;
  int64_t num_keys() override;
  std::shared_ptr<Store> clone() override;

  // --- membership: what the rendezvous and the process group need beyond a dictionary
  // ----------------------------
  /// Becomes a member. Throws DistStoreError at once if the rank is taken or out of range, or world sizes
  /// disagree.
  void join(int rank, int world_size);
  /// Waits until all have joined. Throws TimeoutError listing who joined and who is missing, DistStoreError
  /// if it cannot succeed any more.
  void wait_all_joined(Milliseconds timeout);
  /// Says goodbye; without it the others take the end of this connection for a crash. Does not throw.
  void leave() noexcept;
  /// Tells everybody of a failure. Returns the first failure of the run, perhaps another's.
  std::string report(const std::string& what);
  /// Waits for a failure of the run. Returns it, or "" after `timeout`; `departures`, if given, then says who
  /// has left.
  std::string watch(Milliseconds timeout, std::string* departures = nullptr);
  /// Ends a call that waits in another thread: it throws DistNetworkError. The store is unusable afterwards.
  void interrupt();
  /// For the server: how long it waits for the others to leave (see StoreServer).
  void set_linger(Milliseconds limit);

  const std::string& host() const { return host_; }
  int port() const { return port_; }
  /// The local address that leads to the server: where peers can reach this process.
  std::string local_address() const { return miniddp::local_address(socket_.fd()); }

 private:
  struct Answer {
    store_protocol::Reply reply;
    std::string body;
  };

  void connect(const std::vector<int>& ports, const Deadline& deadline);
  bool try_port(int port, bool several, const Deadline& deadline);
  /// Sends a request and waits for the reply, at most `limit` and a little. Throws DistStoreError on
  /// Reply::error.
  Answer ask(store_protocol::Writer request, Milliseconds limit = Milliseconds(0));
  /// At most `limit` and no longer.
  Answer ask_within(store_protocol::Writer request, Milliseconds limit);

  std::string host_;
  int port_ = 0;
  std::string run_id_;
  std::unique_ptr<StoreServer> server_;  // ends after the connection
  std::mutex mutex_;
  Socket socket_;
  std::atomic<bool> broken_ = false;
  bool joined_ = false;
};

}  // namespace miniddp
