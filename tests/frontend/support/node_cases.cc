#include "tests/frontend/support/node_cases.h"

#include <algorithm>
#include <map>

#include "frontend/onnx/internal/translate/tensor.h"
#include "onnx/defs/schema.h"
#include "tests/frontend/support/node_roles.h"
#include "tests/frontend/support/shared_models.h"

namespace rannc::test {

namespace fs = std::filesystem;
using ONNX_NAMESPACE::AttributeProto;
using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

constexpr std::string_view kExpanded = "_expanded";

DeclaredOutput declared(const ONNX_NAMESPACE::ValueInfoProto& output) {
  const auto& tensor = output.type().tensor_type();
  const auto dtype = frontend::element_type(tensor.elem_type());
  if (!dtype) return {output.name(), "?"};
  ir::ValueType type;
  type.dtype = *dtype;
  const auto& dims = tensor.shape().dim();
  if (tensor.has_shape() &&
      std::all_of(dims.begin(), dims.end(), [](const auto& dim) { return dim.has_dim_value(); })) {
    type.shape.emplace();
    for (const auto& dim : dims) type.shape->emplace_back(dim.dim_value());
  }
  return {output.name(), declared_form(type)};
}

std::string operand_name(const NodeProto& node, size_t operand) {
  const auto* const schema = ONNX_NAMESPACE::OpSchemaRegistry::Schema(node.op_type(), node.domain());
  const bool known = schema && operand < schema->inputs().size();
  return node.op_type() + "." + (known ? schema->inputs()[operand].GetName() : std::to_string(operand));
}

/// The values that decide the structure of a model, each with the operand that they are.
using Deciding = std::map<std::string, std::string>;

void find_deciding(const GraphProto& graph, Deciding& found) {
  for (const NodeProto& node : graph.node()) {
    for (int i = 0; i < node.input_size(); ++i) {
      const auto operand = static_cast<size_t>(i);
      if (node.domain().empty() && decides_structure(node.op_type(), operand)) {
        found.emplace(node.input(i), operand_name(node, operand));
      }
    }
    for (const AttributeProto& attribute : node.attribute()) find_deciding(attribute.g(), found);
  }
}

std::optional<ModelProto> read_model(const fs::path& folder) {
  ModelProto model;
  if (!model.ParseFromString(read_file(folder / "model.onnx"))) return std::nullopt;
  return model;
}

/// The case whose operator a model `…_expanded` writes out by others.
std::optional<ModelProto> written_out(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const size_t end = name.find(kExpanded);
  if (end == std::string::npos || !fs::exists(folder.parent_path() / name.substr(0, end))) return std::nullopt;
  return read_model(folder.parent_path() / name.substr(0, end));
}

void make_constants(NodeCase& found, const Deciding& deciding, ModelProto& model) {
  for (int i = 0; i < model.graph().input_size(); ++i) {
    const auto decides = deciding.find(model.graph().input(i).name());
    if (decides == deciding.end()) continue;
    const fs::path data = found.folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb");
    TensorProto tensor;
    if (!fs::exists(data) || !tensor.ParseFromString(read_file(data))) continue;
    tensor.set_name(model.graph().input(i).name());
    *model.mutable_graph()->add_initializer() = tensor;
    found.bound.push_back(decides->second);
  }
}

std::string foreign(int element_type) {
  if (element_type == TensorProto::UNDEFINED || frontend::element_type(element_type)) return "";
  return "element type " + TensorProto::DataType_Name(static_cast<TensorProto::DataType>(element_type));
}

/// What an operator makes other types than ours of.
std::string foreign(const NodeProto& node) {
  for (const AttributeProto& attribute : node.attribute()) {
    const std::string& name = attribute.name();
    const bool names_type = name == "to" || name == "dtype" || name == "output_dtype";
    if (const auto why = foreign(names_type ? static_cast<int>(attribute.i()) : attribute.t().data_type());
        !why.empty())
      return why;
  }
  return "";
}

template <class Values>
std::string foreign_values(const Values& values) {
  for (const auto& value : values) {
    if (value.type().has_sequence_type()) return "a sequence among inputs or outputs";
    if (value.type().has_optional_type()) return "an optional value among inputs or outputs";
    if (const auto why = foreign(value.type().tensor_type().elem_type()); !why.empty()) return why;
  }
  return "";
}

std::string outside(const ModelProto& model) {
  for (const NodeProto& node : model.graph().node()) {
    if (node.domain() == "ai.onnx.ml" || node.domain() == "ai.onnx.preview.training") return "domain " + node.domain();
  }
  if (const auto why = foreign_values(model.graph().input()); !why.empty()) return why;
  if (const auto why = foreign_values(model.graph().output()); !why.empty()) return why;
  for (const NodeProto& node : model.graph().node()) {
    if (const auto why = foreign(node); !why.empty()) return why;
  }
  return "";
}

/// The operator of the first node that makes more than a constant.
std::string operator_of(const ModelProto& model) {
  for (const NodeProto& node : model.graph().node()) {
    if (node.op_type() != "Constant") return node.op_type();
  }
  return "Constant";
}

}  // namespace

std::vector<fs::path> node_case_folders(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "model.onnx")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

NodeCase read_node_case(const fs::path& folder) {
  NodeCase found{.folder = folder};
  auto model = read_model(folder);
  if (!model) return found;
  const auto whole = written_out(folder);
  Deciding deciding;
  if (whole) find_deciding(whole->graph(), deciding);
  find_deciding(model->graph(), deciding);
  found.op = operator_of(whole ? *whole : *model);
  found.outside = outside(*model);
  make_constants(found, deciding, *model);
  found.model = model->SerializeAsString();
  for (const auto& node : model->graph().node()) found.operators.push_back(node.op_type());
  for (const auto& output : model->graph().output()) found.declared.push_back(declared(output));
  return found;
}

std::vector<NamedTensor> read_case_data(const NodeCase& found, const std::string& kind) {
  ModelProto model;
  std::vector<NamedTensor> tensors;
  if (!model.ParseFromString(found.model)) return tensors;
  const auto& values = kind == "input" ? model.graph().input() : model.graph().output();
  frontend::ExternalData external(found.folder / "model.onnx");
  for (int i = 0; i < values.size(); ++i) {
    TensorProto proto;
    const fs::path file = found.folder / "test_data_set_0" / (kind + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(file) || !proto.ParseFromString(read_file(file))) continue;
    proto.clear_doc_string();
    auto tensor = frontend::read_tensor(proto, file.string(), external, {});
    if (tensor.ok()) tensors.push_back({values.Get(i).name(), tensor->type, tensor->data});
  }
  return tensors;
}

std::string declared_form(const ir::ValueType& type) {
  return std::string(ir::str(type.dtype)) + (type.shape ? ir::str(*type.shape) : "");
}

}  // namespace rannc::test
