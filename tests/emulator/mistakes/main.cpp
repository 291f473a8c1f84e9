// mistakes NAME: runs one entry of the catalogue. 0: the result is right. 3: it is wrong. 1: CUDA refused something.
// Anything else comes from the emulator or from a sanitizer.
#include <cmath>
#include <cstring>

#include "tests/emulator/mistakes/mistakes.h"

int main(int argc, char** argv) {
  using namespace miniddp::testing;
  Catalogue all = kernel_mistakes();
  all.merge(host_mistakes());
  if (argc != 2 || !all.contains(argv[1])) {
    std::fprintf(stderr, "usage: %s NAME, one of:\n", argv[0]);
    for (const auto& [name, run] : all) std::fprintf(stderr, "  %s\n", name.c_str());
    return 2;
  }
  const Outcome outcome = all[argv[1]]();
  must(cudaDeviceSynchronize());
  int wrong = 0;
  int nan = 0;
  for (std::size_t i = 0; i < outcome.expected.size(); ++i) {
    nan += std::isnan(outcome.found[i]);
    wrong += !(outcome.found[i] == outcome.expected[i]);
  }
  if (wrong == 0) return 0;
  std::fprintf(stderr, "wrong: %d of %zu, %d are NaN\n", wrong, outcome.expected.size(), nan);
  return 3;
}
