#include "frontend/onnx/internal/model/needed.h"

#include <algorithm>
#include <string_view>

#include "frontend/onnx/internal/model/node_reads.h"

namespace rannc::frontend {

bool Needed::leaves_out() const {
  const auto all = [](const std::vector<bool>& bits) {
    return std::find(bits.begin(), bits.end(), false) == bits.end();
  };
  return !all(outputs) || !all(nodes);
}

Result<Needed> needed_for(const ModelFile& model, const std::vector<std::string>& required) {
  const auto& outputs = model.head().graph().output();
  const auto is_required = [&](const auto& output) {
    return std::find(required.begin(), required.end(), output.name()) != required.end();
  };
  const bool all = std::none_of(outputs.begin(), outputs.end(), is_required);
  Needed needed;
  std::vector<std::string_view> names;
  for (const auto& output : outputs) {
    needed.outputs.push_back(all || is_required(output));
    if (needed.outputs.back()) names.push_back(output.name());
  }
  RANNC_ASSIGN(const NodeReads reads, NodeReads::of(model));
  needed.nodes = reads.behind(std::move(names));
  return needed;
}

}  // namespace rannc::frontend
