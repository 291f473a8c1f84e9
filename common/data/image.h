// Pictures in files: read (PNG, JPEG) and written (PNG).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace miniddp {

struct GreyImage {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<uint8_t> pixels;  // (rows, cols), 0 is black

  uint8_t& at(int64_t row, int64_t col) { return pixels[static_cast<size_t>(row * cols + col)]; }
  uint8_t at(int64_t row, int64_t col) const { return pixels[static_cast<size_t>(row * cols + col)]; }
};

/// More pixels than this are refused: 33 million, 6.5 bytes of memory each while they are read.
inline constexpr int64_t most_pixels = int64_t{1} << 25;

/// Reads a PNG or JPEG of any size up to most_pixels and any number of channels; colour becomes luminance.
/// What is transparent is laid on white, or on black if what is visible is bright. Throws DataError, naming
/// the file, if it is missing, no such picture, damaged or too large.
GreyImage load_image(const std::filesystem::path& path);

/// Writes (rows, cols, channels) bytes, 1 channel for grey or 3 for RGB, as a PNG: whole or not at all.
/// Throws Error if it cannot.
void write_png(const std::filesystem::path& path, std::span<const uint8_t> pixels, int64_t rows, int64_t cols,
               int channels);

}  // namespace miniddp
