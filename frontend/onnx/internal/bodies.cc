#include "frontend/onnx/internal/bodies.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/onnx/internal/written_out.h"
#include "ir/rewriter.h"

namespace rannc::frontend {

ValueId OpenBody::add_input(const std::string& name, ir::ValueType type) {
  type.contents.reset();
  type.batch.mix = ir::Mix::kNone;
  const ValueId input = graph_.add_value(ir::ValueKind::kInput, name, std::move(type));
  graph_.add_input(input);
  return input;
}

Result<ValueId> OpenBody::outside(ValueId leaf, bool repeated, const Location& where, ImportNotes& notes) {
  const ir::Graph::Value& found = graph_.value(leaf);
  if (const auto known = region_.of.find(found.name); known != region_.of.end()) return known->second;
  ir::Graph& around = region_.around->graph;
  if (const ir::Draw* const draw = graph_.draw(leaf)) {
    if (!repeated) return around.add_draw(found.name, found.type, *draw);
    return error(where, fmt::format("'{}' draws random numbers in a loop, each trip of which would need its own: that "
                                    "is not supported",
                                    found.name));
  }
  const std::string name(found.name);
  const ValueId moved = around.add_value(found.kind, name, found.type, found.data);
  if (notes.literals.contains(name)) notes.literals.emplace(around.value(moved).name);
  return moved;
}

Result<void> OpenBody::close(const std::vector<ValueId>& outputs, bool repeated, const Location& where,
                             ImportNotes& notes) {
  graph_.set_outputs(outputs);
  recognise_written_out(graph_);
  ir::remove_dead(graph_);
  for (const ValueId leaf : graph_.values()) {
    const auto& inputs = graph_.inputs();
    if (graph_.producer(leaf).valid() || std::find(inputs.begin(), inputs.end(), leaf) != inputs.end()) continue;
    RANNC_ASSIGN(const ValueId value, outside(leaf, repeated, where, notes));
    taken_.push_back(value);
    leaves_.push_back(leaf);
  }
  // What its tasks take for granted the whole graph does.
  std::vector<ir::Assumption> all = region_.around->graph.assumptions();
  for (const ir::Assumption& each : graph_.assumptions()) {
    const auto same = [&](const ir::Assumption& a) { return a.left == each.left && a.right == each.right; };
    if (std::none_of(all.begin(), all.end(), same)) all.push_back(each);
  }
  region_.around->graph.set_assumptions(std::move(all));
  graph_.set_assumptions({});
  return {};
}

ir::Body OpenBody::body(const std::vector<ValueId>& handed) && {
  for (const ValueId value : handed) {
    const auto at = std::find(taken_.begin(), taken_.end(), value);
    if (at == taken_.end()) {
      const ir::Graph::Value& unread = region_.around->graph.value(value);
      ir::ValueType type = unread.type;
      type.batch.mix = ir::Mix::kNone;
      graph_.add_input(graph_.add_value(ir::ValueKind::kInput, unread.name, std::move(type)));
      continue;
    }
    const ValueId leaf = leaves_[static_cast<size_t>(at - taken_.begin())];
    graph_.set_data(leaf, {});
    graph_.set_kind(leaf, ir::ValueKind::kInput);
    graph_.add_input(leaf);
  }
  return ir::Body(std::move(graph_));
}

}  // namespace rannc::frontend
