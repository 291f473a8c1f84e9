// What every CPU kernel needs: choosing the element type, and sharing a loop between the device's threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "common/kernels/float_type.h"
#include "common/kernels/kernels.h"

namespace miniddp {

/// Elements below which a second thread costs more than it brings.
inline constexpr int64_t parallel_grain = 32768;

/// Calls body(begin, end) on parts of [0, n), side by side when there is enough to do. `cost` is the number of elements
/// an item touches. `body` must not throw, and what it computes must not depend on where the parts begin.
template <class Body>
void parallel_for(int64_t n, int64_t cost, const Body& body) {
  const int64_t useful = n * std::max<int64_t>(cost, 1) / parallel_grain;
  const int threads = static_cast<int>(std::min<int64_t>({threads_per_device(), useful, n}));
  if (threads <= 1) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  // Single elements are shared out by cache lines, so that no two threads write to the same one.
  const int64_t unit = cost > 1 ? 1 : 64;
  const int64_t units = (n + unit - 1) / unit;
#pragma omp parallel num_threads(threads)
  {
    const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    const int64_t begin = std::min(n, units * part / parts * unit);
    const int64_t end = std::min(n, units * (part + 1) / parts * unit);
    if (begin < end) body(begin, end);
  }
}

}  // namespace miniddp
