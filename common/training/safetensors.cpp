#include "common/training/safetensors.h"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "common/core/file.h"

namespace miniddp {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

constexpr std::pair<DType, const char*> dtype_names[] = {{DType::float32, "F32"},  {DType::float64, "F64"}, {DType::int64, "I64"},
                                                         {DType::uint8, "U8"},     {DType::float16, "F16"}, {DType::bfloat16, "BF16"}};

const char* safetensors_name(DType dtype) {
  for (const auto& [known, name] : dtype_names) {
    if (known == dtype) return name;
  }
  throw Error("dtype {} has no name in safetensors", name_of(dtype));
}

DType dtype_from(const std::string& text) {
  for (const auto& [dtype, name] : dtype_names) {
    if (text == name) return dtype;
  }
  throw Error("unknown dtype {}", text);
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const SafeTensors& content) {
  nlohmann::ordered_json header;
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  size_t end = 0;
  for (const auto& [name, tensor] : content.tensors) {
    const size_t start = end;
    end += tensor.nbytes();
    header[name] = {{"dtype", safetensors_name(tensor.dtype())}, {"shape", tensor.shape()}, {"data_offsets", {start, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begin on a multiple of 8
  const uint64_t length = text.size();
  std::string bytes(sizeof length + text.size() + end, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  std::memcpy(bytes.data() + sizeof length, text.data(), text.size());
  char* out = bytes.data() + sizeof length + text.size();
  for (const auto& [name, tensor] : content.tensors) {
    copy_rows(out, Device{}, tensor.nbytes(), tensor.raw_data(), tensor.device(), tensor.nbytes(), tensor.nbytes(), 1);
    out += tensor.nbytes();
  }
  write_file(path, bytes);
}

SafeTensors read_safetensors(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, "a checkpoint (safetensors)");
  SafeTensors content;
  try {
    uint64_t length = 0;
    check(bytes.size() >= sizeof length, "expected at least 8 bytes, found {}", bytes.size());
    std::memcpy(&length, bytes.data(), sizeof length);
    check(length <= bytes.size() - sizeof length, "its header claims {} bytes, the file has {}", length, bytes.size());
    const auto header = nlohmann::ordered_json::parse(bytes.begin() + sizeof length, bytes.begin() + sizeof length + length);
    check(header.is_object(), "expected a JSON object as its header");
    const size_t data = sizeof length + length;
    size_t covered = 0;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        content.metadata = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      const DType dtype = dtype_from(entry.at("dtype").get<std::string>());
      const auto shape = entry.at("shape").get<Shape>();
      const auto offsets = entry.at("data_offsets").get<std::vector<uint64_t>>();
      check(offsets.size() == 2 && offsets[0] == covered && offsets[1] >= offsets[0] && offsets[1] <= bytes.size() - data,
            "tensor {} does not lie where it should: the file is cut short or damaged", name);
      const auto numel = static_cast<uint64_t>(numel_of(shape));
      check(numel <= bytes.size() && numel * size_of(dtype) == offsets[1] - offsets[0], "tensor {}: shape {} does not fit its {} bytes",
            name, to_string(shape), offsets[1] - offsets[0]);
      Tensor tensor = Tensor::empty(shape, dtype);
      if (tensor.nbytes() > 0) std::memcpy(tensor.raw_data(), bytes.data() + data + offsets[0], tensor.nbytes());
      content.tensors.emplace_back(name, tensor);
      covered = offsets[1];
    }
    check(data + covered == bytes.size(), "expected {} bytes, found {}", data + covered, bytes.size());
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: not a safetensors file: {}", path.string(), error.what());
  } catch (const Error& error) {
    throw DataError("{}: not a safetensors file: {}", path.string(), error.what());
  }
  return content;
}

}  // namespace miniddp
