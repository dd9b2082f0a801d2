/// Serializes a model again with changed tensors.
#pragma once

#include <string>

#include "frontend/onnx/internal/file/external_writer.h"
#include "frontend/onnx/internal/file/stored_changes.h"

namespace rannc::frontend {

/// A serialized model with its file of external tensors.
class CopiedModel {
 public:
  /// `bytes` is the content of `from`. All arguments taken by reference must outlive this object.
  CopiedModel(std::string_view bytes, const std::filesystem::path& from, const StoredChanges& changes,
              std::string data_file);

  /// Returns the serialized model. Unchanged fields are copied verbatim. External tensors are written to a temporary
  /// sibling of the data file. Returns an error if a function or a body has external tensors.
  Result<std::string> write();
  /// Moves the data file into place. Returns whether there is one.
  Result<bool> commit_data();

 private:
  Result<std::string> graph(size_t begin, size_t end);
  Result<bool> change_node(ONNX_NAMESPACE::NodeProto& node, size_t number);
  Result<bool> change_tensor(ONNX_NAMESPACE::TensorProto& tensor, const std::string& name);
  Result<void> fill(ONNX_NAMESPACE::TensorProto& tensor, const std::vector<std::byte>& bytes, bool external);
  Result<void> append_added(std::string& graph);

  std::string_view bytes_;
  std::string file_;
  const StoredChanges& changes_;
  ExternalData external_;
  ExternalWriter data_;
  size_t nodes_ = 0;
  bool any_external_ = false, added_ = false;
};

}  // namespace rannc::frontend
