#include "frontend/onnx/internal/state/detached.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/op/op.h"

namespace rannc::frontend {

namespace {

/// Returns operand `place` if it may be the detached one, or else the only operand that may.
std::optional<size_t> pick(const std::vector<size_t>& candidates, size_t place) {
  if (std::find(candidates.begin(), candidates.end(), place) != candidates.end()) return place;
  if (candidates.size() == 1) return candidates[0];
  return std::nullopt;
}

}  // namespace

Result<void> Detached::stop(ir::Graph& graph, const ONNX_NAMESPACE::NodeProto& node, const TracedCall& call,
                            const Place& where, std::vector<ValueId>& operands, ImportNotes& notes) {
  const size_t made_by = std::hash<std::string_view>()(call.text);
  const std::vector<std::string_view> named = call.values();
  bool own = false;  // a result of an earlier node of the same call
  std::vector<size_t> candidates;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::string& name = node.input(static_cast<int>(i));
    const auto maker = makers_.find(name);
    const bool made_here = maker != makers_.end() && maker->second == made_by;
    own = own || made_here;
    const bool varies = operands[i].valid() && graph.kind(operands[i]) != ir::ValueKind::kConstant &&
                        ir::is_float(graph.type(operands[i]).dtype);
    if (varies && !made_here && std::find(named.begin(), named.end(), name) == named.end()) candidates.push_back(i);
  }
  for (const std::string& output : node.output()) makers_.insert_or_assign(output, made_by);
  for (size_t place = 0; place < named.size(); ++place) {
    if (!is_detached(named[place])) continue;
    const auto found = pick(candidates, place);
    if (!found && !own) {
      notes.open.push_back({where, fmt::format("reads %{} of the exported program, but its operand cannot be "
                                               "determined; specify it with --stop-gradient",
                                               named[place])});
    }
    if (!found) continue;
    ValueId& operand = operands[*found];
    notes.remarks.push_back(
        {where, fmt::format("no gradient flows to %{}: the exported program detached it", graph.value(operand).name)});
    const std::string name = std::string(graph.value(operand).name) + ".detached";
    operand = graph.add(ir::core("stop_gradient"), {operand}, {}, name, where);
    RANNC_TRY(ir::infer_types(graph, graph.producer(operand)));
    candidates.erase(std::find(candidates.begin(), candidates.end(), *found));
  }
  return {};
}

}  // namespace rannc::frontend
