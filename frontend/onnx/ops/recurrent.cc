/// Translates ONNX recurrent layers, unrolled over time.
#include "frontend/onnx/internal/node.h"
#include "frontend/onnx/internal/translators.h"

namespace rannc::frontend {

namespace {

constexpr int64_t kMostSteps = 4096;

/// Elements [first, last) along `axis`.
ValueId part(Node& node, ValueId x, int64_t axis, int64_t first, int64_t last) {
  return node.emit("slice", {x}, {{"starts", ir::Shape{first}}, {"ends", ir::Shape{last}}, {"axes", ir::Shape{axis}}});
}

/// Element `index` along axis 0, which goes.
ValueId at(Node& node, ValueId x, int64_t index) {
  return node.emit("squeeze", {part(node, x, 0, index, index + 1)}, {{"axes", ir::Shape{0}}});
}

struct State {
  ValueId hidden, cell;  ///< invalid: zero
};

/// One direction of an LSTM over x [T, B, I]: W [D, 4H, I], R [D, 4H, H], B [D, 8H], gates in the order i, o, f, c.
class Lstm {
 public:
  Lstm(Node& node, int64_t steps, int64_t hidden) : node_(node), steps_(steps), hidden_(hidden) {}

  /// The hidden states by time, and the last state.
  State run(int64_t direction, bool backwards, std::vector<ValueId>& outputs) {
    const ir::Attributes rows = {{"layout", std::string("oi")}};
    const ValueId weight = at(node_, node_.in(1), direction);
    recurrence_ = at(node_, node_.in(2), direction);
    std::vector<ValueId> operands = {node_.in(0), weight};
    if (node_.has(3)) {
      const ValueId both = at(node_, node_.in(3), direction);
      operands.push_back(
          node_.emit("add", {part(node_, both, 0, 0, 4 * hidden_), part(node_, both, 0, 4 * hidden_, 8 * hidden_)}));
    }
    const ValueId projected = node_.emit("linear", operands, rows);
    State state = {initial(5, direction), initial(6, direction)};
    outputs.assign(static_cast<size_t>(steps_), {});
    for (int64_t step = 0; step < steps_ && node_.good(); ++step) {
      const int64_t time = backwards ? steps_ - 1 - step : step;
      state = advance(at(node_, projected, time), state);
      outputs[static_cast<size_t>(time)] = state.hidden;
    }
    return state;
  }

 private:
  ValueId initial(size_t operand, int64_t direction) {
    if (!node_.has(operand) || node_.is_zero(node_.in(operand))) return {};
    return at(node_, node_.in(operand), direction);
  }

  /// c' = f c + i g, h' = o tanh(c').
  State advance(ValueId gates, State state) {
    if (state.hidden.valid()) {
      const ValueId fed_back = node_.emit("linear", {state.hidden, recurrence_}, {{"layout", std::string("oi")}});
      gates = node_.emit("add", {gates, fed_back});
    }
    const auto gate = [&](int64_t index) { return part(node_, gates, 1, index * hidden_, (index + 1) * hidden_); };
    const ValueId input = node_.emit("sigmoid", {gate(0)}), output = node_.emit("sigmoid", {gate(1)});
    const ValueId fresh = node_.emit("mul", {input, node_.emit("tanh", {gate(3)})});
    State next;
    next.cell = fresh;
    if (state.cell.valid()) {
      const ValueId forget = node_.emit("sigmoid", {gate(2)});
      next.cell = node_.emit("add", {node_.emit("mul", {forget, state.cell}), fresh});
    }
    next.hidden = node_.emit("mul", {output, node_.emit("tanh", {next.cell})});
    return next;
  }

  Node& node_;
  int64_t steps_, hidden_;
  ValueId recurrence_;
};

ValueId stack(Node& node, const std::vector<ValueId>& values, int64_t axis) {
  std::vector<ValueId> rows;
  for (const ValueId value : values) rows.push_back(node.emit("unsqueeze", {value}, {{"axes", ir::Shape{axis}}}));
  return rows.size() == 1 ? rows[0] : node.emit("concat", rows, {{"axis", ir::Dim(axis)}});
}

/// The forms that PyTorch exports: standard activations, full sequences, time first.
bool is_supported(Node& node) {
  const bool plain = !node.has_attribute("activations") && !node.has_attribute("clip") &&
                     node.integer("input_forget", 0) == 0 && node.integer("layout", 0) == 0 && !node.has(4) &&
                     !node.has(7);
  if (!plain) node.fail("LSTM is supported with standard activations, full sequences and time first");
  return plain;
}

void lstm(Node& node) {
  const ir::Shape* const x = node.shape(node.in(0));
  const ir::Shape* const r = node.shape(node.in(2));
  if (!x || !r || !is_supported(node)) return;
  if (x->size() != 3 || r->size() != 3 || !(*x)[0].is_constant() || !(*r)[2].is_constant() || (*x)[0].constant() < 1 ||
      (*x)[0].constant() > kMostSteps) {
    return node.fail("LSTM needs a number of steps from 1 to 4096 that is known before the model runs");
  }
  const int64_t steps = (*x)[0].constant(), hidden = (*r)[2].constant();
  const std::string direction = node.text("direction", "forward");
  Lstm layer(node, steps, hidden);
  std::vector<std::vector<ValueId>> by_time(static_cast<size_t>(steps));
  std::vector<ValueId> last_hidden, last_cell, outputs;
  for (int64_t d = 0; d < (direction == "bidirectional" ? 2 : 1); ++d) {
    const State last = layer.run(d, d == 1 || direction == "reverse", outputs);
    if (!node.good()) return;
    last_hidden.push_back(last.hidden);
    last_cell.push_back(last.cell);
    for (size_t time = 0; time < by_time.size(); ++time) by_time[time].push_back(outputs[time]);
  }
  if (node.wants(0)) {
    std::vector<ValueId> rows;
    for (const auto& directions : by_time) rows.push_back(stack(node, directions, 0));
    node.result_at(0, stack(node, rows, 0));
  }
  if (node.wants(1)) node.result_at(1, stack(node, last_hidden, 0));
  if (node.wants(2)) node.result_at(2, stack(node, last_cell, 0));
}

constexpr Translator kTable[] = {
    {"LSTM", 7, 27, lstm},
};

}  // namespace

std::span<const Translator> recurrent_translators() { return kTable; }

}  // namespace rannc::frontend
