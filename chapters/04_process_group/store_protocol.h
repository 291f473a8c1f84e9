// What goes over the wire between a TcpStore and its server.
//
// A connection starts with a greeting: the magic and the run's id; the server answers with the magic and one
// byte. Then the client sends requests and gets one reply to each. A message is its length (32 bits) and that
// many bytes; numbers are little-endian; a text is its length (32 bits) and its bytes. A length above the
// bound ends the connection before a byte of it is read or memory is set aside, so a client that claims 4 GB
// costs nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "chapters/04_process_group/store.h"

namespace miniddp::store_protocol {

inline constexpr std::string_view magic = "miniDDP\x01";
inline constexpr size_t longest_run_id = 256;
inline constexpr size_t longest_message = 16 << 20;
/// A client that has said nothing, or half a message, for so long is dropped.
inline constexpr Milliseconds patience{5000};

enum class Request : uint8_t {
  set,
  get,
  add,
  wait,
  check,
  compare_set,
  delete_key,
  num_keys,
  // Membership: see TcpStore.
  join,
  wait_all_joined,
  leave,
  report,
  watch
};
enum class Reply : uint8_t { ok, timeout, error };
enum class Greeting : uint8_t { welcome, other_run };

/// Builds a message, its length included.
class Writer {
 public:
  Writer() : bytes_(4, '\0') {}
  Writer& u8(uint8_t value);
  Writer& u32(uint32_t value);
  Writer& u64(uint64_t value);
  Writer& text(std::string_view value);
  /// Throws DistStoreError if the message is too long.
  std::string finish();

 private:
  std::string bytes_;
};

/// Takes a message (without its length) apart. Throws DistStoreError if it is shorter than it claims.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint8_t u8();
  uint32_t u32();
  uint64_t u64();
  std::string text();
  /// Throws DistStoreError unless everything was read.
  void finish() const;

 private:
  std::string_view take(size_t count);
  std::string_view bytes_;
};

/// The length in a message's first four bytes.
uint32_t message_length(std::string_view first_four);

/// What a client sends first.
std::string greeting(const std::string& run_id);

}  // namespace miniddp::store_protocol
