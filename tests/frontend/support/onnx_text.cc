#include "tests/frontend/support/onnx_text.h"

#include "onnx/defs/parser.h"

namespace rannc::test {

std::string onnx_bytes(std::string_view text) {
  ONNX_NAMESPACE::ModelProto model;
  const auto status = ONNX_NAMESPACE::OnnxParser::Parse(model, std::string(text).c_str());
  RANNC_CHECK(status.IsOK()) << status.ErrorMessage();
  return model.SerializeAsString();
}

std::string onnx_model(std::string_view graph, int opset) {
  return "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) + "]>\n" + std::string(graph);
}

std::string traced_model(std::string_view graph, int opset, const std::vector<std::string>& calls,
                         const std::string& state, const std::vector<std::string>& scopes) {
  ONNX_NAMESPACE::ModelProto model;
  RANNC_CHECK(model.ParseFromString(onnx_bytes(onnx_model(graph, opset)))) << "it was serialized just now";
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].empty()) continue;
    auto* const node = model.mutable_graph()->mutable_node(static_cast<int>(i));
    const size_t named = calls[i].starts_with('%') ? calls[i].find(" = ") : std::string::npos;
    const std::string result = named == std::string::npos ? "%n" : calls[i].substr(0, named);
    const std::string call = named == std::string::npos ? calls[i] : calls[i].substr(named + 3);
    auto* const entry = node->add_metadata_props();
    entry->set_key("pkg.torch.onnx.fx_node");
    entry->set_value(result + " : [num_users=1] = call_function[target=torch.ops." + call + ", kwargs = {})");
    if (i >= scopes.size()) continue;
    auto* const scope = node->add_metadata_props();
    scope->set_key("pkg.torch.onnx.name_scopes");
    scope->set_value("['', '" + scopes[i] + "', 'call']");
  }
  if (!state.empty()) {
    auto* const entry = model.mutable_graph()->add_metadata_props();
    entry->set_key("pkg.torch.export.ExportedProgram.graph_signature");
    entry->set_value("\n# inputs\n" + state + "x: USER_INPUT\n\n# outputs\ny: USER_OUTPUT\n");
  }
  return model.SerializeAsString();
}

Result<ir::Graph> import_text(std::string_view text, const frontend::ImportOptions& options) {
  return frontend::import_onnx_bytes(onnx_bytes(text), "test.onnx", options);
}

Result<ir::Graph> import_graph(std::string_view graph, int opset, const frontend::ImportOptions& options) {
  return import_text(onnx_model(graph, opset), options);
}

Result<frontend::Imported> read_graph(std::string_view graph, int opset) {
  return frontend::read_onnx_bytes(onnx_bytes(onnx_model(graph, opset)), "test.onnx");
}

}  // namespace rannc::test
