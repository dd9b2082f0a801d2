#include "frontend/onnx/internal/state/folded_values.h"

namespace rannc::frontend {

namespace {

/// Returns the strings of a printed Python list: `['c.weight', 'val_3']`. Names with quotes or escapes, which no
/// exporter writes, are truncated.
std::vector<std::string> python_list(std::string_view text) {
  std::vector<std::string> found;
  for (size_t at = text.find_first_of("'\""); at != std::string_view::npos; at = text.find_first_of("'\"", at)) {
    const size_t end = text.find(text[at], at + 1);
    if (end == std::string_view::npos) break;
    found.emplace_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return found;
}

}  // namespace

std::map<std::string, std::vector<std::string>> folded_values(const ModelFile& model) {
  std::map<std::string, std::vector<std::string>> folded;
  for (const auto& value : model.head().graph().value_info()) {
    for (const auto& entry : value.metadata_props()) {
      if (entry.key() == "pkg.onnxscript.optimizer.folded_from")
        folded.emplace(value.name(), python_list(entry.value()));
    }
  }
  return folded;
}

}  // namespace rannc::frontend
