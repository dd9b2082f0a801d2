/// Reads and writes .safetensors files, trusting nothing in them.
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

/// The format: 8 bytes little-endian header length, a JSON object {name: {dtype, shape, data_offsets}}, the bytes.
/// https://huggingface.co/docs/safetensors
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    TensorSpec spec;
    uint64_t offset = 0;  ///< of the first byte in the file
  };

  /// Reads the header alone. Errors name the file, the tensor, what was found and what was allowed: a header longer
  /// than the file or 100 MB, anything that is no such object, unknown element types, negative or overflowing sizes,
  /// ranges that do not fit the shape, overlap, leave gaps or leave the file.
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<Entry>& entries() const { return entries_; }  ///< sorted by name
  const Entry* find(std::string_view name) const;                 ///< null: not there
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The bytes, row-major and little-endian, to be read when needed.
  ir::TensorData data(const Entry& entry) const;

 private:
  std::string path_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

/// A tensor to write. `bytes` is called once, when it is the tensor's turn, so that a model larger than memory can be
/// written; what it returns must stay valid until the next call.
struct SafetensorsTensor {
  std::string name;
  TensorSpec spec;
  std::function<Result<std::span<const std::byte>>()> bytes;
};

/// Writes a temporary sibling, flushes it to disk and renames it to `path`. Tensors with wide elements come first, then
/// by name, so that all are aligned; equal input gives equal bytes. After an error nothing is left behind.
Result<void> write_safetensors(const std::string& path, std::vector<SafetensorsTensor> tensors,
                               const std::map<std::string, std::string>& metadata = {});

}  // namespace rannc::runtime
