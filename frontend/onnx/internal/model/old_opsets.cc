#include "frontend/onnx/internal/model/old_opsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/onnx/internal/model/scan.h"
#include "onnx/checker.h"
#include "onnx/shape_inference/implementation.h"
#include "onnx/version_converter/convert.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

constexpr int64_t kOldest = 7;
/// Limit on nodes, because the converter needs more than a kilobyte per node.
constexpr size_t kMostNodes = 100'000;

/// Returns the version of the default domain, or 0 if it is not imported. Formats before 3 imply version 1.
int64_t version_of_model(const ModelProto& head) {
  for (const auto& entry : head.opset_import()) {
    if (domain_of(entry.domain()).empty()) return entry.version();
  }
  return head.opset_import_size() == 0 && head.ir_version() < 3 ? 1 : 0;
}

/// Adds an input of a stored tensor's type. Before format 4, all stored tensors must be inputs too.
void add_as_input(const TensorProto& tensor, ModelProto& model) {
  auto& input = *model.mutable_graph()->add_input();
  input.set_name(tensor.name());
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(tensor.data_type());
  type.mutable_shape();
  for (const int64_t extent : tensor.dims()) type.mutable_shape()->add_dim()->set_dim_value(extent);
}

/// Replaces unknown sizes by numbers, which the converter needs to compare sizes.
void close_sizes(ModelProto& model) {
  constexpr int64_t kFirst = 7919;  // unlikely to be the size of a weight; equal sizes would be taken for the same axis
  std::map<std::string, int64_t> numbers;
  int64_t next = kFirst;
  for (auto& input : *model.mutable_graph()->mutable_input()) {
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape()) continue;
    for (auto& dim : *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      if (dim.has_dim_value() && dim.dim_value() >= 0) continue;
      const auto [number, fresh] = numbers.emplace(dim.dim_param(), next);
      if (fresh || dim.dim_param().empty()) ++next;
      dim.set_dim_value(dim.dim_param().empty() ? next - 1 : number->second);
    }
  }
  model.mutable_graph()->clear_value_info();
}

/// Returns the model without stored tensors except small integer ones, which sizes depend on.
Result<ModelProto> without_weights(const ModelFile& model) {
  ModelProto whole = model.head();
  close_sizes(whole);
  if (whole.graph().name().empty()) whole.mutable_graph()->set_name("graph");  // required by the checker
  whole.set_ir_version(std::max<int64_t>(whole.ir_version(), 3));
  if (whole.opset_import_size() == 0) whole.add_opset_import()->set_version(1);
  std::set<std::string> inputs;
  for (const auto& input : whole.graph().input()) inputs.insert(input.name());
  RANNC_TRY(model.each_initializer([&](const TensorProto& tensor) -> Result<void> {
    if (inputs.insert(tensor.name()).second) add_as_input(tensor, whole);
    const bool sizes = tensor.data_type() == TensorProto::INT64 && tensor.data_location() != TensorProto::EXTERNAL;
    if (sizes && tensor.doc_string().empty()) *whole.mutable_graph()->add_initializer() = tensor;
    return {};
  }));
  RANNC_TRY(model.each_node([&](const NodeProto& node) -> Result<void> {
    *whole.mutable_graph()->add_node() = node;
    return {};
  }));
  return whole;
}

/// Domain that the converter ignores.
constexpr const char* kKept = "rannc.kept";

using Attributes = google::protobuf::RepeatedPtrField<ONNX_NAMESPACE::AttributeProto>;

ONNX_NAMESPACE::AttributeProto* find(NodeProto& node, std::string_view name) {
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

void drop(NodeProto& node, std::string_view name) {
  Attributes& all = *node.mutable_attribute();
  for (int i = all.size(); i-- > 0;) {
    if (all[i].name() == name) all.DeleteSubrange(i, 1);
  }
}

/// Returns the type for a name in Cast before operator set 6.
bool renew_cast(NodeProto& node) {
  auto* const to = find(node, "to");
  TensorProto::DataType type = TensorProto::UNDEFINED;
  if (to == nullptr || !to->has_s()) return to != nullptr;
  if (!TensorProto::DataType_Parse(to->s(), &type)) return false;
  to->clear_s();
  to->set_type(ONNX_NAMESPACE::AttributeProto::INT);
  to->set_i(type);
  return true;
}

/// Operators that the converter cannot convert to operator set 7 although only an attribute differs there.
bool renew_alone(NodeProto& node) {
  const std::string_view op = node.op_type();
  if (op == "LSTM" || op == "GRU" || op == "RNN") {
    drop(node, "output_sequence");
    return true;
  }
  if (op == "Cast") return renew_cast(node);
  if (op == "Split") return node.input_size() == 1;
  if (op == "Pad") {
    if (auto* const amounts = find(node, "paddings")) amounts->set_name("pads");
    return true;
  }
  return false;
}

bool is_of_two(std::string_view op) {
  constexpr std::array<std::string_view, 11> kOps = {"Add", "And", "Div", "Equal", "Greater", "Less",
                                                     "Mul", "Or",  "Pow", "Sub",   "Xor"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

std::map<std::string, int> ranks_of(const ModelProto& model) {
  std::map<std::string, int> ranks;
  for (const auto* const list : {&model.graph().input(), &model.graph().value_info(), &model.graph().output()}) {
    for (const auto& value : *list) {
      if (value.type().tensor_type().has_shape())
        ranks.emplace(value.name(), value.type().tensor_type().shape().dim_size());
    }
  }
  return ranks;
}

/// Converts old broadcasting: the second operand aligns with the first operand's axes from `axis` on, or else with the
/// last, as since version 7. The converter miscounts the axes after it and is not used. Returns false if ranks are
/// unknown.
bool align_second(NodeProto& node, const std::map<std::string, int>& ranks, std::vector<NodeProto>& into) {
  const auto* const axis = find(node, "axis");
  const auto* const broadcasts = find(node, "broadcast");
  if (node.input_size() == 2 && axis != nullptr && broadcasts != nullptr && broadcasts->i() != 0) {
    const auto first = ranks.find(node.input(0)), second = ranks.find(node.input(1));
    if (first == ranks.end() || second == ranks.end()) return false;
    const int64_t from = axis->i() < 0 ? axis->i() + first->second : axis->i();
    const int64_t behind = first->second - from - second->second;
    if (behind < 0 || behind > first->second) return false;
    if (behind > 0) {
      NodeProto& stretched = into.emplace_back();
      stretched.set_op_type("Unsqueeze");
      stretched.set_domain(kKept);
      stretched.add_input(node.input(1));
      stretched.add_output(node.output(0) + ".second");
      auto& axes = *stretched.add_attribute();
      axes.set_name("axes");
      axes.set_type(ONNX_NAMESPACE::AttributeProto::INTS);
      for (int64_t i = 0; i < behind; ++i) axes.add_ints(second->second + i);
      node.set_input(1, stretched.output(0));
    }
  }
  for (const char* const name : {"axis", "broadcast", "consumed_inputs"}) drop(node, name);
  return true;
}

/// Converts nodes that the converter does not support and hides them from it. An error names a node that cannot be
/// converted.
Result<void> renew_nodes(ModelProto& model, const std::string& file) {
  const std::map<std::string, int> ranks = ranks_of(model);
  std::vector<NodeProto> nodes;
  for (NodeProto node : model.graph().node()) {
    if (domain_of(node.domain()).empty()) {
      const bool two = is_of_two(node.op_type());
      if (two && !align_second(node, ranks, nodes)) {
        return error({file, 0, 0, node_name(node)},
                     fmt::format("{} along an axis needs operands whose ranks are known", node.op_type()));
      }
      if (two || renew_alone(node)) node.set_domain(kKept);
    }
    nodes.push_back(std::move(node));
  }
  model.mutable_graph()->clear_node();
  for (NodeProto& node : nodes) *model.mutable_graph()->add_node() = std::move(node);
  return {};
}

}  // namespace

Result<bool> renew_old_opset(ModelFile& model, const std::string& file) {
  const int64_t version = version_of_model(model.head());
  if (version < 1 || version >= kOldest || !model.head().has_graph()) return false;
  const auto refuse = [&](std::string_view why) {
    return error(Location{file}, fmt::format("the model uses operator set {}; {} is the oldest supported, and ONNX's "
                                             "converter cannot convert the model to it: {}",
                                             version, kOldest, why.substr(0, why.find('\n'))));
  };
  if (model.node_count() > kMostNodes) return refuse(fmt::format("it has more than {} nodes", kMostNodes));
  RANNC_ASSIGN(ModelProto whole, without_weights(model));
  try {
    ONNX_NAMESPACE::checker::check_model(whole);
    ONNX_NAMESPACE::shape_inference::InferShapes(whole);
    RANNC_TRY(renew_nodes(whole, file));
    ModelProto converted = ONNX_NAMESPACE::version_conversion::ConvertVersion(whole, static_cast<int>(kOldest));
    std::vector<std::string> nodes;
    for (NodeProto& node : *converted.mutable_graph()->mutable_node()) {
      if (node.domain() == kKept) node.clear_domain();
      nodes.push_back(node.SerializeAsString());
    }
    model.renew(static_cast<int>(kOldest), std::move(nodes));
  } catch (const std::exception& failure) {
    return refuse(failure.what());
  }
  return true;
}

}  // namespace rannc::frontend
