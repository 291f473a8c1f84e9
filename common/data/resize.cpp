#include "common/data/resize.h"

#include <algorithm>
#include <cmath>

#include "common/core/error.h"

namespace miniddp {
namespace {

/// The source pixels that make one target pixel.
struct Taps {
  int64_t first = 0;
  std::vector<float> weights;  // add up to 1
};

std::vector<Taps> taps_for(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double radius = std::max(1.0, scale);
  std::vector<Taps> all;
  for (int64_t target = 0; target < to; ++target) {
    const double centre = (static_cast<double>(target) + 0.5) * scale - 0.5;
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(std::ceil(centre - radius)));
    const int64_t last = std::min(from - 1, static_cast<int64_t>(std::floor(centre + radius)));
    Taps taps{first, {}};
    double sum = 0;
    for (int64_t source = first; source <= last; ++source) {
      taps.weights.push_back(static_cast<float>(1 - std::abs(static_cast<double>(source) - centre) / radius));
      sum += taps.weights.back();
    }
    for (float& weight : taps.weights) weight = static_cast<float>(weight / sum);
    all.push_back(std::move(taps));
  }
  return all;
}

}  // namespace

GreyImage resize(const GreyImage& image, int64_t rows, int64_t cols) {
  check(rows > 0 && cols > 0 && !image.pixels.empty(),
        "resize expects pictures with pixels, found {} x {} to {} x {}", image.rows, image.cols, rows, cols);
  // Along the rows first: (image.rows, cols).
  std::vector<float> between(static_cast<size_t>(image.rows * cols));
  const std::vector<Taps> across = taps_for(image.cols, cols);
  for (int64_t row = 0; row < image.rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      const Taps& taps = across[static_cast<size_t>(col)];
      float sum = 0;
      for (size_t k = 0; k < taps.weights.size(); ++k)
        sum += taps.weights[k] * image.at(row, taps.first + static_cast<int64_t>(k));
      between[static_cast<size_t>(row * cols + col)] = sum;
    }
  }
  GreyImage out{rows, cols, std::vector<uint8_t>(static_cast<size_t>(rows * cols))};
  const std::vector<Taps> down = taps_for(image.rows, rows);
  for (int64_t row = 0; row < rows; ++row) {
    const Taps& taps = down[static_cast<size_t>(row)];
    for (int64_t col = 0; col < cols; ++col) {
      float sum = 0;
      for (size_t k = 0; k < taps.weights.size(); ++k) {
        sum += taps.weights[k] *
               between[static_cast<size_t>((taps.first + static_cast<int64_t>(k)) * cols + col)];
      }
      out.at(row, col) = static_cast<uint8_t>(std::clamp(std::lround(sum), 0L, 255L));
    }
  }
  return out;
}

}  // namespace miniddp
