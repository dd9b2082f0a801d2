// Reads and writes tags, lengths and integers of Protocol Buffers.
#include "frontend/onnx/internal/file/wire.h"

#include <fmt/format.h>

namespace rannc::frontend {

Diagnostic WireReader::broken(size_t at, std::string_view what) const {
  return error(Location{file_}, fmt::format("not an ONNX model: {} at byte {}", what, at));
}

Result<uint64_t> WireReader::varint(size_t& at, size_t end) const {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at >= end) return broken(at, "the file or a message in it ends too early");
    const auto byte = static_cast<uint8_t>(bytes_[at++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (shift < 64 ? shift : 63);
    if ((byte & 0x80) == 0) return value;
  }
  return broken(at, "a number is too long");
}

Result<WireReader::Field> WireReader::next_field(size_t& at, size_t end) const {
  RANNC_ASSIGN(const uint64_t tag, varint(at, end));
  Field field{static_cast<uint32_t>(tag >> 3), static_cast<uint32_t>(tag & 7), at};
  if (field.number == 0 || tag >> 32 != 0) return broken(at, "a field has no valid number");
  uint64_t length = 0;
  switch (field.wire) {
    case 0:
      RANNC_TRY(varint(at, end));
      return field;
    case 1:
      length = 8;
      break;
    case 2: {
      RANNC_ASSIGN(length, varint(at, end));
      field.begin = at;
      break;
    }
    case 5:
      length = 4;
      break;
    default:
      return broken(at, "a field has an unknown encoding");
  }
  if (length > end - at) return broken(at, "the file or a message in it ends too early");
  at += length;
  return field;
}

namespace {
void append_varint(uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}
}  // namespace

void append_field(uint32_t number, std::string_view body, std::string& out) {
  append_varint(static_cast<uint64_t>(number) << 3 | 2, out);
  append_varint(body.size(), out);
  out.append(body);
}

}  // namespace rannc::frontend
