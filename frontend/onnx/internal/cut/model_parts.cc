#include "frontend/onnx/internal/cut/model_parts.h"

#include "frontend/onnx/internal/file/wire.h"

namespace rannc::frontend {

namespace {

/// Appends the graph's fields in [begin, end) other than nodes and initializers to `rest`.
Result<void> split_graph(const WireReader& reader, size_t begin, size_t end, ModelParts& parts, std::string& rest) {
  for (size_t at = begin; at < end;) {
    const size_t start = at;
    RANNC_ASSIGN(const WireReader::Field field, reader.next_field(at, end));
    const bool whole = field.wire == WireReader::kLengthDelimited;
    if (whole && field.number == kNodeOfGraph) {
      parts.nodes.push_back(reader.bytes().substr(field.begin, at - field.begin));
    } else if (whole && field.number == kInitializerOfGraph) {
      parts.initializers.push_back(reader.bytes().substr(field.begin, at - field.begin));
    } else {
      rest.append(reader.bytes().substr(start, at - start));
    }
  }
  return {};
}

}  // namespace

Result<ModelParts> ModelParts::read(std::string_view bytes, const std::string& file) {
  ModelParts parts;
  parts.file = file;
  std::string graph;
  const WireReader reader(bytes, file);
  for (size_t at = 0; at < bytes.size();) {
    const size_t start = at;
    RANNC_ASSIGN(const WireReader::Field field, reader.next_field(at, bytes.size()));
    const bool whole = field.wire == WireReader::kLengthDelimited;
    if (whole && field.number == kGraphOfModel) {
      RANNC_TRY(split_graph(reader, field.begin, at, parts, graph));
    } else if (whole && field.number == kFunctionOfModel) {
      parts.functions.push_back(bytes.substr(field.begin, at - field.begin));
    } else if (field.number != kTrainingOfModel) {
      parts.head.append(bytes.substr(start, at - start));
    }
  }
  RANNC_ASSIGN(parts.graph, parts.parsed<ONNX_NAMESPACE::GraphProto>(graph));
  if (parts.graph.sparse_initializer_size() > 0)
    return error({file, 0, 0, parts.graph.sparse_initializer(0).values().name()},
                 "sparse initializers are not supported");
  return parts;
}

}  // namespace rannc::frontend
