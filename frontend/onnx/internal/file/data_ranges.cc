#include "frontend/onnx/internal/file/data_ranges.h"

#include <fmt/format.h>

#include <charconv>

#include "frontend/onnx/internal/file/wire.h"

namespace rannc::frontend {

namespace {

constexpr int kMaxDepth = 64;

/// Messages on the path to tensors.
enum class Message : uint8_t { kNone, kGraph, kNode, kAttribute, kFunction, kInitializer, kAttributeTensor };

/// The message in field `number` of `of`. Field numbers of onnx.proto3 never change.
Message child(Message of, uint32_t number) {
  switch (of) {
    case Message::kGraph:
      return number == 1 ? Message::kNode : number == 5 ? Message::kInitializer : Message::kNone;
    case Message::kNode:
      return number == 5 ? Message::kAttribute : Message::kNone;
    case Message::kAttribute:
      if (number == 5 || number == 10) return Message::kAttributeTensor;
      return number == 6 || number == 11 ? Message::kGraph : Message::kNone;
    case Message::kFunction:
      return number == 7 ? Message::kNode : number == 11 ? Message::kAttribute : Message::kNone;
    default:
      return Message::kNone;
  }
}

constexpr uint32_t kRawData = 9, kDocString = 12;

class Rewriter {
 public:
  explicit Rewriter(const WireReader& reader) : reader_(reader) {}

  /// Whether rewriting changes anything in the message at [begin, end) of the model; the same errors as `message`.
  Result<bool> changes(Message kind, size_t begin, size_t end, int depth) const {
    if (depth > kMaxDepth) return reader_.broken(begin, "messages are nested too deep");
    const bool tensor = kind == Message::kInitializer || kind == Message::kAttributeTensor;
    bool found = false;
    for (size_t at = begin; at < end;) {
      RANNC_ASSIGN(const WireReader::Field field, reader_.next_field(at, end));
      const Message inner = field.wire == WireReader::kLengthDelimited ? child(kind, field.number) : Message::kNone;
      if (inner != Message::kNone) {
        RANNC_ASSIGN(const bool below, changes(inner, field.begin, at, depth + 1));
        found = found || below;
      }
      const bool large = field.number == kRawData && at - field.begin > kInlineBytes;
      found = found || (tensor && (field.number == kDocString || large));
    }
    return found;
  }

  /// Rewrites the fields of a message that lies at [begin, end) of the model, appending to `out`.
  Result<void> message(Message kind, size_t begin, size_t end, int depth, std::string& out) {
    if (depth > kMaxDepth) return reader_.broken(begin, "messages are nested too deep");
    const bool tensor = kind == Message::kInitializer || kind == Message::kAttributeTensor;
    std::optional<ByteRange> data;
    for (size_t at = begin; at < end;) {
      const size_t start = at;
      RANNC_ASSIGN(const WireReader::Field field, reader_.next_field(at, end));
      const Message inner = field.wire == WireReader::kLengthDelimited ? child(kind, field.number) : Message::kNone;
      if (inner != Message::kNone) {
        std::string body;
        RANNC_TRY(message(inner, field.begin, at, depth + 1, body));
        append_field(field.number, body, out);
        continue;
      }
      if (tensor && field.number == kDocString) continue;
      if (tensor && field.number == kRawData && field.wire == WireReader::kLengthDelimited) {
        data.reset();
        if (at - field.begin > kInlineBytes) data = ByteRange{field.begin, at - field.begin};
        if (data && kind == Message::kInitializer) continue;
      }
      out.append(reader_.bytes().substr(start, at - start));
    }
    if (data) append_field(kDocString, fmt::format("{}:{}", data->offset, data->length), out);
    return {};
  }

 private:
  const WireReader& reader_;
};

}  // namespace

Result<std::optional<std::string>> note_data_ranges(const WireReader& model, ModelPart part, size_t begin, size_t end) {
  // Functions are fields of the model, the others of its graph.
  const int depth = part == ModelPart::kFunction ? 1 : 2;
  const Message kind = part == ModelPart::kFunction ? Message::kFunction
                       : part == ModelPart::kNode   ? Message::kNode
                                                    : Message::kInitializer;
  Rewriter rewriter(model);
  RANNC_ASSIGN(const bool changes, rewriter.changes(kind, begin, end, depth));
  if (!changes) return std::optional<std::string>();
  std::string out;
  RANNC_TRY(rewriter.message(kind, begin, end, depth, out));
  return std::optional(std::move(out));
}

std::optional<ByteRange> byte_range(std::string_view doc_string) {
  ByteRange range;
  const char* const end = doc_string.data() + doc_string.size();
  const auto offset = std::from_chars(doc_string.data(), end, range.offset);
  if (offset.ec != std::errc() || offset.ptr == end || *offset.ptr != ':') return std::nullopt;
  const auto length = std::from_chars(offset.ptr + 1, end, range.length);
  if (length.ec != std::errc() || length.ptr != end) return std::nullopt;
  return range;
}

}  // namespace rannc::frontend
