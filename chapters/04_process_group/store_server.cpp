#include "chapters/04_process_group/store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace miniddp {

using namespace store_protocol;

namespace {
constexpr size_t most_strangers = 64;
}

StoreServer::StoreServer(Socket listener, int world_size, std::string run_id)
    : listener_(std::move(listener)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      port_(port_of(listener_.fd())),
      run_id_(std::move(run_id)),
      members_(world_size) {
  miniddp::check<DistStoreError>(wake_.is_open(), "cannot make an event descriptor");
  prepare(listener_);
  thread_ = std::thread([this] { run(); });
}

StoreServer::~StoreServer() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.fd(), &one, sizeof one);
  thread_.join();
}

void StoreServer::run() {
  std::optional<Clock::time_point> stop_at;
  while (!stop_at || (Clock::now() < *stop_at && !members_.deserted())) {
    std::vector<pollfd> waits = {{listener_.fd(), POLLIN, 0}, {stop_at ? -1 : wake_.fd(), POLLIN, 0}};
    for (const Connection& connection : connections_) {
      const short events = connection.out.empty() ? POLLIN : POLLIN | POLLOUT;
      waits.push_back({connection.socket.fd(), events, 0});
    }
    poll(waits.data(), waits.size(), stop_at ? std::min(poll_ms(), 50) : poll_ms());

    if (waits[1].revents) stop_at = Clock::now() + Milliseconds(linger_ms_);
    size_t i = 2;
    for (auto at = connections_.begin(); at != connections_.end(); ++i) {
      Connection& connection = *at;
      const bool late = connection.impatient_at && Clock::now() >= *connection.impatient_at;
      const bool keep = (!waits[i].revents || receive(connection)) && flush(connection) && !late;
      if (!keep) drop(connection);
      at = keep ? std::next(at) : connections_.erase(at);
    }
    if (waits[0].revents) accept_clients();
    for (Connection& connection : connections_) settle(connection);
  }
  // Whoever still watches is told why the store ends.
  members_.report(
      "rank 0, which hosts the store, has left: it finished, returned early or failed; look at its output "
      "first");
  for (Connection& connection : connections_) {
    settle(connection);
    flush(connection);
  }
}

int StoreServer::poll_ms() const {
  auto next = Clock::now() + std::chrono::seconds(10);
  for (const Connection& connection : connections_) {
    if (connection.pending) next = std::min(next, connection.pending->limit);
    if (connection.impatient_at) next = std::min(next, *connection.impatient_at);
  }
  return static_cast<int>(std::max<int64_t>(0, std::chrono::ceil<Milliseconds>(next - Clock::now()).count()));
}

void StoreServer::accept_clients() {
  while (true) {
    Socket socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return;
    prepare(socket);
    // Silent strangers must not use up our descriptors: the oldest makes room.
    const auto stranger = [](const Connection& connection) { return !connection.greeted; };
    if (static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(), stranger)) >=
        most_strangers) {
      connections_.erase(std::find_if(connections_.begin(), connections_.end(), stranger));
    }
    Connection& connection = connections_.emplace_back(Connection{std::move(socket)});
    connection.impatient_at = Clock::now() + patience;
  }
}

bool StoreServer::receive(Connection& connection) {
  char buffer[65536];
  while (true) {
    const ssize_t got = recv(connection.socket.fd(), buffer, sizeof buffer, 0);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    connection.in.append(buffer, static_cast<size_t>(got));
    if (!greet(connection) || !handle_messages(connection)) return false;
  }
}

bool StoreServer::greet(Connection& connection) {
  if (connection.greeted) return true;
  const std::string& in = connection.in;
  const size_t compared = std::min(in.size(), magic.size());
  if (in.compare(0, compared, magic.substr(0, compared)) != 0) return false;  // not one of ours
  if (in.size() < magic.size() + 4) return true;
  const uint32_t length = message_length(std::string_view(in).substr(magic.size()));
  if (length > longest_run_id) return false;
  if (in.size() < magic.size() + 4 + length) return true;
  const bool ours = in.compare(magic.size() + 4, length, run_id_) == 0;
  connection.out += magic;
  connection.out += static_cast<char>(ours ? Greeting::welcome : Greeting::other_run);
  connection.in.erase(0, magic.size() + 4 + length);
  connection.greeted = true;
  if (!ours) return flush(connection) && false;
  add("init/", 1);
  return true;
}

bool StoreServer::handle_messages(Connection& connection) {
  // While a request is pending its client sends nothing; what comes all the same waits.
  while (connection.greeted && !connection.pending) {
    connection.impatient_at.reset();
    if (connection.in.empty()) return true;
    connection.impatient_at = Clock::now() + patience;
    if (connection.in.size() < 4) return true;
    const size_t length = message_length(connection.in);
    if (length > longest_message) return false;
    if (connection.in.size() < 4 + length) return true;
    const std::string message = connection.in.substr(4, length);
    connection.in.erase(0, 4 + length);
    connection.impatient_at.reset();
    try {
      handle(connection, Reader(message));
    } catch (const DistStoreError& error) {
      answer_text(connection, Reply::error, error.what());
    }
  }
  return connection.in.size() <= longest_message + 4;
}

bool StoreServer::flush(Connection& connection) {
  while (!connection.out.empty()) {
    const ssize_t sent =
        send(connection.socket.fd(), connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    connection.out.erase(0, static_cast<size_t>(sent));
  }
  return true;
}

void StoreServer::drop(Connection& connection) {
  if (connection.rank >= 0) members_.lose(connection.rank);
}

}  // namespace miniddp
