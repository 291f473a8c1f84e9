// safetensors: tensors by name in one file that PyTorch opens too.
// Source: the format's description (8 bytes length, JSON header, data), github.com/huggingface/safetensors.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "common/nn/module.h"

namespace miniddp {

struct SafeTensors {
  NamedTensors tensors;                         // on the CPU
  std::map<std::string, std::string> metadata;  // free text
};

/// Writes the file whole or not at all. Takes tensors of any device.
void write_safetensors(const std::filesystem::path& path, const SafeTensors& content);

/// Throws DataError, naming the file, for anything that is not a whole safetensors file of dtypes we have.
SafeTensors read_safetensors(const std::filesystem::path& path);

}  // namespace miniddp
