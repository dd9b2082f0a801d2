#include "frontend/onnx/internal/model/node_reads.h"

#include <algorithm>
#include <array>

namespace rannc::frontend {

using ONNX_NAMESPACE::NodeProto;

Result<NodeReads> NodeReads::of(const ModelFile& model, const std::map<std::string, double>& values) {
  NodeReads reads(values);
  reads.reads_.reserve(model.node_count());
  RANNC_TRY(model.each_node([&](const NodeProto& node) -> Result<void> {
    for (const std::string& output : node.output()) {
      if (!output.empty()) reads.makers_.emplace(output, reads.reads_.size());
    }
    reads.note_known(node);
    reads.collect(node, reads.reads_.emplace_back(), 0);
    return {};
  }));
  return reads;
}

std::vector<bool> NodeReads::behind(std::vector<std::string_view> names) const {
  std::vector<bool> found(reads_.size());
  while (!names.empty()) {
    const auto [first, last] = makers_.equal_range(std::string(names.back()));
    names.pop_back();
    for (auto maker = first; maker != last; ++maker) {
      if (found[maker->second]) continue;
      found[maker->second] = true;
      names.insert(names.end(), reads_[maker->second].begin(), reads_[maker->second].end());
    }
  }
  return found;
}

void NodeReads::note_known(const NodeProto& node) {
  constexpr std::array<std::string_view, 6> kPassing = {"Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Not"};
  if (known_.empty() || node.input_size() < 1 || node.output_size() != 1) return;
  if (std::find(kPassing.begin(), kPassing.end(), node.op_type()) == kPassing.end()) return;
  const auto value = known_.find(node.input(0));
  if (value == known_.end()) return;
  known_.emplace(node.output(0), node.op_type() == "Not" ? (value->second == 0 ? 1 : 0) : value->second);
}

void NodeReads::collect(const NodeProto& node, std::vector<std::string>& into, int depth) {
  constexpr int kDeepest = 100;
  into.insert(into.end(), node.input().begin(), node.input().end());
  if (depth > kDeepest) return;  // an error when the node is translated
  std::string_view excluded;
  if (node.op_type() == "If" && node.input_size() == 1) {
    const auto value = known_.find(node.input(0));
    if (value != known_.end()) excluded = value->second != 0 ? "else_branch" : "then_branch";
  }
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g() || attribute.name() == excluded) continue;
    for (const NodeProto& within : attribute.g().node()) {
      note_known(within);
      collect(within, into, depth + 1);
    }
    for (const auto& output : attribute.g().output()) into.push_back(output.name());
  }
}

}  // namespace rannc::frontend
