// How the connections between the ranks come about.
#include <sys/random.h>

#include <charconv>

#include "chapters/04_process_group/links.h"

namespace miniddp {

namespace {

constexpr size_t secret_size = 16;

// Nobody but the ranks of this run can read it from the store, so a stranger who connects is told from a
// rank.
std::string make_secret() {
  unsigned char bytes[secret_size / 2];
  check(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, "cannot read random bytes");
  std::string secret;
  for (unsigned char byte : bytes) secret += fmt::format("{:02x}", byte);
  return secret;
}

std::string key_of(int rank) {
  return fmt::format("links/{}", rank);
}

}  // namespace

// Every rank listens, publishes "port secret address", calls the ranks below its own and is called by those
// above.
Links::Links(int rank, int size, Store& keys, const std::string& address, const Deadline& deadline)
    : rank_(rank), size_(size) {
  peers_.resize(static_cast<size_t>(size));
  const Socket listener = listen_on(address, 0);
  const std::string secret = make_secret();
  keys.set(key_of(rank), fmt::format("{} {} {}", port_of(listener.fd()), secret, address));
  for (int peer = 0; peer < rank; ++peer) {
    keys.wait({key_of(peer)}, Milliseconds(deadline.left_ms()));
    const std::string entry = keys.get(key_of(peer));
    const size_t first = entry.find(' '), second = entry.find(' ', first + 1);
    int port = 0;
    std::from_chars(entry.data(), entry.data() + first, port);
    check<DistStoreError>(second != std::string::npos && port > 0,
                          "the store has a wrong address for rank {}: \"{}\"", peer, entry);
    const std::string host = entry.substr(second + 1);
    Socket socket;
    try {
      socket = connect_once(host, port, deadline);
    } catch (const DistNetworkError& error) {
      throw DistNetworkError(
          "rank {} cannot reach rank {}: {}. On several machines GLOO_SOCKET_IFNAME names the network "
          "interface to use",
          rank, peer, error.what());
    }
    const std::string hello = entry.substr(first + 1, secret_size) + fmt::format("{:08}", rank);
    send_all(socket, std::as_bytes(std::span(hello)), deadline);
    peers_[static_cast<size_t>(peer)] = std::move(socket);
  }
  accept_peers(listener, secret, deadline);
}

void Links::accept_peers(const Socket& listener, const std::string& secret, const Deadline& deadline) {
  for (int missing = size_ - rank_ - 1; missing > 0;) {
    Socket socket;
    try {
      socket = accept_one(listener, deadline);
    } catch (const TimeoutError&) {
      throw TimeoutError(
          "timed out after {} while connecting the ranks: {} of the ranks above {} did not connect",
          deadline.str(), missing, rank_);
    }
    std::string hello(secret_size + 8, '\0');
    int peer = -1;
    try {
      receive_all(socket, std::as_writable_bytes(std::span(hello)),
                  Deadline(Milliseconds(std::min(2000, deadline.left_ms()))));
      if (hello.starts_with(secret))
        std::from_chars(hello.data() + secret_size, hello.data() + hello.size(), peer);
    } catch (const Error&) {
      // A stranger: not one of us, or silent.
    }
    if (peer <= rank_ || peer >= size_ || peers_[static_cast<size_t>(peer)].is_open()) continue;
    peers_[static_cast<size_t>(peer)] = std::move(socket);
    --missing;
  }
}

}  // namespace miniddp
