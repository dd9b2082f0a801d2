#include "frontend/onnx/internal/module_paths.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "frontend/onnx/internal/scan.h"
#include "ir/match.h"

namespace rannc::frontend {

namespace {

/// The strings of a list as Python prints it: `['', 'bert', 'bert.pooler', 'linear']`.
std::vector<std::string_view> python_strings(std::string_view list) {
  std::vector<std::string_view> found;
  for (size_t at = list.find('\''); at != std::string_view::npos; at = list.find('\'', at + 1)) {
    const size_t end = list.find('\'', at + 1);
    if (end == std::string_view::npos) break;
    found.push_back(list.substr(at + 1, end - at - 1));
    at = end;
  }
  return found;
}

/// Whether a value holds a stored tensor under this or another name.
bool is_stored(const ir::Graph& graph, ValueId value) {
  static const ir::Pattern kStored = ir::through("identity", ir::of_kind(ir::ValueKind::kConstant));
  return ir::match(graph, value, kStored).has_value();
}

}  // namespace

std::string module_path(const ONNX_NAMESPACE::NodeProto& node) {
  for (const auto& entry : node.metadata_props()) {
    if (entry.key() != "pkg.torch.onnx.name_scopes") continue;
    const auto scopes = python_strings(entry.value());  // the last one is the node's own
    if (scopes.size() > 1) return std::string(scopes[scopes.size() - 2]);
  }
  const std::string& name = node.name();
  const size_t end = name.rfind('/');
  if (!name.starts_with('/') || end == 0) return node_name(node);
  std::string path = name.substr(1, end - 1);
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

void note_readers(const ir::Graph& graph, std::span<const ValueId> operands, const ONNX_NAMESPACE::NodeProto& node,
                  const std::string& module, ImportNotes& notes) {
  if (node.op_type() == "Identity") return;
  for (const ValueId operand : operands) {
    if (!operand.valid() || !ir::is_float(graph.type(operand).dtype) || !is_stored(graph, operand)) continue;
    notes.stored.readers[std::string(graph.value(operand).name)].insert(module.empty() ? module_path(node) : module);
  }
}

}  // namespace rannc::frontend
