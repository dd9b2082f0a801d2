/// Recurrent layers as a chain of cells, one for each step.
#include <fmt/format.h>

#include <utility>

#include "frontend/onnx/internal/recurrent_cell.h"

namespace rannc::frontend {

namespace {

constexpr int64_t kMostSteps = 4096;

/// One direction. Beyond a sample's length its states stay as they are, and its results are zero: so a chain that comes
/// from the end begins at the length.
class Chain {
 public:
  Chain(Node& node, const RecurrentLayer& layer, size_t direction)
      : node_(node), layer_(layer), backwards_(layer.backwards[direction]), cell_(node, layer, direction) {}

  /// The hidden states by time, and the last states.
  std::vector<ValueId> run(std::vector<ValueId>& outputs) {
    const int64_t steps = layer_.steps.constant();
    std::vector<ValueId> states = cell_.start();
    outputs.assign(static_cast<size_t>(steps), {});
    for (int64_t step = 0; step < steps && node_.good(); ++step) {
      const int64_t time = backwards_ ? steps - 1 - step : step;
      std::vector<ValueId> next = cell_.step(row_of(node_, cell_.projected(), time), states);
      ValueId& output = outputs[static_cast<size_t>(time)];
      output = next[0];
      if (layer_.lengths.valid()) hold(time, states, next, output);
      states = std::move(next);
    }
    return states;
  }

 private:
  void hold(int64_t time, const std::vector<ValueId>& before, std::vector<ValueId>& next, ValueId& output) const {
    const ValueId now = node_.scalar(static_cast<double>(time), node_.dtype(layer_.lengths));
    const ValueId inside = node_.emit("unsqueeze", {node_.emit("gt", {layer_.lengths, now})}, {{"axes", ir::Shape{1}}});
    const ValueId zero = node_.scalar(0, node_.dtype(output));
    output = node_.emit("where", {inside, output, zero});
    for (size_t i = 0; i < next.size(); ++i)
      next[i] = node_.emit("where", {inside, next[i], before[i].valid() ? before[i] : zero});
  }

  Node& node_;
  const RecurrentLayer& layer_;
  const bool backwards_;
  const RecurrentCell cell_;
};

}  // namespace

ValueId row_of(Node& node, ValueId x, int64_t index) {
  const ValueId row =
      node.emit("slice", {x}, {{"starts", ir::Shape{index}}, {"ends", ir::Shape{index + 1}}, {"axes", ir::Shape{0}}});
  return node.emit("squeeze", {row}, {{"axes", ir::Shape{0}}});
}

ValueId stacked(Node& node, const std::vector<ValueId>& values, int64_t axis) {
  std::vector<ValueId> rows;
  for (const ValueId value : values) rows.push_back(node.emit("unsqueeze", {value}, {{"axes", ir::Shape{axis}}}));
  return rows.size() == 1 ? rows[0] : node.emit("concat", rows, {{"axis", ir::Dim(axis)}});
}

RecurrentResults step_by_step(Node& node, const RecurrentLayer& layer) {
  if (!layer.steps.is_constant() || layer.steps.constant() < 1 || layer.steps.constant() > kMostSteps) {
    node.fail(
        fmt::format("{} with {} runs step by step, which needs a number of steps from 1 to {} that is known before "
                    "the model runs; it is {}",
                    node.op(), beyond_core(layer), kMostSteps, layer.steps.str()));
    return {};
  }
  std::vector<std::vector<ValueId>> by_time(static_cast<size_t>(layer.steps.constant())), states(layer.states());
  for (size_t direction = 0; direction < layer.directions(); ++direction) {
    std::vector<ValueId> outputs;
    const std::vector<ValueId> last = Chain(node, layer, direction).run(outputs);
    if (!node.good()) return {};
    for (size_t time = 0; time < by_time.size(); ++time) by_time[time].push_back(outputs[time]);
    for (size_t i = 0; i < states.size(); ++i) states[i].push_back(last[i]);
  }
  RecurrentResults results;
  std::vector<ValueId> rows;
  for (const auto& directions : by_time) rows.push_back(stacked(node, directions, 0));
  results.y = stacked(node, rows, 0);
  for (const auto& directions : states) results.states.push_back(stacked(node, directions, 0));
  return results;
}

}  // namespace rannc::frontend
