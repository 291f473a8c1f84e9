// A data set that a program trains on in a moment.
#pragma once

#include "common/core/file.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_directory.h"

namespace miniddp {

// 200 training and 90 test images of noise: enough to see every number of a run.
class SmallData {
 public:
  SmallData() {
    write("train", 200, 1);
    write("t10k", 90, 2);
  }
  std::string path() const { return directory_.path().string(); }
  std::string file(const std::string& name) const { return (directory_.path() / name).string(); }

 private:
  void write(const std::string& split, uint32_t n, uint64_t seed) {
    write_file(directory_.path() / (split + "-images-idx3-ubyte"), idx_header({n, 28, 28}) + random_bytes(n * 784, 256, seed));
    write_file(directory_.path() / (split + "-labels-idx1-ubyte"), idx_header({n}) + random_bytes(n, 10, seed));
  }
  TemporaryDirectory directory_;
};

}  // namespace miniddp
