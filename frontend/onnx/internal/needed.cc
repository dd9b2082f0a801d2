#include "frontend/onnx/internal/needed.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace rannc::frontend {

using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::NodeProto;

namespace {

constexpr int kDeepest = 100;

/// The names that a node reads, those of its subgraphs included, some of which these make themselves.
void collect_reads(const NodeProto& node, int depth, std::vector<std::string>& into) {
  into.insert(into.end(), node.input().begin(), node.input().end());
  if (depth > kDeepest) return;  // an error where the node is translated
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    const GraphProto& body = attribute.g();
    for (const NodeProto& within : body.node()) collect_reads(within, depth + 1, into);
    for (const auto& output : body.output()) into.push_back(output.name());
  }
}

/// Marks from results to operands.
class Search {
 public:
  Result<void> read(const ModelFile& model) {
    reads_.reserve(model.node_count());
    return model.each_node([&](const NodeProto& node) -> Result<void> {
      for (const std::string& output : node.output()) {
        if (!output.empty()) makers_.emplace(output, reads_.size());
      }
      collect_reads(node, 0, reads_.emplace_back());
      return {};
    });
  }

  std::vector<bool> run(std::vector<std::string_view> names) const {
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

 private:
  std::vector<std::vector<std::string>> reads_;          // by node
  std::unordered_multimap<std::string, size_t> makers_;  // by the name of a result: an error where there are several
};

}  // namespace

bool Needed::leaves_out() const {
  const auto all = [](const std::vector<bool>& bits) {
    return std::find(bits.begin(), bits.end(), false) == bits.end();
  };
  return !all(outputs) || !all(nodes);
}

Result<Needed> needed_for(const ModelFile& model, const std::vector<std::string>& asked) {
  const auto& outputs = model.head().graph().output();
  const auto is_asked = [&](const auto& output) {
    return std::find(asked.begin(), asked.end(), output.name()) != asked.end();
  };
  const bool all = std::none_of(outputs.begin(), outputs.end(), is_asked);
  Needed needed;
  std::vector<std::string_view> names;
  for (const auto& output : outputs) {
    needed.outputs.push_back(all || is_asked(output));
    if (needed.outputs.back()) names.push_back(output.name());
  }
  Search search;
  RANNC_TRY(search.read(model));
  needed.nodes = search.run(std::move(names));
  return needed;
}

}  // namespace rannc::frontend
