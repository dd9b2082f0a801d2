/// The file of an archive, as LibTorch's readers ask for it, and where in it the tensors lie.
#pragma once

#include <ATen/core/Tensor.h>
#include <caffe2/serialize/read_adapter_interface.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"

namespace rannc::frontend::torchscript {

class RecordingReader;

class ArchiveFile {
 public:
  /// Errors: the file cannot be read, is too large, or is no archive of PyTorch.
  static Result<ArchiveFile> open(const std::filesystem::path& path, uint64_t max_bytes);

  const std::string& path() const { return path_; }
  uint64_t bytes() const;
  std::shared_ptr<caffe2::serialize::ReadAdapterInterface> reader() const;
  /// The bytes of a tensor, row-major: a range of the file where the memory of its storage was read from there as it
  /// is, else in memory.
  ir::TensorData data(const at::Tensor& tensor) const;

 private:
  std::string path_;
  std::shared_ptr<RecordingReader> reader_;
};

}  // namespace rannc::frontend::torchscript
