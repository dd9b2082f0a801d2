#include "frontend/onnx/internal/translate/scope.h"

#include <fmt/format.h>

namespace rannc::frontend {

namespace {

/// The first output name, which is unique within a graph.
std::string_view first_output(const ONNX_NAMESPACE::NodeProto& node) {
  for (const std::string& output : node.output()) {
    if (!output.empty()) return output;
  }
  return node.name();
}

}  // namespace

FilePlace FilePlace::subgraph_of(const ONNX_NAMESPACE::NodeProto& node, const std::string& which) const {
  const std::string step = fmt::format("{}/{}/", first_output(node), which);
  return {calls + step, written + step, prefix + node_name(node) + "/" + which, true};
}

FilePlace FilePlace::function_of(const ONNX_NAMESPACE::NodeProto& node,
                                 const ONNX_NAMESPACE::FunctionProto& function) const {
  return {fmt::format("{}{}()/", calls, first_output(node)),
          fmt::format("{}::{}:{}/", function.domain(), function.name(), function.overload()),
          prefix + node_name(node) + "/", in_subgraph};
}

ONNX_NAMESPACE::checker::CheckerContext checker_context(const Opsets& opsets) {
  ONNX_NAMESPACE::checker::CheckerContext context;
  context.set_ir_version(static_cast<int>(ONNX_NAMESPACE::Version::IR_VERSION));
  std::unordered_map<std::string, int> imports(opsets.begin(), opsets.end());
  if (const auto standard = imports.find(""); standard != imports.end()) imports["ai.onnx"] = standard->second;
  context.set_opset_imports(std::move(imports));
  return context;
}

}  // namespace rannc::frontend
