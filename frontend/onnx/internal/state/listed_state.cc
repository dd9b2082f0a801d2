#include "frontend/onnx/internal/state/listed_state.h"

#include <array>
#include <utility>

namespace rannc::frontend {

namespace {

/// `p_encoder_weight: PARAMETER target='encoder.weight'`, `b_mask: BUFFER target='mask' persistent=False`,
/// `x: USER_INPUT`.
void read_line(std::string_view line, ListedState& listed) {
  if (const size_t end = line.find(": USER_INPUT"); end != std::string_view::npos)
    listed.inputs.emplace(line.substr(0, end));
  static constexpr std::array<std::pair<std::string_view, ir::ValueKind>, 3> kKinds = {
      {{": PARAMETER target='", ir::ValueKind::kParameter},
       {": BUFFER target='", ir::ValueKind::kConstant},
       {": CONSTANT_TENSOR target='", ir::ValueKind::kConstant}}};
  for (const auto& [mark, kind] : kKinds) {
    const size_t at = line.find(mark);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = line.substr(at + mark.size());
    const size_t end = rest.find('\'');
    if (end == std::string_view::npos || end == 0) continue;
    const std::string target(rest.substr(0, end));
    listed.kinds.emplace(target, kind);
    listed.targets.emplace(line.substr(0, at), target);
    const bool kept = kind == ir::ValueKind::kParameter || mark.starts_with(": BUFFER");
    if (!kept || rest.find("persistent=False", end) != std::string_view::npos) listed.transient.insert(target);
  }
}

/// A line per output: `linear_1: USER_OUTPUT`.
void read_outputs(std::string_view text, ListedState& listed) {
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const size_t mark = line.find(": USER_OUTPUT");
    if (mark != std::string_view::npos) listed.outputs.emplace_back(line.substr(0, mark));
  }
}

}  // namespace

ListedState listed_state(const ONNX_NAMESPACE::GraphProto& graph) {
  ListedState listed;
  for (const auto& entry : graph.metadata_props()) {
    if (entry.key() != "pkg.torch.export.ExportedProgram.graph_signature") continue;
    std::string_view text = entry.value();
    const size_t outputs = text.find("# outputs");
    if (outputs != std::string_view::npos) read_outputs(text.substr(outputs), listed);
    text = text.substr(0, outputs);
    while (!text.empty()) {
      const size_t end = text.find('\n');
      read_line(text.substr(0, end), listed);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
  }
  return listed;
}

}  // namespace rannc::frontend
