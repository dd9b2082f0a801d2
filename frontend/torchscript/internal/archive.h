/// A TorchScript archive as LibTorch reads it, and where in its file the tensors lie.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "ir/diagnostic.h"
#include "ir/type.h"

namespace rannc::frontend::torchscript {

class RecordingReader;

class Archive {
 public:
  /// Errors: the file cannot be read, is no archive of TorchScript (and what it is instead), or LibTorch refuses it.
  static Result<Archive> open(const std::filesystem::path& path, uint64_t max_bytes);

  const torch::jit::Module& module() const { return module_; }
  const std::string& path() const { return path_; }
  /// The bytes of a tensor, row-major: a range of the file where they lie there as they are, else in memory.
  ir::TensorData data(const at::Tensor& tensor) const;

 private:
  std::string path_;
  std::shared_ptr<RecordingReader> reader_;
  torch::jit::Module module_;
};

}  // namespace rannc::frontend::torchscript
