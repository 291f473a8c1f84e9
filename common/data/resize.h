// Changes the size of a picture.
#pragma once

#include "common/data/image.h"

namespace miniddp {

/// Weighted means with a triangle as wide as two pixels of the coarser of the two grids: smooth when it
/// grows, no pixel overlooked when it shrinks, unchanged when the size is.
GreyImage resize(const GreyImage& image, int64_t rows, int64_t cols);

}  // namespace miniddp
