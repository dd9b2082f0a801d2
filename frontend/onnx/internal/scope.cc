#include "frontend/onnx/internal/scope.h"

namespace rannc::frontend {

ValueId Region::take(ValueId value) {
  const auto known = taken.find(value);
  if (known != taken.end()) return known->second;
  const ir::Graph::Value& outside = around->graph.value(value);
  ir::ValueType type = outside.type;
  type.batch.mix = ir::Mix::kNone;
  const bool stored = outside.data.present();
  const ValueId inside =
      graph.add_value(stored ? outside.kind : ir::ValueKind::kInput, outside.name, std::move(type), outside.data);
  of.emplace(graph.value(inside).name, value);
  return taken[value] = inside;
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
