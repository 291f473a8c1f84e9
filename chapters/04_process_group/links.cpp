#include "chapters/04_process_group/links.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace miniddp {

namespace {
[[noreturn]] void throw_lost(int peer, std::string_view why) {
  throw DistNetworkError(
      "lost the connection to rank {} ({}); rank {} has probably ended, look at its output first", peer, why,
      peer);
}
}  // namespace

/// The half of an exchange that goes out: header and payload.
class Links::Sending {
 public:
  Sending(const Fingerprint& what, int peer, int fd, std::span<const std::byte> payload)
      : peer_(peer), fd_(fd), header_{what, payload.size()}, payload_(payload) {}

  bool done() const { return sent_ == sizeof header_ + payload_.size(); }

  /// Sends what the socket takes now; true if it took anything.
  bool advance() {
    if (done()) return false;
    iovec parts[2];
    int count = 0;
    if (sent_ < sizeof header_)
      parts[count++] = {reinterpret_cast<char*>(&header_) + sent_, sizeof header_ - sent_};
    const size_t begun = sent_ > sizeof header_ ? sent_ - sizeof header_ : 0;
    if (begun < payload_.size())
      parts[count++] = {const_cast<std::byte*>(payload_.data()) + begun, payload_.size() - begun};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (sent < 0) throw_lost(peer_, std::strerror(errno));
    sent_ += static_cast<size_t>(sent);
    return true;
  }

 private:
  int peer_;
  int fd_;
  Header header_;
  std::span<const std::byte> payload_;
  size_t sent_ = 0;
};

/// The half that comes in. The header is looked at before a byte of payload is written anywhere.
class Links::Receiving {
 public:
  Receiving(int rank, const Fingerprint& what, int peer, int fd, const Incoming& in)
      : rank_(rank), what_(in.what.value_or(what)), peer_(peer), fd_(fd), in_(in) {}

  bool done() const { return received_ == sizeof header_ + in_.bytes.size(); }

  bool advance() {
    if (done()) return false;
    const bool in_header = received_ < sizeof header_;
    std::byte* to = in_header ? reinterpret_cast<std::byte*>(&header_) + received_
                              : in_.bytes.data() + (received_ - sizeof header_);
    const size_t room =
        in_header ? sizeof header_ - received_ : in_.bytes.size() - (received_ - sizeof header_);
    const ssize_t got = recv(fd_, to, room, 0);
    if (got == 0) throw_lost(peer_, "closed by the other side");
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got < 0) throw_lost(peer_, std::strerror(errno));
    received_ += static_cast<size_t>(got);
    if (in_header && received_ == sizeof header_) check_header();
    if (!in_header && in_.progress) in_.progress(received_ - sizeof header_);
    return true;
  }

 private:
  void check_header() const {
    check(header_.what == what_, "{}", mismatch_message(rank_, what_, peer_, header_.what));
    check(header_.nbytes == in_.bytes.size(), "rank {} sent {} bytes in {}, but rank {} expected {}", peer_,
          header_.nbytes, what_.str(), rank_, in_.bytes.size());
  }

  int rank_;
  Fingerprint what_;
  int peer_;
  int fd_;
  const Incoming& in_;
  Header header_{};
  size_t received_ = 0;
};

void Links::exchange(const Fingerprint& what, int to, std::span<const std::byte> out, int from, Incoming in,
                     const Deadline& deadline) {
  std::optional<Sending> sending;
  std::optional<Receiving> receiving;
  if (to >= 0) sending.emplace(what, to, peer_fd(to), out);
  if (from >= 0) receiving.emplace(rank_, what, from, peer_fd(from), in);

  while (true) {
    check<DistNetworkError>(!aborted_, "the operation was ended");
    bool moved = false;
    if (sending) moved |= sending->advance();
    if (receiving) moved |= receiving->advance();
    const bool sent = !sending || sending->done(), received = !receiving || receiving->done();
    if (sent && received) break;
    if (moved) continue;

    pollfd waits[2] = {{sent ? -1 : peer_fd(to), POLLOUT, 0}, {received ? -1 : peer_fd(from), POLLIN, 0}};
    if (poll(waits, 2, deadline.left_ms()) == 0 && deadline.passed()) {
      throw TimeoutError("timed out after {} waiting for {} rank {}", deadline.str(),
                         received ? "receive by" : "data of", received ? to : from);
    }
  }
  bytes_sent_ += static_cast<int64_t>(out.size());
}

void Links::send(const Fingerprint& what, int to, std::span<const std::byte> out, const Deadline& deadline) {
  exchange(what, to, out, -1, {}, deadline);
}

void Links::receive(const Fingerprint& what, int from, Incoming in, const Deadline& deadline) {
  exchange(what, -1, {}, from, in, deadline);
}

void Links::abort() {
  aborted_ = true;
  // shutdown, not close: another thread may be polling these descriptors, and it wakes up.
  for (const Socket& peer : peers_) {
    if (peer.is_open()) shutdown(peer.fd(), SHUT_RDWR);
  }
}

}  // namespace miniddp
