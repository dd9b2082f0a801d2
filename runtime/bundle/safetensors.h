/// Reads and writes .safetensors files. Input is untrusted.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/type.h"
#include "runtime/execute/value.h"

namespace rannc::runtime {

/// The format: header length (8 bytes, little-endian), a JSON object {name: {dtype, shape, data_offsets}}, the data.
/// https://huggingface.co/docs/safetensors
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    TensorSpec spec;
    uint64_t offset = 0;  ///< of the first byte in the file
  };

  /// Reads only the header. Errors name the file, the tensor, what was found and what was allowed:
  /// - a header longer than the file or 100 MB, or one that is not such an object;
  /// - unknown element types, negative or overflowing sizes;
  /// - ranges that do not match the shape, overlap, leave gaps or exceed the file.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }  ///< sorted by name
  const Entry* find(std::string_view name) const;                 ///< null if absent
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The data, row-major and little-endian. It is read when needed.
  ir::TensorData data(const Entry& entry) const;

 private:
  std::string path_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// A tensor to write. `bytes` is called once, when the tensor is written, so that a model larger than memory can be
/// written. Its result must stay valid until the next call.
struct SafetensorsTensor {
  std::string name;
  TensorSpec spec;
  std::function<Result<std::span<const std::byte>>()> bytes;
};

/// Writes a temporary sibling, flushes it to disk and renames it to `path`. Tensors are sorted by descending element
/// width, then by name, so that all are aligned. Equal input gives equal bytes. An error leaves no file behind.
/// `before_flush` is called when the bytes of all tensors have been used.
Result<void> write_safetensors(const std::string& path, std::vector<SafetensorsTensor> tensors,
                               const std::map<std::string, std::string>& metadata = {},
                               const std::function<void()>& before_flush = {});

}  // namespace rannc::runtime
