#include "frontend/onnx/internal/model/module_paths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string_view>
#include <vector>

#include "frontend/onnx/internal/model/scan.h"

namespace rannc::frontend {

namespace {

/// Returns the strings of a printed Python list: `['', 'bert', 'bert.pooler', 'linear']`.
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

/// Returns the modules in a path, outermost first: `encoder` and `encoder.layer.0` for `/encoder/layer.0/Add`. The name
/// of a container's element includes the container's: `/layer1/layer1.0/Conv` belongs to `layer1.0`.
std::vector<std::string> modules_in(std::string_view path) {
  std::vector<std::string> modules;
  if (!path.starts_with('/')) return modules;
  path.remove_prefix(1);
  std::vector<std::string> parts;
  for (size_t end = path.find('/'); end != std::string_view::npos; end = path.find('/')) {
    const std::string part(path.substr(0, end));
    path.remove_prefix(end + 1);
    if (part.empty()) continue;
    if (!parts.empty() && part.starts_with(parts.back() + ".")) parts.pop_back();
    parts.push_back(part);
    modules.push_back(fmt::format("{}", fmt::join(parts, ".")));
  }
  return modules;
}

/// Likewise from the scopes in a node's metadata, without the last, which is the node itself. Nothing if it has none.
std::optional<std::vector<std::string_view>> scopes_around(const ONNX_NAMESPACE::NodeProto& node) {
  for (const auto& entry : node.metadata_props()) {
    if (entry.key() != "pkg.torch.onnx.name_scopes") continue;
    auto scopes = python_strings(entry.value());
    if (scopes.size() < 2) continue;
    scopes.pop_back();
    return scopes;
  }
  return std::nullopt;
}

}  // namespace

std::string module_path(const ONNX_NAMESPACE::NodeProto& node) {
  if (const auto scopes = scopes_around(node)) return std::string(scopes->back());
  const auto modules = modules_in(node.name());
  return modules.empty() ? node_name(node) : modules.back();
}

void note_module(const ONNX_NAMESPACE::NodeProto& node, const std::string& name, const std::string& module,
                 ir::TrainingNotes& notes) {
  std::vector<std::string> modules;
  if (!module.empty()) {
    modules = {module};
  } else if (const auto scopes = scopes_around(node)) {
    modules.assign(scopes->begin(), scopes->end());
    std::erase(modules, "");
  } else {
    modules = modules_in(node.name());
  }
  if (modules.empty()) return;
  notes.modules.emplace(name, modules.back());
  for (const std::string& each : modules) notes.called.insert(each);
}

}  // namespace rannc::frontend
