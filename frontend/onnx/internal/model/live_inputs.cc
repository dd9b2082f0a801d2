#include "frontend/onnx/internal/model/live_inputs.h"

#include <string_view>
#include <vector>

#include "frontend/onnx/internal/model/node_reads.h"

namespace rannc::frontend {

Result<std::set<std::string>> live_names(const ModelFile& model, const std::map<std::string, double>& values) {
  RANNC_ASSIGN(const NodeReads reads, NodeReads::of(model, values));
  std::vector<std::string_view> outputs;
  std::set<std::string> live;
  for (const auto& output : model.head().graph().output()) {
    outputs.push_back(output.name());
    live.insert(output.name());
  }
  const std::vector<bool> nodes = reads.behind(std::move(outputs));
  for (size_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node]) live.insert(reads.of_node(node).begin(), reads.of_node(node).end());
  }
  return live;
}

}  // namespace rannc::frontend
