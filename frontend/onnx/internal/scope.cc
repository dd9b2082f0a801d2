#include "frontend/onnx/internal/scope.h"

namespace rannc::frontend {

ONNX_NAMESPACE::checker::CheckerContext checker_context(const Opsets& opsets) {
  ONNX_NAMESPACE::checker::CheckerContext context;
  context.set_ir_version(static_cast<int>(ONNX_NAMESPACE::Version::IR_VERSION));
  std::unordered_map<std::string, int> imports(opsets.begin(), opsets.end());
  if (const auto standard = imports.find(""); standard != imports.end()) imports["ai.onnx"] = standard->second;
  context.set_opset_imports(std::move(imports));
  return context;
}

}  // namespace rannc::frontend
