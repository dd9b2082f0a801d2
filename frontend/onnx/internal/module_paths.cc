#include "frontend/onnx/internal/module_paths.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "frontend/onnx/internal/scan.h"

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
  // A part of a container has the container's name in its own: `/layers/layers.0/linear` is `layers.0.linear`.
  std::string path, before;
  for (size_t begin = 1; begin < end;) {
    const size_t stop = std::min(name.find('/', begin), end);
    const std::string part = name.substr(begin, stop - begin);
    const bool inside = !before.empty() && part.starts_with(before + ".");
    if (inside) path.resize(path.size() - before.size());
    if (!inside && !path.empty()) path += '.';
    path += part;
    before = part;
    begin = stop + 1;
  }
  return path;
}

}  // namespace rannc::frontend
