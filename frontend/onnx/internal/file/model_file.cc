// Splits a model into its head, nodes and initializers.
#include "frontend/onnx/internal/file/model_file.h"

#include <algorithm>
#include <limits>

#include "frontend/onnx/internal/file/data_ranges.h"
#include "frontend/onnx/internal/file/wire.h"
#include "frontend/onnx/internal/model/node_order.h"
#include "frontend/onnx/internal/model/scan.h"

namespace rannc::frontend {

namespace {
constexpr uint32_t kGraph = 7, kFunction = 25, kNode = 1,
                   kInitializer = 5;  // field numbers of onnx.proto, which never change
}

Result<ModelFile> ModelFile::read(std::string_view bytes, const std::string& file) {
  ModelFile model;
  model.file_ = file;
  std::string head;
  const WireReader reader(bytes, file);
  for (size_t at = 0; at < bytes.size();) {
    const size_t start = at;
    RANNC_ASSIGN(const WireReader::Field field, reader.next_field(at, bytes.size()));
    const bool delimited = field.wire == WireReader::kLengthDelimited;
    if (field.number == kFunction && delimited) {
      RANNC_ASSIGN(const auto changed, note_data_ranges(reader, ModelPart::kFunction, field.begin, at));
      append_field(kFunction, changed ? std::string_view(*changed) : bytes.substr(field.begin, at - field.begin), head);
      continue;
    }
    if (field.number != kGraph || !delimited) {
      head.append(bytes.substr(start, at - start));
      continue;
    }
    std::string graph;
    for (size_t inner = field.begin; inner < at;) {
      const size_t begin = inner;
      RANNC_ASSIGN(const WireReader::Field part, reader.next_field(inner, at));
      const bool whole = part.wire == WireReader::kLengthDelimited;
      if (whole && (part.number == kNode || part.number == kInitializer)) {
        const bool node = part.number == kNode;
        RANNC_ASSIGN(auto changed,
                     note_data_ranges(reader, node ? ModelPart::kNode : ModelPart::kInitializer, part.begin, inner));
        (node ? model.nodes_ : model.initializers_)
            .push_back(changed ? std::string_view(model.rewritten_.emplace_back(*std::move(changed)))
                               : bytes.substr(part.begin, inner - part.begin));
      } else {
        graph.append(bytes.substr(begin, inner - begin));
      }
    }
    append_field(kGraph, graph, head);
  }
  RANNC_TRY(model.parse(head, model.head_));
  return model;
}

Result<size_t> ModelFile::sort_nodes() {
  size_t sorted = 0;
  std::vector<NodeNames> names;
  for (std::string_view& part : nodes_) {
    ONNX_NAMESPACE::NodeProto node;
    RANNC_TRY(parse(part, node));
    if (const size_t bodies = sort_bodies(node); bodies > 0) {
      sorted += bodies;
      part = rewritten_.emplace_back(node.SerializeAsString());
    }
    names.push_back(names_of(node));
  }
  for (auto& function : *head_.mutable_functions()) sorted += frontend::sort_nodes(function);
  const std::vector<size_t> order = run_order(names);
  if (std::is_sorted(order.begin(), order.end())) return sorted;
  std::vector<std::string_view> ordered;
  for (const size_t place : order) ordered.push_back(nodes_[place]);
  nodes_ = std::move(ordered);
  return sorted + 1;
}

void ModelFile::renew(int version, std::vector<std::string> nodes) {
  nodes_.clear();
  for (std::string& node : nodes) nodes_.push_back(rewritten_.emplace_back(std::move(node)));
  for (auto& entry : *head_.mutable_opset_import()) {
    if (domain_of(entry.domain()).empty()) entry.set_version(version);
  }
  if (head_.opset_import_size() == 0) head_.add_opset_import()->set_version(version);
}

Result<void> ModelFile::parse(std::string_view part, google::protobuf::MessageLite& message) const {
  if (part.size() <= static_cast<size_t>(std::numeric_limits<int>::max()) &&
      message.ParseFromArray(part.data(), static_cast<int>(part.size()))) {
    return {};
  }
  return error(Location{file_, 0, 0, {}}, "not an ONNX model: Protocol Buffers cannot parse it");
}

}  // namespace rannc::frontend
