/// Iterates over the fields of serialized Protocol Buffers messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/base/diagnostic.h"

namespace rannc::frontend {

class WireReader {
 public:
  /// `file` is for messages. Both must outlive the reader.
  WireReader(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  struct Field {
    uint32_t number = 0;
    uint32_t wire = 0;
    size_t begin = 0;  ///< start of the value, after the length of a length-delimited field (wire 2)
  };
  static constexpr uint32_t kLengthDelimited = 2;

  std::string_view bytes() const { return bytes_; }
  /// Reads the tag and length of a field that ends at `end` or before, and moves `at` past the field.
  Result<Field> next_field(size_t& at, size_t end) const;
  /// Returns an error that names byte `at`.
  Diagnostic broken(size_t at, std::string_view what) const;

 private:
  Result<uint64_t> varint(size_t& at, size_t end) const;

  std::string_view bytes_;
  const std::string& file_;
};

/// Appends a length-delimited field to a serialized message.
void append_field(uint32_t number, std::string_view body, std::string& out);

}  // namespace rannc::frontend
