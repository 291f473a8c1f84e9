// What the store server does for each request.
#include <charconv>

#include "chapters/04_process_group/store_server.h"

namespace miniddp {

using namespace store_protocol;

namespace {
// Bounds on what a message may claim about itself.
constexpr uint32_t most_keys = 65536;
constexpr uint64_t longest_wait_ms = 30ull * 24 * 3600 * 1000;

std::vector<std::string> read_keys(Reader& message) {
  const uint32_t count = message.u32();
  miniddp::check<DistStoreError>(count <= most_keys, "{} keys in one request are too many", count);
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < count; ++i) keys.push_back(message.text());
  return keys;
}

Deadline::Clock::time_point read_limit(Reader& message) {
  return Deadline::Clock::now() + Milliseconds(std::min(message.u64(), longest_wait_ms));
}
}  // namespace

void StoreServer::handle(Connection& connection, Reader message) {
  const auto request = static_cast<Request>(message.u8());
  Writer body;
  body.u8(static_cast<uint8_t>(Reply::ok));
  const auto done = [&] {
    message.finish();
    connection.out += body.finish();
  };
  switch (request) {
    case Request::set: {
      const std::string key = message.text();
      values_[key] = message.text();
      return done();
    }
    case Request::get: {
      const std::string key = message.text();
      connection.pending = Pending{request, {key}, read_limit(message)};
      return message.finish();
    }
    case Request::wait: {
      auto keys = read_keys(message);
      connection.pending = Pending{request, std::move(keys), read_limit(message)};
      return message.finish();
    }
    case Request::add: {
      const std::string key = message.text();
      body.u64(static_cast<uint64_t>(add(key, static_cast<int64_t>(message.u64()))));
      return done();
    }
    case Request::check: {
      body.u8(has_all(read_keys(message)));
      return done();
    }
    case Request::compare_set: {
      const std::string key = message.text(), expected = message.text(), desired = message.text();
      body.text(compare_set(key, expected, desired));
      return done();
    }
    case Request::delete_key: {
      body.u8(values_.erase(message.text()) > 0);
      return done();
    }
    case Request::num_keys: {
      body.u64(values_.size());
      return done();
    }
    default:
      return handle_member(connection, request, message);
  }
}

void StoreServer::handle_member(Connection& connection, Request request, Reader& message) {
  switch (request) {
    case Request::join: {
      const auto rank = static_cast<int32_t>(message.u32());
      const auto world_size = static_cast<int32_t>(message.u32());
      miniddp::check<DistStoreError>(connection.rank < 0, "this connection has joined already, as rank {}",
                                     connection.rank);
      const std::string refusal = members_.join(rank, world_size);
      if (!refusal.empty()) return answer_text(connection, Reply::error, refusal);
      connection.rank = rank;
      return answer_text(connection, Reply::ok, "");
    }
    case Request::wait_all_joined:
    case Request::watch:
      connection.pending = Pending{request, {}, read_limit(message)};
      return message.finish();
    case Request::leave:
      if (connection.rank >= 0) members_.leave(std::exchange(connection.rank, -1));
      return answer_text(connection, Reply::ok, "");
    case Request::report:
      members_.report(message.text());
      return answer_text(connection, Reply::ok, *members_.failure());
    default:
      throw DistStoreError("unknown request {}", static_cast<int>(request));
  }
}

int64_t StoreServer::add(const std::string& key, int64_t amount) {
  int64_t sum = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
    miniddp::check<DistStoreError>(error == std::errc() && end == text.data() + text.size(),
                                   "cannot add to key \"{}\": its value is not a number", key);
  }
  miniddp::check<DistStoreError>(!__builtin_add_overflow(sum, amount, &sum),
                                 "adding {} to key \"{}\" overflows", amount, key);
  values_[key] = std::to_string(sum);
  return sum;
}

std::string StoreServer::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  const auto found = values_.find(key);
  const bool equal = found == values_.end() ? expected.empty() : found->second == expected;
  if (equal) return values_[key] = desired;
  return found == values_.end() ? expected : found->second;
}

bool StoreServer::has_all(const std::vector<std::string>& keys) const {
  for (const std::string& key : keys) {
    if (!values_.contains(key)) return false;
  }
  return true;
}

void StoreServer::answer_text(Connection& connection, Reply reply, std::string_view text) {
  connection.out += Writer().u8(static_cast<uint8_t>(reply)).text(text).finish();
}

void StoreServer::settle(Connection& connection) {
  if (!connection.pending) return;
  const Pending& pending = *connection.pending;
  const bool late = Clock::now() >= pending.limit;
  const auto reply = [&](Reply kind, std::string_view text) {
    connection.pending.reset();
    answer_text(connection, kind, text);
  };
  switch (pending.request) {
    case Request::wait_all_joined:
      if (members_.failure()) return reply(Reply::error, *members_.failure());
      if (members_.complete()) return reply(Reply::ok, "");
      if (late) return reply(Reply::timeout, members_.describe());
      break;
    case Request::watch:
      if (members_.failure()) return reply(Reply::ok, *members_.failure());
      if (late) return reply(Reply::timeout, members_.departures());
      break;
    default:
      if (const auto answer = settle_keys(pending, late)) return reply(answer->first, answer->second);
      break;
  }
}

std::optional<std::pair<Reply, std::string>> StoreServer::settle_keys(const Pending& pending, bool late) {
  // BEGIN SOLUTION 04.4 waiting for keys
  std::string missing;
  for (const std::string& key : pending.keys) {
    if (!values_.contains(key)) missing += (missing.empty() ? "" : ", ") + key;
  }
  if (missing.empty()) return std::pair(Reply::ok, pending.request == Request::get ? values_[pending.keys[0]] : "");
  if (late) return std::pair(Reply::timeout, missing);
  return std::nullopt;
  // END SOLUTION
}

}  // namespace miniddp
