#include "common/core/base64.h"

#include <array>
#include <cstdint>

#include "common/core/error.h"

namespace miniddp {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr auto values = [] {
  std::array<int8_t, 256> table{};
  table.fill(-1);
  for (size_t i = 0; i < alphabet.size(); ++i) table[static_cast<uint8_t>(alphabet[i])] = static_cast<int8_t>(i);
  return table;
}();

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : alphabet[word >> (18 - 6 * k) & 63];
  }
  return text;
}

std::string decode_base64(std::string_view text) {
  check<DataError>(text.size() % 4 == 0, "base64 text has a length divisible by 4, found {}", text.size());
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    size_t padding = 0;
    while (padding < 2 && i + 4 == text.size() && text[i + 3 - padding] == '=') ++padding;
    uint32_t word = 0;
    for (size_t k = 0; k < 4; ++k) {
      const int value = k + padding >= 4 ? 0 : values[static_cast<uint8_t>(text[i + k])];
      check<DataError>(value >= 0, "character {} is not base64", i + k);
      word = word << 6 | static_cast<uint32_t>(value);
    }
    for (size_t k = 0; k + padding < 3; ++k) bytes += static_cast<char>(word >> (16 - 8 * k) & 255);
  }
  return bytes;
}

}  // namespace miniddp
