// The server behind a TcpStore: one thread, one poll loop, any number of clients.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "chapters/04_process_group/membership.h"
#include "chapters/04_process_group/store_protocol.h"

namespace miniddp {

/// Nobody can make it wait: sockets never block, strangers are dropped after a few seconds, and a blocked get
/// is only a note about whom to answer later.
class StoreServer {
 public:
  /// Serves clients of the same run id on a listening socket.
  StoreServer(Socket listener, int world_size, std::string run_id);
  /// Stays until all other members have left, at most the time of set_linger(); then closes every connection.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const { return port_; }
  /// Default 5 s: rank 0 may be the first to finish, while others still have a question.
  void set_linger(Milliseconds limit) { linger_ms_ = limit.count(); }

 private:
  using Clock = Deadline::Clock;

  /// A request that is answered later.
  struct Pending {
    store_protocol::Request request;
    std::vector<std::string> keys;
    Clock::time_point limit;
  };
  struct Connection {
    Socket socket;
    std::string in = {}, out = {};
    bool greeted = false;
    int rank = -1;  // of a member
    std::optional<Pending> pending = {};
    std::optional<Clock::time_point> impatient_at = {};  // when a stranger or half a message is dropped
  };

  void run();
  int poll_ms() const;
  void accept_clients();
  /// Each returns false if the connection is to be dropped.
  bool receive(Connection& connection);
  bool greet(Connection& connection);
  bool handle_messages(Connection& connection);
  bool flush(Connection& connection);

  void handle(Connection& connection, store_protocol::Reader message);
  void handle_member(Connection& connection, store_protocol::Request request,
                     store_protocol::Reader& message);
  int64_t add(const std::string& key, int64_t amount);
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);
  bool has_all(const std::vector<std::string>& keys) const;
  void answer_text(Connection& connection, store_protocol::Reply reply, std::string_view text);
  /// Answers the pending request if its time has come.
  void settle(Connection& connection);
  /// The answer to a get or a wait: ok, with the value of a get; timeout, with the names of the missing keys, if
  /// it is late; none as long as there is time.
  std::optional<std::pair<store_protocol::Reply, std::string>> settle_keys(const Pending& pending, bool late);
  void drop(Connection& connection);

  Socket listener_;
  Socket wake_;  // eventfd: the destructor's knock
  int port_;
  std::string run_id_;
  Membership members_;
  std::map<std::string, std::string> values_;
  std::list<Connection> connections_;
  std::atomic<int64_t> linger_ms_ = 5000;
  std::thread thread_;
};

}  // namespace miniddp
