#include "frontend/onnx/internal/file/copied_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "frontend/onnx/internal/file/wire.h"
#include "frontend/onnx/internal/model/scan.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::AttributeProto;
using ONNX_NAMESPACE::FunctionProto;
using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

constexpr uint32_t kGraph = 7, kFunction = 25, kNode = 1, kInitializer = 5;  // field numbers of onnx.proto

bool has_external(const NodeProto& node, bool in_bodies_alone);

bool has_external(const GraphProto& graph) {
  const auto& stored = graph.initializer();
  return std::any_of(stored.begin(), stored.end(), is_external) ||
         std::any_of(graph.node().begin(), graph.node().end(),
                     [](const NodeProto& node) { return has_external(node, false); });
}

bool has_external(const NodeProto& node, bool in_bodies_alone) {
  return std::any_of(node.attribute().begin(), node.attribute().end(), [&](const AttributeProto& attribute) {
    if (!in_bodies_alone && attribute.has_t() && is_external(attribute.t())) return true;
    return (attribute.has_g() && has_external(attribute.g())) ||
           std::any_of(attribute.graphs().begin(), attribute.graphs().end(),
                       [](const GraphProto& graph) { return has_external(graph); });
  });
}

template <class Message>
Result<Message> parsed(std::string_view bytes, const std::string& file) {
  Message message;
  if (bytes.size() <= static_cast<size_t>(INT_MAX) &&
      message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return message;
  return error({file, 0, 0, {}}, "not an ONNX model: Protocol Buffers cannot parse it");
}

}  // namespace

CopiedModel::CopiedModel(std::string_view bytes, const std::filesystem::path& from, const StoredChanges& changes,
                         std::string data_file)
    : bytes_(bytes), file_(from.string()), changes_(changes), external_(from), data_(std::move(data_file)) {}

Result<std::string> CopiedModel::write() {
  std::string copy;
  const WireReader reader(bytes_, file_);
  for (size_t at = 0; at < bytes_.size();) {
    const size_t start = at;
    RANNC_ASSIGN(const WireReader::Field field, reader.next_field(at, bytes_.size()));
    const bool delimited = field.wire == WireReader::kLengthDelimited;
    if (delimited && field.number == kFunction) {
      RANNC_ASSIGN(const auto function, parsed<FunctionProto>(bytes_.substr(field.begin, at - field.begin), file_));
      for (const NodeProto& node : function.node()) {
        if (has_external(node, false))
          return error({file_, 0, 0, node_name(node)}, "a copy can't have external tensors in functions");
      }
    }
    if (delimited && field.number == kGraph) {
      RANNC_ASSIGN(const std::string changed, graph(field.begin, at));
      append_field(kGraph, changed, copy);
    } else {
      copy.append(bytes_.substr(start, at - start));
    }
  }
  return copy;
}

Result<bool> CopiedModel::commit_data() { return data_.commit(); }

Result<std::string> CopiedModel::graph(size_t begin, size_t end) {
  std::string copy;
  const WireReader reader(bytes_, file_);
  for (size_t at = begin; at < end;) {
    const size_t start = at;
    RANNC_ASSIGN(const WireReader::Field field, reader.next_field(at, end));
    const std::string_view body = bytes_.substr(field.begin, at - field.begin);
    const bool delimited = field.wire == WireReader::kLengthDelimited;
    bool changed = false;
    if (delimited && field.number == kNode) {
      RANNC_ASSIGN(auto node, parsed<NodeProto>(body, file_));
      const size_t number = nodes_++;
      if (node.output_size() == 1 && changes_.dropped.contains(node.output(0))) continue;
      RANNC_ASSIGN(changed, change_node(node, number));
      if (changed) append_field(kNode, node.SerializeAsString(), copy);
    } else if (delimited && field.number == kInitializer) {
      RANNC_ASSIGN(auto tensor, parsed<TensorProto>(body, file_));
      RANNC_ASSIGN(changed, change_tensor(tensor, tensor.name()));
      if (changed) append_field(kInitializer, tensor.SerializeAsString(), copy);
    }
    if (!changed) copy.append(bytes_.substr(start, at - start));
  }
  RANNC_TRY(append_added(copy));
  return copy;
}

Result<bool> CopiedModel::change_node(NodeProto& node, size_t number) {
  if (has_external(node, true))
    return error({file_, 0, 0, node_name(node)}, "a copy can't have external tensors in bodies");
  bool changed = false;
  for (auto name = changes_.operands.lower_bound({number, 0});
       name != changes_.operands.end() && name->first.first == number; ++name) {
    const int operand = name->first.second;
    if (operand == node.input_size()) node.add_input();
    node.set_input(operand, name->second);
    changed = true;
  }
  for (AttributeProto& attribute : *node.mutable_attribute()) {
    if (!attribute.has_t()) continue;
    const std::string name = node.op_type() == "Constant" && node.output_size() == 1 ? node.output(0) : "";
    RANNC_ASSIGN(const bool other, change_tensor(*attribute.mutable_t(), name));
    changed = changed || other;
  }
  return changed;
}

/// Updates the tensor of the initializer or Constant node with that name. An unchanged external tensor is moved.
Result<bool> CopiedModel::change_tensor(TensorProto& tensor, const std::string& name) {
  const auto change = name.empty() ? changes_.tensors.end() : changes_.tensors.find(name);
  const bool external = is_external(tensor);
  any_external_ = any_external_ || external;
  if (change != changes_.tensors.end()) {
    RANNC_ASSIGN(const auto bytes, change->second.read());
    RANNC_TRY(fill(tensor, bytes, external));
    return true;
  }
  if (!external) return false;
  RANNC_ASSIGN(const Tensor kept, read_tensor(tensor, file_, external_, {file_, 0, 0, name}));
  RANNC_ASSIGN(const auto bytes, kept.data.read());
  RANNC_TRY(fill(tensor, bytes, true));
  return true;
}

Result<void> CopiedModel::fill(TensorProto& tensor, const std::vector<std::byte>& bytes, bool external) {
  if (external) return data_.store(bytes, tensor);
  clear_data(tensor);
  tensor.set_raw_data(bytes.data(), bytes.size());
  return {};
}

/// Appends the added initializers only once, because a graph message may be split into several parts.
Result<void> CopiedModel::append_added(std::string& graph) {
  if (added_) return {};
  added_ = true;
  for (const auto& [name, tensor] : changes_.added) {
    TensorProto proto;
    proto.set_name(name);
    proto.set_data_type(onnx_element_type(tensor.type.dtype));
    for (const ir::Dim& dim : *tensor.type.shape) proto.add_dims(dim.constant());
    RANNC_ASSIGN(const auto bytes, tensor.data.read());
    RANNC_TRY(fill(proto, bytes, any_external_));
    append_field(kInitializer, proto.SerializeAsString(), graph);
  }
  return {};
}

}  // namespace rannc::frontend
