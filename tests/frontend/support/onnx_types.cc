#include "tests/frontend/support/onnx_types.h"

#include <map>
#include <optional>
#include <set>

#include "frontend/onnx/internal/translate/tensor.h"
#include "onnx/shape_inference/implementation.h"

namespace rannc::test {

using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::TensorShapeProto;
using ONNX_NAMESPACE::ValueInfoProto;

namespace {

/// Names of dimensions as the file has them, and what they became.
using Symbols = std::map<std::string, ir::Dim>;

Symbols symbols_of(const ModelProto& model, const ir::Graph& graph) {
  Symbols symbols;
  for (const ValueInfoProto& input : model.graph().input()) {
    const ValueId value = graph.find(input.name());
    const auto& said = input.type().tensor_type().shape();
    if (!value.valid() || !graph.type(value).shape) continue;
    for (int axis = 0; axis < said.dim_size(); ++axis) {
      const std::string& name = said.dim(axis).dim_param();
      if (!name.empty()) symbols.emplace(name, (*graph.type(value).shape)[static_cast<size_t>(axis)]);
    }
  }
  return symbols;
}

/// What a name or an expression of the file is in the graph; nothing where it holds a name that no input has.
std::optional<ir::Dim> dim_of(const std::string& text, const Symbols& symbols) {
  if (const auto known = symbols.find(text); known != symbols.end()) return known->second;
  const auto parsed = ir::Dim::parse(text);
  if (!parsed.ok()) return std::nullopt;
  std::set<std::string> used;
  parsed->collect_symbols(used);
  ir::Dim apart = *parsed;  // names of the file and of the graph may be the same and mean different sizes
  for (const std::string& name : used) {
    if (!symbols.contains(name)) return std::nullopt;
    apart = apart.substitute(name, ir::Dim::symbol("file." + name));
  }
  for (const std::string& name : used) apart = apart.substitute("file." + name, symbols.at(name));
  return apart;
}

class Comparison {
 public:
  Comparison(const ir::Graph& graph, Symbols symbols) : graph_(graph), symbols_(std::move(symbols)) {}

  void compare(const ValueInfoProto& said) {
    const auto& tensor = said.type().tensor_type();
    if (said.type().value_case() != ONNX_NAMESPACE::TypeProto::kTensorType || tensor.elem_type() == 0) return;
    const ValueId value = graph_.find(said.name());
    if (!value.valid()) {
      compared_.not_found.push_back(said.name());
      return;
    }
    ++compared_.values;
    const ir::ValueType& type = graph_.type(value);
    if (frontend::element_type(tensor.elem_type()) != type.dtype) fault(said.name(), "another element type");
    if (!tensor.has_shape() || !type.shape) return;
    if (static_cast<size_t>(tensor.shape().dim_size()) != type.shape->size()) return fault(said.name(), "another rank");
    for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
      compare(said.name(), tensor.shape().dim(axis), (*type.shape)[static_cast<size_t>(axis)]);
    }
  }

  const TypeComparison& result() const { return compared_; }

 private:
  void fault(const std::string& name, const std::string& what) { compared_.faults.push_back(name + ": " + what); }

  void compare(const std::string& name, const TensorShapeProto::Dimension& said, const ir::Dim& ours) {
    const auto theirs =
        said.has_dim_value() ? std::optional(ir::Dim(said.dim_value())) : dim_of(said.dim_param(), symbols_);
    if (!theirs) return;  // it is named after the value and means nothing elsewhere
    ++(theirs->is_constant() ? compared_.numbers : compared_.symbolic);
    if (*theirs == ours || (!theirs->is_constant() && same_at_some_sizes(*theirs, ours))) return;
    fault(name, ours.str() + " where " + theirs->str() + " is expected");
  }

  /// Of expressions in another form: `min(40, sequence)` for a sequence of at most 40.
  bool same_at_some_sizes(const ir::Dim& a, const ir::Dim& b) const {
    for (const int64_t least : {3, 5, 7}) {
      const auto value = a.evaluate(sizes_from(least));
      if (!value || value != b.evaluate(sizes_from(least))) return false;
    }
    return true;
  }

  /// A size of its own for each symbol.
  ir::Bindings sizes_from(int64_t least) const {
    ir::Bindings sizes;
    for (const auto& [name, dim] : symbols_) {
      std::set<std::string> used;
      dim.collect_symbols(used);
      for (const std::string& symbol : used) sizes.emplace(symbol, least + 4 * static_cast<int64_t>(sizes.size()));
    }
    return sizes;
  }

  const ir::Graph& graph_;
  Symbols symbols_;
  TypeComparison compared_;
};

/// Results of normalisations that nobody reads: running statistics, which the graph makes in another way.
std::set<std::string> running_statistics(const ModelProto& model) {
  std::set<std::string> names;
  for (const auto& node : model.graph().node()) {
    if (node.op_type() != "BatchNormalization") continue;
    for (int i = 1; i < node.output_size(); ++i) names.insert(node.output(i));
  }
  return names;
}

/// Of softmaxes that became one with what puts zeros in the place of their NaN: the values on the way, which nobody
/// else reads. Their last value is in the graph, of the same type.
std::set<std::string> within_softmaxes(const ModelProto& model, const ir::Graph& graph) {
  std::map<std::string, const ONNX_NAMESPACE::NodeProto*> makers;
  for (const auto& node : model.graph().node()) {
    for (const std::string& output : node.output()) makers.emplace(output, &node);
  }
  std::set<std::string> names;
  for (const auto& node : model.graph().node()) {
    if (node.op_type() != "Where" || !makers.contains(node.input(0)) || !makers.contains(node.input(2))) continue;
    const auto &is_nan = *makers.at(node.input(0)), &softmax = *makers.at(node.input(2));
    if (is_nan.op_type() != "IsNaN" || is_nan.input(0) != node.input(2) || softmax.op_type() != "Softmax") continue;
    const ValueId result = graph.find(node.output(0));
    if (!result.valid() || graph.attributes(graph.producer(result)).text("hidden_rows") != "zero") continue;
    names.insert({node.input(0), node.input(2)});
  }
  return names;
}

/// Types of all values by ONNX's rules alone.
ModelProto inferred(ModelProto model) {
  model.mutable_graph()->clear_value_info();
  for (ValueInfoProto& output : *model.mutable_graph()->mutable_output()) {
    output.mutable_type()->mutable_tensor_type()->clear_shape();
  }
  ONNX_NAMESPACE::shape_inference::InferShapes(model, ONNX_NAMESPACE::OpSchemaRegistry::Instance(),
                                               ONNX_NAMESPACE::ShapeInferenceOptions(false, 0, true));
  return model;
}

}  // namespace

TypeComparison compare_types(const ModelProto& model, const ir::Graph& graph) {
  Comparison comparison(graph, symbols_of(model, graph));
  for (const ValueInfoProto& value : model.graph().value_info()) comparison.compare(value);
  for (const ValueInfoProto& value : model.graph().output()) comparison.compare(value);
  return comparison.result();
}

std::vector<std::string> faults_of_types(const ModelProto& model, const ir::Graph& graph) {
  const std::set<std::string> statistics = running_statistics(model), inner = within_softmaxes(model, graph);
  const TypeComparison by_onnx = compare_types(inferred(model), graph), by_file = compare_types(model, graph);
  std::vector<std::string> faults;
  for (const TypeComparison* const each : {&by_onnx, &by_file}) {
    faults.insert(faults.end(), each->faults.begin(), each->faults.end());
    for (const std::string& name : each->not_found) {
      if (!statistics.contains(name) && !inner.contains(name)) faults.push_back(name + ": it is not in the graph");
    }
  }
  if (by_onnx.values * 2 < static_cast<size_t>(model.graph().node_size())) {
    faults.push_back("only " + std::to_string(by_onnx.values) + " values were compared");
  }
  return faults;
}

}  // namespace rannc::test
