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

namespace {

constexpr uint64_t largest_file = uint64_t{1} << 30;  // our networks' checkpoints have 11 MB at most
constexpr size_t most_dims = 16;

// JSON lets a name stand twice and readers disagree on which one counts.
nlohmann::ordered_json parse_header(std::string_view text) {
  std::set<std::string> names;
  const auto look = [&names](int depth, nlohmann::ordered_json::parse_event_t event, nlohmann::ordered_json& parsed) {
    if (depth == 1 && event == nlohmann::ordered_json::parse_event_t::key) {
      const auto name = parsed.get<std::string>();
      check(names.insert(name).second, "the name {} stands twice in its header", name);
    }
    return true;
  };
  auto header = nlohmann::ordered_json::parse(text.begin(), text.end(), look);
  check(header.is_object(), "expected a JSON object as its header");
  return header;
}

// nlohmann-json turns fractions and negative numbers into what was asked for.
uint64_t whole(const nlohmann::ordered_json& number) {
  check(number.is_number_unsigned(), "expected a whole number, found {}", number.dump());
  return number.get<uint64_t>();
}

}  // namespace

SafeTensors read_safetensors(const std::filesystem::path& path) {
  constexpr const char* what = "a checkpoint (safetensors)";
  const uint64_t size = file_size_of(path, what);
  check<DataError>(size <= largest_file, "{}: expected {} of at most {} bytes, found {}", path.string(), what, largest_file, size);
  const std::string bytes = read_file(path, what);
  SafeTensors content;
  try {
    uint64_t length = 0;
    check(bytes.size() >= sizeof length, "expected at least 8 bytes, found {}", bytes.size());
    std::memcpy(&length, bytes.data(), sizeof length);
    check(length <= bytes.size() - sizeof length, "its header claims {} bytes, the file has {}", length, bytes.size());
    const auto header = parse_header(std::string_view(bytes).substr(sizeof length, length));
    const size_t data = sizeof length + length;
    size_t covered = 0;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        content.metadata = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      const DType dtype = dtype_from(entry.at("dtype").get<std::string>());
      check(entry.at("shape").is_array() && entry.at("shape").size() <= most_dims, "tensor {}: expected a shape of at most {} dimensions",
            name, most_dims);
      Shape shape;
      for (const auto& dim : entry.at("shape")) shape.push_back(static_cast<int64_t>(whole(dim)));
      std::vector<uint64_t> offsets;
      for (const auto& offset : entry.at("data_offsets")) offsets.push_back(whole(offset));
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
