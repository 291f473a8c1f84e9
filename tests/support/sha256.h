// SHA-256, to tell that a file is the published one. Source: FIPS 180-4.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/core/error.h"

namespace miniddp {
namespace sha256_detail {

/// The first 32 bits of the fraction of the `root`-th root of each of the first 64 primes: the standard's
/// constants.
inline std::array<uint32_t, 64> constants(int root) {
  std::array<uint32_t, 64> values{};
  size_t found = 0;
  for (int candidate = 2; found < values.size(); ++candidate) {
    bool prime = true;
    for (int divisor = 2; divisor * divisor <= candidate; ++divisor)
      prime = prime && candidate % divisor != 0;
    if (!prime) continue;
    const long double value = root == 2 ? std::sqrt(static_cast<long double>(candidate))
                                        : std::cbrt(static_cast<long double>(candidate));
    values[found++] = static_cast<uint32_t>(std::floor((value - std::floor(value)) * 4294967296.0L));
  }
  return values;
}

inline void add_block(std::array<uint32_t, 8>& hash, std::span<const uint8_t, 64> block) {
  static const std::array<uint32_t, 64> k = constants(3);
  std::array<uint32_t, 64> w{};
  for (size_t t = 0; t < 64; ++t) {
    if (t < 16) {
      w[t] = uint32_t{block[4 * t]} << 24 | uint32_t{block[4 * t + 1]} << 16 |
             uint32_t{block[4 * t + 2]} << 8 | block[4 * t + 3];
    } else {
      const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
      const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
  }
  auto [a, b, c, d, e, f, g, h] = hash;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t t1 =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + k[t] + w[t];
    const uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> sum{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) hash[i] += sum[i];
}

}  // namespace sha256_detail

/// In hexadecimal.
inline std::string sha256(std::span<const uint8_t> bytes) {
  std::array<uint32_t, 8> hash{};
  const auto roots = sha256_detail::constants(2);
  std::copy_n(roots.begin(), 8, hash.begin());
  std::vector<uint8_t> tail(bytes.end() - static_cast<std::ptrdiff_t>(bytes.size() % 64), bytes.end());
  tail.push_back(0x80);
  while (tail.size() % 64 != 56) tail.push_back(0);
  for (int shift = 56; shift >= 0; shift -= 8)
    tail.push_back(static_cast<uint8_t>(uint64_t{bytes.size()} * 8 >> shift));
  for (size_t i = 0; i + 64 <= bytes.size(); i += 64)
    sha256_detail::add_block(hash, bytes.subspan(i).first<64>());
  for (size_t i = 0; i < tail.size(); i += 64)
    sha256_detail::add_block(hash, std::span<const uint8_t>(tail).subspan(i).first<64>());
  std::string text;
  for (const uint32_t word : hash) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace miniddp
