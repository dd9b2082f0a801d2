/// Finds tensors that a model keeps in files beside it, confined to the model's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// The external files of one model. Nothing is opened for reading or allocated before all is checked.
class ExternalData {
 public:
  /// `may_be_missing`: a file that is not there is no error, its tensors have no data.
  explicit ExternalData(const std::filesystem::path& model, bool may_be_missing = false);
  /// The range of `tensor`, which must have `bytes` bytes. Refused: no location, absolute paths, `..`, a path that
  /// leaves the model's folder by a symbolic link, anything but a regular file, a file with further names (hard links),
  /// offset or length that is no non-negative integer, a length other than `bytes`, a range beyond the file's end.
  Result<ir::TensorData> locate(const ONNX_NAMESPACE::TensorProto& tensor, uint64_t bytes, const Location& where);

 private:
  struct File {
    std::string path;
    uint64_t size = 0;
    bool missing = false;
  };
  Result<const File*> find(const std::string& location, const Location& where);

  std::filesystem::path folder_;
  bool may_be_missing_;
  std::map<std::string, File> files_;  ///< by location, as found before
};

/// Whether a tensor of an attribute lies in an external file.
bool has_external_data(const ONNX_NAMESPACE::NodeProto& node);
/// The node with empty tensors in place of those. For ONNX's checker, which would look for the files in the folder that
/// the process happens to run in.
ONNX_NAMESPACE::NodeProto without_external_data(ONNX_NAMESPACE::NodeProto node);

}  // namespace rannc::frontend
