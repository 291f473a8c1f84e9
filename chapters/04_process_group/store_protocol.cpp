#include "chapters/04_process_group/store_protocol.h"

namespace miniddp::store_protocol {

Writer& Writer::u8(uint8_t value) {
  bytes_ += static_cast<char>(value);
  return *this;
}

Writer& Writer::u32(uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) u8(static_cast<uint8_t>(value >> shift));
  return *this;
}

Writer& Writer::u64(uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) u8(static_cast<uint8_t>(value >> shift));
  return *this;
}

Writer& Writer::text(std::string_view value) {
  check<DistStoreError>(value.size() <= longest_message,
                        "a key or value of {} bytes is too long: the store takes at most {}", value.size(),
                        longest_message);
  u32(static_cast<uint32_t>(value.size()));
  bytes_ += value;
  return *this;
}

std::string Writer::finish() {
  const size_t length = bytes_.size() - 4;
  check<DistStoreError>(length <= longest_message,
                        "a message of {} bytes is too long: the store takes at most {}", length,
                        longest_message);
  for (int i = 0; i < 4; ++i) bytes_[static_cast<size_t>(i)] = static_cast<char>(length >> (8 * i));
  return std::move(bytes_);
}

std::string_view Reader::take(size_t count) {
  check<DistStoreError>(count <= bytes_.size(), "a message ends {} bytes early", count - bytes_.size());
  const std::string_view taken = bytes_.substr(0, count);
  bytes_.remove_prefix(count);
  return taken;
}

uint8_t Reader::u8() {
  return static_cast<uint8_t>(take(1)[0]);
}

uint32_t Reader::u32() {
  return message_length(take(4));
}

uint64_t Reader::u64() {
  const uint64_t low = u32();
  return low | static_cast<uint64_t>(u32()) << 32;
}

std::string Reader::text() {
  return std::string(take(u32()));
}

void Reader::finish() const {
  check<DistStoreError>(bytes_.empty(), "a message has {} bytes too many", bytes_.size());
}

uint32_t message_length(std::string_view first_four) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(first_four[static_cast<size_t>(i)]);
  return value;
}

std::string greeting(const std::string& run_id) {
  check<DistStoreError>(run_id.size() <= longest_run_id, "a run id of {} bytes is too long: at most {}",
                        run_id.size(), longest_run_id);
  std::string bytes(magic);
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(run_id.size() >> (8 * i));
  return bytes + run_id;
}

}  // namespace miniddp::store_protocol
