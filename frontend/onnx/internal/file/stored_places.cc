#include "frontend/onnx/internal/file/stored_places.h"

#include <algorithm>

#include "frontend/onnx/internal/model/scan.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

/// Whether a node can take a bias as third operand but has none. A Gemm that scales its bias cannot, because no task
/// has such a bias.
bool takes_bias(const NodeProto& node) {
  const bool known = node.op_type() == "Conv" || node.op_type() == "ConvTranspose" || node.op_type() == "Gemm";
  const bool absent = node.input_size() == 2 || (node.input_size() == 3 && node.input(2).empty());
  return known && absent && domain_of(node.domain()).empty() &&
         std::none_of(node.attribute().begin(), node.attribute().end(),
                      [](const auto& attribute) { return attribute.name() == "beta" && attribute.f() != 1; });
}

void add_node(const NodeProto& node, StoredPlaces& places) {
  places.names.insert(node.output().begin(), node.output().end());
  if (domain_of(node.domain()).empty() && node.output_size() == 1) {
    if (node.op_type() == "Constant" && node.attribute_size() == 1 && node.attribute(0).has_t())
      places.constants.insert(node.output(0));
    if (node.op_type() == "Identity" && node.input_size() == 1) places.renamed[node.output(0)] = node.input(0);
  }
  places.nodes.push_back({node_name(node), {node.input().begin(), node.input().end()}, takes_bias(node)});
}

}  // namespace

const std::string& StoredPlaces::origin(const std::string& name) const {
  const std::string* found = &name;
  for (auto at = renamed.find(*found); at != renamed.end(); at = renamed.find(*found)) found = &at->second;
  return *found;
}

Result<StoredPlaces> stored_places(const ModelFile& model, const std::string& file) {
  StoredPlaces places;
  ExternalData external(file);
  for (const auto& input : model.head().graph().input()) places.names.insert(input.name());
  for (const auto& output : model.head().graph().output()) places.outputs.insert(output.name());
  RANNC_TRY(model.each_initializer([&](const TensorProto& proto) -> Result<void> {
    auto tensor = read_tensor(proto, file, external, {file, 0, 0, proto.name()});
    if (tensor.ok()) places.initializers.emplace(proto.name(), *std::move(tensor));  // a graph cannot have others
    places.names.insert(proto.name());
    return {};
  }));
  RANNC_TRY(model.each_node([&](const NodeProto& node) -> Result<void> {
    add_node(node, places);
    return {};
  }));
  return places;
}

}  // namespace rannc::frontend
