#include "frontend/onnx/internal/cut/tensor_types.h"

#include <algorithm>
#include <exception>
#include <unordered_set>

#include "frontend/onnx/internal/file/external_writer.h"
#include "frontend/onnx/internal/model/node_order.h"
#include "frontend/onnx/internal/translate/tensor.h"
#include "onnx/shape_inference/implementation.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;
using ONNX_NAMESPACE::TypeProto;
using ONNX_NAMESPACE::ValueInfoProto;

namespace {

/// Shapes depend on integers alone, and on few of them.
bool matters(const TensorProto& tensor) {
  constexpr int64_t kMost = 64;
  int64_t count = 1;
  for (const int64_t extent : tensor.dims()) count = extent > 0 && count > kMost / extent ? kMost + 1 : count * extent;
  const bool integers = tensor.data_type() == TensorProto::INT64 || tensor.data_type() == TensorProto::INT32;
  return !is_external(tensor) && (integers || count <= kMost) && count <= kMost;
}

ValueInfoProto as_input(const TensorProto& tensor) {
  ValueInfoProto input;
  input.set_name(tensor.name());
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(tensor.data_type());
  type.mutable_shape();
  for (const int64_t extent : tensor.dims()) type.mutable_shape()->add_dim()->set_dim_value(extent);
  return input;
}

/// The node without anything that types do not depend on.
NodeProto lightened(NodeProto node) {
  node.clear_doc_string();
  node.clear_metadata_props();
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t() && !matters(attribute.t()) && attribute.t().data_type() != TensorProto::STRING)
      clear_data(*attribute.mutable_t());
  }
  return node;
}

/// The model with small stored tensors. The others are inputs.
Result<ModelProto> without_weights(const ModelParts& parts, const CutGraph& order) {
  RANNC_ASSIGN(ModelProto model, parts.parsed<ModelProto>(parts.head));
  GraphProto& graph = *model.mutable_graph() = parts.graph;
  std::unordered_set<std::string> inputs;
  for (const auto& input : graph.input()) inputs.insert(input.name());
  for (const std::string_view part : parts.initializers) {
    RANNC_ASSIGN(const auto tensor, parts.parsed<TensorProto>(part));
    if (matters(tensor)) {
      *graph.add_initializer() = tensor;
    } else if (inputs.insert(tensor.name()).second) {
      *graph.add_input() = as_input(tensor);
    }
  }
  for (const CutGraph::Node& each : order.nodes()) {
    RANNC_ASSIGN(auto node, parts.parsed<NodeProto>(parts.nodes[each.part]));
    sort_bodies(node);
    *graph.add_node() = lightened(std::move(node));
  }
  for (const std::string_view part : parts.functions) {
    RANNC_ASSIGN(*model.add_functions(), parts.parsed<ONNX_NAMESPACE::FunctionProto>(part));
  }
  return model;
}

template <class Visit>
void each_dim(TypeProto& type, Visit&& visit) {
  if (type.has_sequence_type()) return each_dim(*type.mutable_sequence_type()->mutable_elem_type(), visit);
  if (type.has_optional_type()) return each_dim(*type.mutable_optional_type()->mutable_elem_type(), visit);
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return;
  for (auto& dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) visit(dim);
}

bool is_known(const TypeProto& type) {
  if (type.has_sequence_type()) return is_known(type.sequence_type().elem_type());
  if (type.has_optional_type()) return is_known(type.optional_type().elem_type());
  return type.has_tensor_type() && type.tensor_type().elem_type() != TensorProto::UNDEFINED &&
         type.tensor_type().has_shape();
}

/// The passes change sizes, such as that of the batch, but no rank.
void add_rank(const ir::Graph& imported, ValueInfoProto& value) {
  if (!value.type().has_tensor_type() || value.type().tensor_type().has_shape()) return;
  const ValueId found = imported.find(value.name());
  if (!found.valid() || !imported.type(found).shape) return;
  auto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (size_t i = 0; i < imported.type(found).shape->size(); ++i) shape.add_dim();
}

std::unordered_set<std::string> symbols_of(GraphProto graph) {
  std::unordered_set<std::string> symbols;
  for (auto* const list : {graph.mutable_input(), graph.mutable_output(), graph.mutable_value_info()}) {
    for (auto& value : *list) each_dim(*value.mutable_type(), [&](auto& dim) { symbols.insert(dim.dim_param()); });
  }
  return symbols;
}

}  // namespace

Result<TensorTypes> TensorTypes::of(const ModelParts& parts, const CutGraph& graph, const ir::Graph& imported) {
  RANNC_ASSIGN(ModelProto model, without_weights(parts, graph));
  try {
    const ONNX_NAMESPACE::ShapeInferenceOptions options(false, 0, /*data_prop_val=*/true);
    ONNX_NAMESPACE::shape_inference::InferShapes(model, ONNX_NAMESPACE::OpSchemaRegistry::Instance(), options);
  } catch (const std::exception&) {
    // The types of the file and those inferred so far remain. A missing one is an error where it is needed.
  }
  TensorTypes types;
  const std::unordered_set<std::string> symbols = symbols_of(parts.graph);
  auto& whole = *model.mutable_graph();
  for (auto* const list : {whole.mutable_input(), whole.mutable_output(), whole.mutable_value_info()}) {
    for (ValueInfoProto& value : *list) {
      add_rank(imported, value);
      if (!is_known(value.type())) continue;
      ValueInfoProto& kept = types.types_.emplace(value.name(), value).first->second;
      each_dim(*kept.mutable_type(), [&](auto& dim) {
        if (dim.has_dim_value() && dim.dim_value() < 0) dim.clear_dim_value();
        if (dim.has_dim_param() && !symbols.contains(dim.dim_param())) dim.clear_dim_param();
      });
    }
  }
  return types;
}

const ValueInfoProto* TensorTypes::find(const std::string& name) const {
  const auto found = types_.find(name);
  return found == types_.end() ? nullptr : &found->second;
}

int64_t TensorTypes::bytes(const std::string& name) const {
  constexpr int64_t kUnknown = 32, kMost = int64_t{1} << 32;  // sums of many fit
  const ValueInfoProto* const type = find(name);
  if (type == nullptr || !type->type().has_tensor_type()) return kMost;
  const auto& tensor = type->type().tensor_type();
  const auto dtype = element_type(tensor.elem_type());
  int64_t bytes = dtype ? static_cast<int64_t>(ir::byte_size(*dtype)) : 8;
  for (const auto& dim : tensor.shape().dim()) {
    const int64_t extent = dim.has_dim_value() ? std::max<int64_t>(dim.dim_value(), 1) : kUnknown;
    bytes = bytes > kMost / extent ? kMost : bytes * extent;
  }
  return bytes;
}

}  // namespace rannc::frontend
