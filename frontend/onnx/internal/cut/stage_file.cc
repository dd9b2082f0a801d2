#include "frontend/onnx/internal/cut/stage_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "frontend/onnx/import.h"
#include "frontend/onnx/internal/file/external_writer.h"
#include "frontend/onnx/internal/file/wire.h"
#include "frontend/onnx/internal/model/node_order.h"
#include "frontend/onnx/internal/translate/tensor.h"
#include "ir/base/replacement.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::FunctionProto;
using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;
using ONNX_NAMESPACE::ValueInfoProto;

namespace {

class StageFile {
 public:
  StageFile(const CutModel& model, const StageParts& stage, const std::string& to)
      : model_(model), stage_(stage), to_(to), data_(to + ".data") {}

  Result<bool> write() {
    std::string bytes = model_.parts.head;
    RANNC_ASSIGN(const std::string graph, serialized_graph());
    append_field(kGraphOfModel, graph, bytes);
    for (size_t i = 0; i < stage_.functions.size(); ++i) {
      if (!stage_.functions[i]) continue;
      RANNC_ASSIGN(const std::string function, serialized<FunctionProto>(model_.parts.functions[i]));
      append_field(kFunctionOfModel, function, bytes);
    }
    if (bytes.size() > ImportOptions().max_file_bytes)
      return error({to_, 0, 0, {}}, fmt::format("the stage has {} bytes, Protocol Buffers hold at most {}",
                                                bytes.size(), ImportOptions().max_file_bytes));
    RANNC_ASSIGN(const bool external, data_.commit());
    RANNC_TRY(write_file(to_, bytes));
    return external;
  }

 private:
  Result<std::string> serialized_graph() {
    RANNC_ASSIGN(const GraphProto rest, rest_of_graph());
    std::string graph = rest.SerializeAsString();
    for (const uint32_t node : stage_.nodes) {
      RANNC_ASSIGN(const std::string bytes, serialized<NodeProto>(model_.parts.nodes[model_.graph.nodes()[node].part]));
      append_field(kNodeOfGraph, bytes, graph);
    }
    for (const uint32_t part : stage_.initializers) {
      RANNC_ASSIGN(const std::string bytes, serialized<TensorProto>(model_.parts.initializers[part]));
      append_field(kInitializerOfGraph, bytes, graph);
    }
    return graph;
  }

  /// Returns a part as it is, unless its external tensors move or the nodes of its bodies are out of order.
  template <class Message>
  Result<std::string> serialized(std::string_view part) {
    RANNC_ASSIGN(Message message, model_.parts.parsed<Message>(part));
    bool changed = false;
    RANNC_TRY(take_in(message, changed));
    return changed ? message.SerializeAsString() : std::string(part);
  }

  Result<void> take_in(NodeProto& node, bool& changed) {
    changed = sort_bodies(node) > 0 || changed;
    return move_tensors(node, changed);
  }
  Result<void> take_in(FunctionProto& function, bool& changed) {
    changed = sort_nodes(function) > 0 || changed;
    for (NodeProto& node : *function.mutable_node()) RANNC_TRY(move_tensors(node, changed));
    return {};
  }
  Result<void> take_in(TensorProto& tensor, bool& changed) { return move_tensor(tensor, changed); }

  Result<void> move_tensors(NodeProto& node, bool& changed) {
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) RANNC_TRY(move_tensor(*attribute.mutable_t(), changed));
      for (TensorProto& tensor : *attribute.mutable_tensors()) RANNC_TRY(move_tensor(tensor, changed));
      if (attribute.has_g()) RANNC_TRY(move_tensors(*attribute.mutable_g(), changed));
      for (GraphProto& body : *attribute.mutable_graphs()) RANNC_TRY(move_tensors(body, changed));
    }
    return {};
  }
  Result<void> move_tensors(GraphProto& body, bool& changed) {
    for (TensorProto& tensor : *body.mutable_initializer()) RANNC_TRY(move_tensor(tensor, changed));
    for (NodeProto& node : *body.mutable_node()) RANNC_TRY(move_tensors(node, changed));
    return {};
  }
  Result<void> move_tensor(TensorProto& tensor, bool& changed) {
    if (!is_external(tensor)) return {};
    const std::string& file = model_.parts.file;
    RANNC_ASSIGN(const Tensor found, read_tensor(tensor, file, model_.external, {file, 0, 0, tensor.name()}));
    RANNC_ASSIGN(const auto bytes, found.data.read());
    changed = true;
    return data_.store(bytes, tensor);
  }

  /// The graph without nodes and initializers.
  Result<GraphProto> rest_of_graph() const {
    GraphProto graph = model_.parts.graph;
    if (graph.name().empty()) graph.set_name("graph");  // required by the checker
    graph.clear_input();
    graph.clear_output();
    std::unordered_set<std::string> edges;
    for (const auto& [tensors, list] :
         {std::pair(&stage_.inputs, graph.mutable_input()), std::pair(&stage_.outputs, graph.mutable_output())}) {
      for (const uint32_t tensor : *tensors) {
        RANNC_ASSIGN(*list->Add(), edge(model_.graph.tensors()[tensor]));
        edges.insert(model_.graph.tensors()[tensor].name);
      }
    }
    keep_facts(edges, graph);
    return graph;
  }

  /// The tensor as an input or output of the stage.
  Result<ValueInfoProto> edge(const CutGraph::Tensor& tensor) const {
    if (tensor.input != CutGraph::kNone) return model_.parts.graph.input(static_cast<int>(tensor.input));
    if (tensor.output != CutGraph::kNone) return model_.parts.graph.output(static_cast<int>(tensor.output));
    if (const ValueInfoProto* const type = model_.types.find(tensor.name)) return *type;
    return error({model_.parts.file, 0, 0, tensor.name},
                 "leaves its stage, but neither the file nor ONNX's shape inference tells its type");
  }

  /// Keeps what the file states about tensors of the stage.
  void keep_facts(const std::unordered_set<std::string>& edges, GraphProto& graph) const {
    std::unordered_set<std::string> names = edges;
    for (const uint32_t node : stage_.nodes) {
      for (const uint32_t tensor : model_.graph.nodes()[node].makes) names.insert(model_.graph.tensors()[tensor].name);
      for (const uint32_t tensor : model_.graph.nodes()[node].reads) names.insert(model_.graph.tensors()[tensor].name);
    }
    auto& types = *graph.mutable_value_info();
    types.erase(
        std::remove_if(types.begin(), types.end(),
                       [&](const auto& type) { return !names.contains(type.name()) || edges.contains(type.name()); }),
        types.end());
    auto& scales = *graph.mutable_quantization_annotation();
    scales.erase(std::remove_if(scales.begin(), scales.end(),
                                [&](const auto& scale) {
                                  const auto& used = scale.quant_parameter_tensor_names();
                                  return !names.contains(scale.tensor_name()) ||
                                         std::any_of(used.begin(), used.end(),
                                                     [&](const auto& entry) { return !names.contains(entry.value()); });
                                }),
                 scales.end());
  }

  const CutModel& model_;
  const StageParts& stage_;
  const std::string& to_;
  ExternalWriter data_;
};

}  // namespace

Result<bool> write_stage_file(const CutModel& model, const StageParts& stage, const std::filesystem::path& to) {
  const std::string path = to.string();
  return StageFile(model, stage, path).write();
}

}  // namespace rannc::frontend
