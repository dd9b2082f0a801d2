/// Writes a model's file of external tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/base/replacement.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// A file of external tensors that appears when it is complete.
class ExternalWriter {
 public:
  /// `path` must lie in the folder of the model. Nothing is written before the first tensor.
  explicit ExternalWriter(std::string path) : path_(std::move(path)), replacement_(path_) {}

  /// Appends `bytes`, aligned, and makes them the data of `tensor`.
  Result<void> store(const std::vector<std::byte>& bytes, ONNX_NAMESPACE::TensorProto& tensor);
  /// Moves the file into place. Returns whether there is one.
  Result<bool> commit();

 private:
  Result<uint64_t> add(const std::vector<std::byte>& bytes);
  Diagnostic failed() const;

  std::string path_;
  Replacement replacement_;
  std::ofstream stream_;
  uint64_t size_ = 0;
};

bool is_external(const ONNX_NAMESPACE::TensorProto& tensor);
/// Removes all data of a tensor.
void clear_data(ONNX_NAMESPACE::TensorProto& tensor);

}  // namespace rannc::frontend
