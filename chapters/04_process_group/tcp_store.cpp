#include "chapters/04_process_group/tcp_store.h"

#include <sys/socket.h>

#include <algorithm>
#include <thread>

namespace miniddp {

using namespace store_protocol;

namespace {

// Beyond a request's own limit: the server answers late waits itself, so only a dead server needs this.
constexpr Milliseconds slack{10'000};
// Of news and farewells, which a rank sends when something has gone wrong: the network, perhaps.
constexpr Milliseconds short_slack{2000};

Writer start(Request request) {
  Writer writer;
  writer.u8(static_cast<uint8_t>(request));
  return writer;
}

Writer& put_keys(Writer& writer, const std::vector<std::string>& keys) {
  writer.u32(static_cast<uint32_t>(keys.size()));
  for (const std::string& key : keys) writer.text(key);
  return writer;
}

Socket open_listener(const TcpStoreOptions& options) {
  if (options.listening_fd >= 0) {
    Socket inherited(options.listening_fd);
    allow_reuse(inherited);  // whoever opened it may not have; connections take this over from it
    return inherited;
  }
  for (size_t i = 0;; ++i) {
    try {
      return listen_on(options.host, options.ports[i]);
    } catch (const DistNetworkError&) {
      if (i + 1 == options.ports.size()) throw;  // none of them is free
    }
  }
}

}  // namespace

TcpStore::TcpStore(TcpStoreOptions options) : host_(options.host), run_id_(options.run_id) {
  set_timeout(options.timeout);
  if (options.is_server) {
    server_ = std::make_unique<StoreServer>(open_listener(options), options.world_size, options.run_id);
    options.ports = {server_->port()};
  }
  connect(options.ports, Deadline(options.timeout));
}

TcpStore::~TcpStore() {
  if (joined_) leave();
}

void TcpStore::connect(const std::vector<int>& ports, const Deadline& deadline) {
  std::string last_error;
  // The server may start later than we do.
  for (Milliseconds pause(5); !deadline.passed(); pause = std::min(pause * 2, Milliseconds(100))) {
    for (int port : ports) {
      try {
        if (try_port(port, ports.size() > 1, deadline)) return;
      } catch (const DistNetworkError& error) {
        last_error = error.what();
      } catch (const TimeoutError& error) {
        last_error = error.what();
      }
    }
    std::this_thread::sleep_for(std::min(pause, Milliseconds(deadline.left_ms())));
  }
  throw TimeoutError(
      "The client socket has timed out after {} while trying to connect to ({}, {}): {}. Is rank 0 running, "
      "with the same MASTER_ADDR and "
      "MASTER_PORT, and can this machine reach it?",
      deadline.str(), host_, ports.front(), last_error);
}

bool TcpStore::try_port(int port, bool several, const Deadline& deadline) {
  // A silent listener must not use up the whole time: another candidate, or another attempt, may do better.
  const Milliseconds most = several ? Milliseconds(1000) : patience;
  const Deadline attempt(std::min(most, Milliseconds(std::max(1, deadline.left_ms()))));
  Socket socket = connect_once(host_, port, attempt);
  const std::string hello = greeting(run_id_);
  send_all(socket, std::as_bytes(std::span(hello)), attempt);
  std::string reply(magic.size() + 1, '\0');
  receive_all(socket, std::as_writable_bytes(std::span(reply)), attempt);
  if (!reply.starts_with(magic))
    throw DistNetworkError("something answers there, but it is not a miniddp store");
  if (static_cast<Greeting>(reply.back()) != Greeting::welcome)
    throw DistNetworkError("the store there belongs to another run");
  socket_ = std::move(socket);
  port_ = port;
  return true;
}

TcpStore::Answer TcpStore::ask(Writer request, Milliseconds limit) {
  return ask_within(std::move(request), limit + slack);
}

TcpStore::Answer TcpStore::ask_within(Writer request, Milliseconds limit) {
  const std::string bytes = request.finish();
  const std::lock_guard lock(mutex_);
  try {
    miniddp::check<DistNetworkError>(!broken_, "the connection was given up");
    const Deadline deadline(limit);
    send_all(socket_, std::as_bytes(std::span(bytes)), deadline);
    std::string head(4, '\0');
    receive_all(socket_, std::as_writable_bytes(std::span(head)), deadline);
    const uint32_t length = message_length(head);
    miniddp::check<DistStoreError>(length > 0 && length <= longest_message,
                                   "the store sent a message of {} bytes", length);
    std::string body(length, '\0');
    receive_all(socket_, std::as_writable_bytes(std::span(body)), deadline);
    const auto reply = static_cast<Reply>(body[0]);
    body.erase(0, 1);
    if (reply == Reply::error) throw DistStoreError("{}", Reader(body).text());
    return {reply, std::move(body)};
  } catch (const DistStoreError&) {
    throw;
  } catch (const Error& error) {
    broken_ = true;  // a late reply would be taken for the next request's
    throw DistNetworkError(
        "lost the store at {}:{}, which rank 0 hosts: {}. Rank 0 has probably ended; look at its output "
        "first",
        host_, port_, error.what());
  }
}

void TcpStore::set(const std::string& key, const std::string& value) {
  ask(start(Request::set).text(key).text(value));
}

std::string TcpStore::get(const std::string& key) {
  const Answer answer =
      ask(start(Request::get).text(key).u64(static_cast<uint64_t>(timeout().count())), timeout());
  miniddp::check<TimeoutError>(answer.reply == Reply::ok, "wait timeout after {}ms, keys: {}",
                               timeout().count(), key);
  return Reader(answer.body).text();
}

int64_t TcpStore::add(const std::string& key, int64_t amount) {
  const Answer answer = ask(start(Request::add).text(key).u64(static_cast<uint64_t>(amount)));
  return static_cast<int64_t>(Reader(answer.body).u64());
}

void TcpStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  Writer request = start(Request::wait);
  const Answer answer = ask(put_keys(request, keys).u64(static_cast<uint64_t>(timeout.count())), timeout);
  miniddp::check<TimeoutError>(answer.reply == Reply::ok, "wait timeout after {}ms, keys: {}",
                               timeout.count(), Reader(answer.body).text());
}

bool TcpStore::check(const std::vector<std::string>& keys) {
  Writer request = start(Request::check);
  return Reader(ask(put_keys(request, keys)).body).u8() != 0;
}

std::string TcpStore::compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired) {
  return Reader(ask(start(Request::compare_set).text(key).text(expected).text(desired)).body).text();
}

bool TcpStore::delete_key(const std::string& key) {
  return Reader(ask(start(Request::delete_key).text(key)).body).u8() != 0;
}

int64_t TcpStore::num_keys() {
  return static_cast<int64_t>(Reader(ask(start(Request::num_keys)).body).u64());
}

std::shared_ptr<Store> TcpStore::clone() {
  TcpStoreOptions options;
  options.host = host_;
  options.ports = {port_};
  options.timeout = timeout();
  options.run_id = run_id_;
  return std::make_shared<TcpStore>(options);
}

void TcpStore::join(int rank, int world_size) {
  ask(start(Request::join).u32(static_cast<uint32_t>(rank)).u32(static_cast<uint32_t>(world_size)));
  joined_ = true;
}

void TcpStore::wait_all_joined(Milliseconds timeout) {
  const Answer answer =
      ask(start(Request::wait_all_joined).u64(static_cast<uint64_t>(timeout.count())), timeout);
  miniddp::check<TimeoutError>(answer.reply == Reply::ok, "Timed out after {} waiting for all ranks: {}",
                               to_string(timeout), Reader(answer.body).text());
}

void TcpStore::leave() noexcept {
  joined_ = false;
  try {
    ask_within(start(Request::leave), short_slack);
  } catch (const std::exception&) {
    // The store has gone before us: nobody is left to be told.
  }
}

std::string TcpStore::report(const std::string& what) {
  return Reader(ask_within(start(Request::report).text(what), short_slack).body).text();
}

std::string TcpStore::watch(Milliseconds timeout, std::string* departures) {
  const Answer answer = ask_within(start(Request::watch).u64(static_cast<uint64_t>(timeout.count())), timeout + short_slack);
  std::string text = Reader(answer.body).text();
  if (answer.reply == Reply::ok) return text;
  if (departures) *departures = std::move(text);
  return "";
}

void TcpStore::interrupt() {
  broken_ = true;
  shutdown(socket_.fd(), SHUT_RDWR);
}

void TcpStore::set_linger(Milliseconds limit) {
  if (server_) server_->set_linger(limit);
}

}  // namespace miniddp
