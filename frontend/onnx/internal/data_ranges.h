/// Takes the weights out of a serialized model, so that parsing it costs no memory for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/diagnostic.h"

namespace rannc::frontend {

/// Tensors whose raw data exceeds this stay in the file.
inline constexpr uint64_t kInlineBytes = 256;

/// A range of the model file.
struct ByteRange {
  uint64_t offset = 0, length = 0;
};

/// A copy of a serialized ModelProto in which the `doc_string` of every tensor with more than kInlineBytes of
/// `raw_data` holds the range of that data (see `byte_range`) and that of every other tensor is gone. Initializers lose
/// the data itself; tensors of attributes keep it for the checker. Nothing where that changes nothing, as in a model
/// without weights. Linear in the size; errors name the byte offset of
/// what is truncated, overlong or nested too deep.
Result<std::optional<std::string>> note_data_ranges(std::string_view model, const std::string& file);

/// Reads what `note_data_ranges` wrote.
std::optional<ByteRange> byte_range(std::string_view doc_string);

}  // namespace rannc::frontend
