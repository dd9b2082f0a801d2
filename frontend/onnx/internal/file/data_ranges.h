/// Takes the weights out of a serialized model, so that parsing it costs no memory for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "frontend/onnx/internal/file/wire.h"
#include "ir/base/diagnostic.h"

namespace rannc::frontend {

/// Tensors whose raw data exceeds this stay in the file.
inline constexpr uint64_t kInlineBytes = 256;

/// A range of the model file.
struct ByteRange {
  uint64_t offset = 0, length = 0;
};

/// Messages of a model that may hold tensors.
enum class ModelPart : uint8_t { kNode, kInitializer, kFunction };

/// A copy of a message that lies at [begin, end) of a serialized model, in which the `doc_string` of every tensor with
/// more than kInlineBytes of `raw_data` holds the range of that data (see `byte_range`) and that of every other tensor
/// is gone. Initializers lose the data itself; tensors of attributes keep it for the checker. Nothing where that
/// changes nothing, as in nearly all nodes. Linear in the size; errors name the byte offset of what is truncated,
/// overlong or nested too deep.
Result<std::optional<std::string>> note_data_ranges(const WireReader& model, ModelPart part, size_t begin, size_t end);

/// Reads what `note_data_ranges` wrote.
std::optional<ByteRange> byte_range(std::string_view doc_string);

}  // namespace rannc::frontend
