#include "common/core/dtype.h"

#include "common/core/error.h"

namespace miniddp {

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return 4;
    case DType::float64: return 8;
    case DType::int64: return 8;
    case DType::uint8: return 1;
    case DType::float16: return 2;
    case DType::bfloat16: return 2;
  }
  throw Error("unknown dtype {}", static_cast<int>(dtype));
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::float64: return "float64";
    case DType::int64: return "int64";
    case DType::uint8: return "uint8";
    case DType::float16: return "float16";
    case DType::bfloat16: return "bfloat16";
  }
  throw Error("unknown dtype {}", static_cast<int>(dtype));
}

}  // namespace miniddp
