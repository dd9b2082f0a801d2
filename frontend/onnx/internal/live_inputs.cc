#include "frontend/onnx/internal/live_inputs.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>


namespace rannc::frontend {

using ONNX_NAMESPACE::NodeProto;

namespace {

constexpr int kDeepest = 100;

class Reads {
 public:
  explicit Reads(const std::map<std::string, double>& values) : known_(values) {}

  /// Notes what a node of the graph makes and reads.
  void add(const NodeProto& node) {
    note_known(node);
    std::vector<std::string>& own = nodes_.emplace_back();
    collect(node, own, 0);
    for (const std::string& output : node.output()) {
      if (!output.empty()) maker_.emplace(output, nodes_.size() - 1);
    }
  }

  /// All that `wanted` depend on.
  std::set<std::string> behind(std::vector<std::string> wanted) const {
    std::set<std::string> reached(wanted.begin(), wanted.end());
    while (!wanted.empty()) {
      const auto maker = maker_.find(wanted.back());
      wanted.pop_back();
      if (maker == maker_.end()) continue;
      for (const std::string& read : nodes_[maker->second]) {
        if (reached.insert(read).second) wanted.push_back(read);
      }
    }
    return reached;
  }

 private:
  void note_known(const NodeProto& node) {
    constexpr std::array<std::string_view, 6> kPassing = {"Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Not"};
    const bool passes = std::find(kPassing.begin(), kPassing.end(), node.op_type()) != kPassing.end();
    if (!passes || node.input_size() < 1 || node.output_size() != 1) return;
    const auto value = known_.find(node.input(0));
    if (value == known_.end()) return;
    known_.emplace(node.output(0), node.op_type() == "Not" ? (value->second == 0 ? 1 : 0) : value->second);
  }

  /// Names that a node reads, those of its bodies included: some may be the bodies' own, which nothing else makes.
  void collect(const NodeProto& node, std::vector<std::string>& into, int depth) {
    if (depth > kDeepest) return;  // refused later
    into.insert(into.end(), node.input().begin(), node.input().end());
    std::string_view left_out;
    if (node.op_type() == "If" && node.input_size() == 1) {
      const auto value = known_.find(node.input(0));
      if (value != known_.end()) left_out = value->second != 0 ? "else_branch" : "then_branch";
    }
    for (const auto& attribute : node.attribute()) {
      if (!attribute.has_g() || attribute.name() == left_out) continue;
      for (const NodeProto& part : attribute.g().node()) {
        note_known(part);
        collect(part, into, depth + 1);
      }
      for (const auto& output : attribute.g().output()) into.push_back(output.name());
    }
  }

  std::map<std::string, double> known_;
  std::vector<std::vector<std::string>> nodes_;
  std::map<std::string, size_t> maker_;
};

}  // namespace

Result<std::set<std::string>> live_names(const ModelFile& model, const std::map<std::string, double>& values) {
  Reads reads(values);
  RANNC_TRY(model.each_node([&](const NodeProto& node) -> Result<void> {
    reads.add(node);
    return {};
  }));
  std::vector<std::string> outputs;
  for (const auto& output : model.head().graph().output()) outputs.push_back(output.name());
  return reads.behind(std::move(outputs));
}

}  // namespace rannc::frontend
