#include "tests/frontend/support/node_cases.h"

#include <algorithm>

#include "frontend/onnx/internal/tensor.h"
#include "tests/frontend/support/shared_models.h"

namespace rannc::test {

namespace fs = std::filesystem;
using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

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

void make_constants(const fs::path& folder, ModelProto& model) {
  for (int i = 0; i < model.graph().input_size(); ++i) {
    const auto& type = model.graph().input(i).type().tensor_type();
    const auto dtype = frontend::element_type(type.elem_type());
    const std::string& name = model.graph().input(i).name();
    const bool bound = name == "scales" || name == "roi";  // of Resize: floats that sizes follow from
    if (!dtype || (ir::is_float(*dtype) && !bound) || type.shape().dim_size() > 1) continue;
    const fs::path data = folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb");
    TensorProto tensor;
    if (!fs::exists(data) || !tensor.ParseFromString(read_file(data))) continue;
    tensor.set_name(model.graph().input(i).name());
    *model.mutable_graph()->add_initializer() = tensor;
  }
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
  NodeCase found{folder, {}, {}, {}};
  ModelProto model;
  if (!model.ParseFromString(read_file(folder / "model.onnx"))) return found;
  make_constants(folder, model);
  found.model = model.SerializeAsString();
  for (const auto& node : model.graph().node()) found.operators.push_back(node.op_type());
  for (const auto& output : model.graph().output()) found.declared.push_back(declared(output));
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
