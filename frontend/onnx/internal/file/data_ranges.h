/// Removes the weights from a serialized model, so that parsing needs no memory for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "frontend/onnx/internal/file/wire.h"
#include "ir/base/diagnostic.h"

namespace rannc::frontend {

/// Tensors with more bytes of raw data stay in the file.
inline constexpr uint64_t kInlineBytes = 256;

/// A range of the model file.
struct ByteRange {
  uint64_t offset = 0, length = 0;
};

/// Messages of a model that may contain tensors.
enum class ModelPart : uint8_t { kNode, kInitializer, kFunction };

/// Returns a copy of the message at [begin, end) of a serialized model in which `doc_string` fields contain data ranges
/// (see `byte_range`). Every tensor with more than kInlineBytes of `raw_data` gets its range there. `doc_string` of
/// every other tensor is removed. Data of initializers is removed too; tensors of attributes keep it for the checker.
/// Returns nothing if the copy would be identical, as for nearly all nodes. Linear in the size. Errors name the byte
/// offset of a truncated, overlong or too deeply nested field.
Result<std::optional<std::string>> note_data_ranges(const WireReader& model, ModelPart part, size_t begin, size_t end);

/// Parses a range written by `note_data_ranges`.
std::optional<ByteRange> byte_range(std::string_view doc_string);

}  // namespace rannc::frontend
