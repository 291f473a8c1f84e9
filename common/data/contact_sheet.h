// Many small pictures on one, each with what it is and what the network took it for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace miniddp {

struct Tile {
  std::span<const uint8_t> image;  // (rows, cols) of the sheet
  int64_t label = 0;               // the truth
  int64_t prediction = 0;
};

/// Writes the tiles as one PNG, row by row; below each stand the label in green and the prediction in red.
/// Whole or not at all. Throws Error if there are no tiles, one is not of rows x cols pixels, a number is not
/// from 0 to 9, or the file cannot be written.
void write_contact_sheet(const std::filesystem::path& path, const std::vector<Tile>& tiles, int64_t rows,
                         int64_t cols);

}  // namespace miniddp
