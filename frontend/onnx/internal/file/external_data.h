/// Locates tensors in external files, confined to the model's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"
#include "onnx/onnx_pb.h"

namespace rannc::frontend {

/// The external files of one model. Nothing is opened for reading or allocated before all checks pass.
class ExternalData {
 public:
  /// `may_be_missing`: an absent file is no error; its tensors have no data.
  explicit ExternalData(const std::filesystem::path& model, bool may_be_missing = false);
  /// Returns the range of `tensor`, which must have `bytes` bytes. Errors: no location, an absolute path, `..`, a path
  /// that leaves the model's folder by a symbolic link, anything but a regular file, a file with several hard links, an
  /// offset or length that is no non-negative integer, a length other than `bytes`, a range beyond the end of the file.
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
  std::map<std::string, File> files_;  ///< checked files by location
};

/// Whether a tensor of an attribute lies in an external file.
bool has_external_data(const ONNX_NAMESPACE::NodeProto& node);
/// Returns the node with such tensors emptied, for ONNX's checker, which would search for the files in the current
/// working directory.
ONNX_NAMESPACE::NodeProto without_external_data(ONNX_NAMESPACE::NodeProto node);

}  // namespace rannc::frontend
