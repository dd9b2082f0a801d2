/// Translates recurrent layers step by step, to a chain of cells or a loop task with a cell as its body.
#include <utility>

#include "frontend/onnx/internal/recurrent/recurrent_cell.h"

namespace rannc::frontend {

namespace {

/// Maximum number of steps of a chain, which has tasks for each step.
constexpr int64_t kMostSteps = 256;

/// One direction after its last step.
struct Done {
  ValueId y;  ///< [T, B, H]
  std::vector<ValueId> states;
};

/// Keeps the states and zeroes the results beyond a sample's length. A backward run therefore effectively starts at the
/// length. `inside`: [B, 1].
void hold(Node& node, ValueId inside, const std::vector<ValueId>& before, std::vector<ValueId>& next, ValueId& y) {
  const ValueId zero = node.scalar(0, node.dtype(y));
  y = node.emit("where", {inside, y, zero});
  for (size_t i = 0; i < next.size(); ++i)
    next[i] = node.emit("where", {inside, next[i], before[i].valid() ? before[i] : zero});
}

/// A chain of cells.
Done chain(Node& node, const RecurrentLayer& layer, size_t direction) {
  RecurrentStart start = start_of(node, layer, direction);
  const RecurrentCell cell(node, layer, direction, start.weights);
  const int64_t steps = layer.steps.constant();
  std::vector<ValueId> outputs(static_cast<size_t>(steps)), states = std::move(start.states);
  for (int64_t step = 0; step < steps && node.good(); ++step) {
    const int64_t time = layer.backwards[direction] ? steps - 1 - step : step;
    std::vector<ValueId> next = cell.step(row_of(node, start.projected, time), states);
    ValueId& output = outputs[static_cast<size_t>(time)];
    output = next[0];
    if (layer.lengths.valid()) {
      const ValueId now = node.scalar(static_cast<double>(time), node.dtype(layer.lengths));
      const ValueId inside = node.emit("gt", {layer.lengths, now});
      hold(node, node.emit("unsqueeze", {inside}, {{"axes", ir::Shape{1}}}), states, next, output);
    }
    states = std::move(next);
  }
  if (!node.good()) return {};
  return {stacked(node, outputs, 0), std::move(states)};
}

/// A loop task with the cell as its body.
class Loop {
 public:
  Loop(Node& node, const RecurrentLayer& layer, size_t direction)
      : node_(node), layer_(layer), direction_(direction), start_(start_of(node, layer, direction)) {}

  Done run() && {
    const bool backwards = layer_.backwards[direction_];
    for (const ValueId state : start_.states) operands_.push_back(state.valid() ? state : zeros());
    operands_.push_back(backwards ? flipped(node_, start_.projected) : start_.projected);
    if (layer_.lengths.valid()) operands_.push_back(backwards ? flipped(node_, inside()) : inside());
    const size_t states = layer_.states(), scanned = operands_.size() - states;
    if (!node_.good()) return {};
    ir::Graph graph;
    const ir::Attributes attributes = {{"states", ir::Dim(static_cast<int64_t>(states))},
                                       {"scanned", ir::Dim(static_cast<int64_t>(scanned))},
                                       {"trips", layer_.steps},
                                       {"body", body(graph)}};
    operands_.insert(operands_.begin(), 2, ValueId());  // no trip count and no condition
    const std::vector<ValueId> made = node_.emit_all("loop", operands_, attributes, states + 1);
    return {backwards ? flipped(node_, made[states]) : made[states], {made.begin(), made.begin() + states}};
  }

 private:
  ValueId zeros() {
    const ir::Shape* const shape = node_.shape(start_.projected);
    if (shape == nullptr) return {};
    return node_.emit(
        "full", {},
        {{"shape", ir::Shape{(*shape)[1], layer_.hidden}}, {"value", 0.0}, {"dtype", node_.dtype(start_.projected)}});
  }
  /// [T, B, 1]: whether the step is within the sample's length.
  ValueId inside() {
    const ir::DType dtype = node_.dtype(layer_.lengths);
    const ValueId time = node_.emit("range", {}, {{"limit", layer_.steps}, {"dtype", dtype}});
    const ValueId ends = node_.emit("lt", {node_.emit("unsqueeze", {time}, {{"axes", ir::Shape{1}}}), layer_.lengths});
    return node_.emit("unsqueeze", {ends}, {{"axes", ir::Shape{2}}});
  }

  /// Adds an input of the body with the type of an outside value or of its row.
  ValueId input(ir::Graph& graph, const std::string& name, ir::ValueType type, bool row) const {
    type.contents.reset();
    type.batch.mix = ir::Mix::kNone;
    if (row) {
      type.shape->erase(type.shape->begin());
      if (type.batch.has_batch()) --type.batch.axis;
    }
    const ValueId input = graph.add_value(ir::ValueKind::kInput, name, std::move(type));
    graph.add_input(input);
    return input;
  }

  /// Builds the body. Its inputs are trip number, condition, states, rows, and the weights, which follow the operands.
  ir::Body body(ir::Graph& graph) {
    Node inner = node_.inside(graph);
    input(graph, "trip", {ir::DType::kI64, ir::Shape{}, {}, {}}, false);
    input(graph, "goes_on", {ir::DType::kBool, ir::Shape{}, {}, {}}, false);
    std::vector<ValueId> states, rows;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const bool row = i >= layer_.states();
      (row ? rows : states).push_back(input(graph, row ? "row" : "state", node_.type(operands_[i]), row));
    }
    RecurrentCell::Weights weights = start_.weights;
    for (ValueId* const weight :
         {&weights.recurrence, &weights.candidate_recurrence, &weights.recurrent_bias, &weights.peepholes}) {
      if (!weight->valid()) continue;
      operands_.push_back(*weight);
      *weight = input(graph, "weight", node_.type(*weight), false);
    }
    std::vector<ValueId> next = RecurrentCell(inner, layer_, direction_, weights).step(rows[0], states);
    ValueId y = next[0];
    if (rows.size() > 1) hold(inner, rows[1], states, next, y);
    if (inner.failure()) {
      node_.fail(inner.failure()->message);
      return ir::Body(std::move(graph));
    }
    next.push_back(y);
    graph.set_outputs(next);
    return ir::Body(std::move(graph));
  }

  Node& node_;
  const RecurrentLayer& layer_;
  const size_t direction_;
  const RecurrentStart start_;
  std::vector<ValueId> operands_;
};

}  // namespace

RecurrentResults step_by_step(Node& node, const RecurrentLayer& layer) {
  const bool few = layer.steps.is_constant() && layer.steps.constant() >= 1 && layer.steps.constant() <= kMostSteps;
  std::vector<ValueId> ys;
  std::vector<std::vector<ValueId>> states(layer.states());
  for (size_t direction = 0; direction < layer.directions(); ++direction) {
    const Done done = few ? chain(node, layer, direction) : Loop(node, layer, direction).run();
    if (!node.good()) return {};
    ys.push_back(done.y);
    for (size_t i = 0; i < states.size(); ++i) states[i].push_back(done.states[i]);
  }
  RecurrentResults results{stacked(node, ys, 1), {}};
  for (const auto& directions : states) results.states.push_back(stacked(node, directions, 0));
  return results;
}

}  // namespace rannc::frontend
