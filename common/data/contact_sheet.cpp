#include "common/data/contact_sheet.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/core/error.h"
#include "common/data/image.h"

namespace miniddp {
namespace {

using Colour = std::array<uint8_t, 3>;
constexpr Colour green{70, 200, 90};
constexpr Colour red{235, 80, 70};
constexpr Colour grey{130, 130, 130};
constexpr uint8_t ground = 24;

constexpr int64_t glyph_rows = 7;
constexpr int64_t glyph_cols = 5;
/// The digits, one string for each, rows from the top. The last is an arrow.
constexpr std::array<const char*, 11> glyphs{
    " ### #   ##  ### # ###  ##   # ### ", "  #   ##    #    #    #    #   ### ",
    " ### #   #    #   #   #   #   #####", " ### #   #    #  ##     ##   # ### ",
    "   #   ##  # # #  # #####   #    # ", "######    ####     #    ##   # ### ",
    " ### #    #    #### #   ##   # ### ", "#####    #   #   #   #    #    #   ",
    " ### #   ##   # ### #   ##   # ### ", " ### #   ##   # ####    #    # ### ",
    "       #     # #####   #   #       ",
};
constexpr size_t arrow = 10;

struct Canvas {
  int64_t rows;
  int64_t cols;
  std::vector<uint8_t> pixels;  // (rows, cols, 3)

  void set(int64_t row, int64_t col, const Colour& colour) {
    for (size_t channel = 0; channel < 3; ++channel)
      pixels[static_cast<size_t>(row * cols + col) * 3 + channel] = colour[channel];
  }
};

void draw_glyph(Canvas& canvas, int64_t top, int64_t left, size_t glyph, const Colour& colour) {
  for (int64_t row = 0; row < glyph_rows; ++row) {
    for (int64_t col = 0; col < glyph_cols; ++col) {
      if (glyphs[glyph][row * glyph_cols + col] != ' ') canvas.set(top + row, left + col, colour);
    }
  }
}

void draw_tile(Canvas& canvas, int64_t top, int64_t left, const Tile& tile, int64_t rows, int64_t cols,
               int64_t zoom) {
  for (int64_t row = 0; row < rows * zoom; ++row) {
    for (int64_t col = 0; col < cols * zoom; ++col) {
      const uint8_t pixel = tile.image[static_cast<size_t>(row / zoom * cols + col / zoom)];
      canvas.set(top + row, left + col, {pixel, pixel, pixel});
    }
  }
  const int64_t caption = top + rows * zoom + 2;
  draw_glyph(canvas, caption, left, static_cast<size_t>(tile.label), green);
  draw_glyph(canvas, caption, left + glyph_cols + 2, arrow, grey);
  draw_glyph(canvas, caption, left + 2 * (glyph_cols + 2), static_cast<size_t>(tile.prediction), red);
}

}  // namespace

void write_contact_sheet(const std::filesystem::path& path, const std::vector<Tile>& tiles, int64_t rows,
                         int64_t cols) {
  check(!tiles.empty() && rows > 0 && cols > 0, "{}: a contact sheet expects pictures, found {} of {} x {}",
        path.string(), tiles.size(), rows, cols);
  for (const Tile& tile : tiles) {
    check<ShapeError>(static_cast<int64_t>(tile.image.size()) == rows * cols,
                      "{}: expected pictures of {} x {} pixels, found {} pixels", path.string(), rows, cols,
                      tile.image.size());
    check(tile.label >= 0 && tile.label <= 9 && tile.prediction >= 0 && tile.prediction <= 9,
          "{}: expected labels and predictions from 0 to 9, found {} and {}", path.string(), tile.label,
          tile.prediction);
  }
  constexpr int64_t gap = 6;
  constexpr size_t many = 1000;
  const auto count = static_cast<int64_t>(tiles.size());
  const int64_t zoom = tiles.size() > many ? 1 : 2;
  const int64_t tile_rows = rows * zoom + glyph_rows + 2 + gap;
  const int64_t tile_cols = std::max(cols * zoom, 3 * (glyph_cols + 2)) + gap;
  const auto across = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const int64_t down = (count + across - 1) / across;
  Canvas canvas{down * tile_rows + gap, across * tile_cols + gap, {}};
  canvas.pixels.assign(static_cast<size_t>(canvas.rows * canvas.cols * 3), ground);
  for (int64_t i = 0; i < count; ++i) {
    draw_tile(canvas, gap + i / across * tile_rows, gap + i % across * tile_cols,
              tiles[static_cast<size_t>(i)], rows, cols, zoom);
  }
  write_png(path, canvas.pixels, canvas.rows, canvas.cols, 3);
}

}  // namespace miniddp
