#include "frontend/internal/bodies.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/internal/size_conditions.h"
#include "ir/graph/rewriter.h"

namespace rannc::frontend {

ValueId Region::take(ValueId value) {
  const auto known = taken.find(value);
  if (known != taken.end()) return known->second;
  const ir::Graph::Value& outside = around->graph.value(value);
  ir::ValueType type = outside.type;
  type.batch.mix = ir::Mix::kNone;
  const bool stored = outside.data.present();
  const ValueId inside =
      graph.add_value(stored ? outside.kind : ir::ValueKind::kInput, outside.name, std::move(type), outside.data);
  of.emplace(graph.value(inside).name, value);
  return taken[value] = inside;
}

ValueId OpenBody::add_input(const std::string& name, ir::ValueType type) {
  type.contents.reset();
  type.batch.mix = ir::Mix::kNone;
  const ValueId input = graph_.add_value(ir::ValueKind::kInput, name, std::move(type));
  graph_.add_input(input);
  return input;
}

ValueId OpenBody::outside(ValueId leaf, ImportNotes& notes) {
  const ir::Graph::Value& found = graph_.value(leaf);
  if (const auto known = region_.of.find(found.name); known != region_.of.end()) return known->second;
  const std::string name(found.name);
  const ValueId moved = region_.around->graph.add_value(found.kind, name, found.type, found.data);
  if (notes.stored.literals.contains(name)) notes.stored.literals.emplace(region_.around->graph.value(moved).name);
  return moved;
}

Result<ValueId> OpenBody::random_outside(ValueId leaf, const ir::RandomInput& random_input, const Runs& runs,
                                         const Location& where) {
  const ir::Graph::Value& found = graph_.value(leaf);
  ir::Graph& around = region_.around->graph;
  ir::ValueType type = found.type;
  if (runs.repeated && !runs.trips) {
    return error(
        where,
        fmt::format("'{}' draws random numbers in a loop, which is supported only if the trip count follows from sizes",
                    found.name));
  }
  if (runs.repeated && type.shape) {
    type.shape->insert(type.shape->begin(), *runs.trips);
    if (type.batch.has_batch()) ++type.batch.axis;
  }
  // Node ordinals, which serve as keys, are unique only within one graph. Bodies count separately.
  ir::RandomInput own = random_input;
  own.key = (uint64_t{1} << 32) + around.value_count();
  return around.add_random_input(found.name, std::move(type), own);
}

Result<void> OpenBody::close(const std::vector<ValueId>& outputs, const Runs& runs, const Location& where,
                             ImportNotes& notes) {
  graph_.set_outputs(outputs);
  ir::remove_dead(graph_);
  for (const ValueId leaf : graph_.values()) {
    const auto& inputs = graph_.inputs();
    if (graph_.producer(leaf).valid() || std::find(inputs.begin(), inputs.end(), leaf) != inputs.end()) continue;
    const bool from_around = region_.of.contains(graph_.value(leaf).name);
    const ir::RandomInput* const random_input = from_around ? nullptr : graph_.random_input(leaf);
    if (random_input == nullptr) {
      taken_.push_back(outside(leaf, notes));
      leaves_.push_back(leaf);
      continue;
    }
    RANNC_ASSIGN(const ValueId moved, random_outside(leaf, *random_input, runs, where));
    (runs.repeated ? random_ : taken_).push_back(moved);
    (runs.repeated ? random_leaves_ : leaves_).push_back(leaf);
  }
  // Assumptions of the body's tasks become assumptions of the whole graph.
  for (const ir::Assumption& each : graph_.assumptions()) {
    RANNC_TRY(assume_sizes(region_.around->graph, {each.left, each.right}, each.where));
  }
  graph_.set_assumptions({});
  return {};
}

ir::Body OpenBody::body(const std::vector<ValueId>& handed) && {
  const auto hand = [this](ValueId leaf) {
    graph_.set_data(leaf, {});
    graph_.set_kind(leaf, ir::ValueKind::kInput);
    graph_.add_input(leaf);
  };
  for (const ValueId leaf : random_leaves_) hand(leaf);
  for (const ValueId value : handed) {
    const auto at = std::find(taken_.begin(), taken_.end(), value);
    if (at == taken_.end()) {
      const ir::Graph::Value& unread = region_.around->graph.value(value);
      ir::ValueType type = unread.type;
      type.batch.mix = ir::Mix::kNone;
      graph_.add_input(graph_.add_value(ir::ValueKind::kInput, unread.name, std::move(type)));
      continue;
    }
    hand(leaves_[static_cast<size_t>(at - taken_.begin())]);
  }
  return ir::Body(std::move(graph_));
}

}  // namespace rannc::frontend
