/// An archive, a file or its bytes, with the positions of tensors in it.
#pragma once

#include <ATen/core/Tensor.h>
#include <caffe2/serialize/read_adapter_interface.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "frontend/import.h"
#include "frontend/torchscript/internal/archive/zip_directory.h"
#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"

namespace rannc::frontend::torchscript {

class RecordingReader;

class ArchiveFile {
 public:
  /// Errors: the file cannot be read, is too large, is no PyTorch archive, or has a directory that
  /// `read_zip_directory` rejects.
  static Result<ArchiveFile> open(const ModelSource& source, uint64_t max_bytes);

  const std::string& path() const { return path_; }
  uint64_t bytes() const;
  std::shared_ptr<caffe2::serialize::ReadAdapterInterface> reader() const;
  const ZipDirectory& directory() const { return directory_; }
  /// Numbers that the archive lacks, by `state_dict` names.
  const std::map<std::string, ir::TensorData>& tensors() const { return tensors_; }
  /// The bytes of a tensor in row-major order: a range of the file if its storage is an unmodified copy of that range,
  /// or else bytes in memory. An error if those in memory, with the `copied` ones of earlier calls, are more than the
  /// archive may unpack to, as of small tensors that are expanded. Adds them to `copied`.
  Result<ir::TensorData> data(const at::Tensor& tensor, uint64_t& copied) const;

 private:
  std::string path_;
  std::shared_ptr<const std::byte> memory_;  // null: a file
  std::map<std::string, ir::TensorData> tensors_;
  std::shared_ptr<RecordingReader> reader_;
  ZipDirectory directory_;
};

}  // namespace rannc::frontend::torchscript
