#include "frontend/onnx/internal/recurrent/recurrent_cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace rannc::frontend {

namespace {

const ir::Attributes& rows() {
  static const ir::Attributes kRows = {{"layout", std::string("oi")}};
  return kRows;
}

ValueId part(Node& node, ValueId x, int64_t axis, int64_t first, int64_t last) {
  return node.emit("slice", {x}, {{"starts", ir::Shape{first}}, {"ends", ir::Shape{last}}, {"axes", ir::Shape{axis}}});
}

ValueId scaled(Node& node, ValueId x, double factor, double shift) {
  if (factor != 1) x = node.emit("mul", {x, node.scalar(factor, node.dtype(x))});
  return shift == 0 ? x : node.emit("add", {x, node.scalar(shift, node.dtype(x))});
}

ValueId hard_sigmoid(Node& node, ValueId x, const Activation& by) {
  return node.emit("clamp", {scaled(node, x, by.alpha, by.beta)}, {{"min", 0.0}, {"max", 1.0}});
}

ValueId scaled_tanh(Node& node, ValueId x, const Activation& by) {
  return scaled(node, node.emit("tanh", {scaled(node, x, by.beta, 0)}), by.alpha, 0);
}

ValueId thresholded_relu(Node& node, ValueId x, const Activation& by) {
  const ValueId above = node.emit("ge", {x, node.scalar(by.alpha, node.dtype(x))});
  return node.emit("where", {above, x, node.scalar(0, node.dtype(x))});
}

ValueId softsign(Node& node, ValueId x, const Activation&) {
  return node.emit("div", {x, scaled(node, node.emit("abs", {x}), 1, 1)});
}

struct Function {
  std::string_view name;
  ValueId (*emit)(Node& node, ValueId x, const Activation& by);
};

template <const char* op>
ValueId plain(Node& node, ValueId x, const Activation&) {
  return node.emit(op, {x});
}
template <const char* op>
ValueId with_alpha(Node& node, ValueId x, const Activation& by) {
  return node.emit(op, {x}, {{"alpha", by.alpha}});
}

constexpr char kRelu[] = "relu", kTanh[] = "tanh", kSigmoid[] = "sigmoid", kSoftplus[] = "softplus", kElu[] = "elu",
               kLeakyRelu[] = "leaky_relu";

constexpr Function kFunctions[] = {
    {"relu", plain<kRelu>},
    {"tanh", plain<kTanh>},
    {"sigmoid", plain<kSigmoid>},
    {"softplus", plain<kSoftplus>},
    {"softsign", softsign},
    {"elu", with_alpha<kElu>},
    {"leakyrelu", with_alpha<kLeakyRelu>},
    {"thresholdedrelu", thresholded_relu},
    {"scaledtanh", scaled_tanh},
    {"hardsigmoid", hard_sigmoid},
    {"affine", [](Node& node, ValueId x, const Activation& by) { return scaled(node, x, by.alpha, by.beta); }},
};

}  // namespace

RecurrentStart start_of(Node& node, const RecurrentLayer& layer, size_t direction) {
  const auto place = static_cast<int64_t>(direction);
  const int64_t all = layer.gates * layer.hidden;
  RecurrentStart start;
  RecurrentCell::Weights& weights = start.weights;
  weights.recurrence = row_of(node, layer.recurrence, place);
  if (layer.peepholes.valid()) weights.peepholes = row_of(node, layer.peepholes, place);
  std::vector<ValueId> operands = {layer.x, row_of(node, layer.weight, place)};
  if (layer.bias.valid()) {
    const ValueId both = row_of(node, layer.bias, place);
    const ValueId bias = part(node, both, 0, 0, all), recurrent = part(node, both, 0, all, 2 * all);
    if (layer.resets_after) weights.recurrent_bias = recurrent;
    operands.push_back(layer.resets_after ? bias : node.emit("add", {bias, recurrent}));
  }
  start.projected = node.emit("linear", operands, rows());
  if (layer.kind == CellKind::kGru && !layer.resets_after) {
    weights.candidate_recurrence = part(node, weights.recurrence, 0, 2 * layer.hidden, all);
    weights.recurrence = part(node, weights.recurrence, 0, 0, 2 * layer.hidden);
  }
  for (const ValueId state : {layer.initial_hidden, layer.initial_cell})
    start.states.push_back(state.valid() ? row_of(node, state, place) : state);
  start.states.resize(layer.states());
  return start;
}

std::vector<ValueId> RecurrentCell::step(ValueId row, const std::vector<ValueId>& before) const {
  if (layer_.kind == CellKind::kLstm) return lstm(row, before[0], before[1]);
  if (layer_.kind == CellKind::kGru) return gru(row, before[0]);
  return {active(0, plus(row, product(before[0], weights_.recurrence)))};
}

// i = f(…), f = f(…) or 1 - i, c' = f c + i g(…), o = f(…), h' = o h(c').
std::vector<ValueId> RecurrentCell::lstm(ValueId row, ValueId hidden, ValueId cell) const {
  const ValueId all = plus(row, product(hidden, weights_.recurrence));
  const ValueId input = active(0, with_peephole(gates(all, 0, 1), cell, 0));
  ValueId next = node_.emit("mul", {input, active(1, gates(all, 3, 4))});
  if (cell.valid()) {
    const ValueId forget =
        layer_.couples_gates ? scaled(node_, input, -1, 1) : active(0, with_peephole(gates(all, 2, 3), cell, 2));
    next = node_.emit("add", {node_.emit("mul", {forget, cell}), next});
  }
  const ValueId output = active(0, with_peephole(gates(all, 1, 2), next, 1));
  return {node_.emit("mul", {output, applied(2, next)}), next};
}

// z = f(…), r = f(…), n = g(…), h' = (1 - z) n + z h.
std::vector<ValueId> RecurrentCell::gru(ValueId row, ValueId hidden) const {
  const ValueId fed_back =
      layer_.resets_after && !hidden.valid()
          ? weights_.recurrent_bias
          : product(hidden, weights_.recurrence, layer_.resets_after ? weights_.recurrent_bias : ValueId());
  const ValueId switches = plus(gates(row, 0, 2), fed_back.valid() ? gates(fed_back, 0, 2) : fed_back);
  const ValueId update = active(0, gates(switches, 0, 1)), reset = active(0, gates(switches, 1, 2));
  const ValueId fresh = candidate(gates(row, 2, 3), hidden, fed_back, reset);
  const ValueId taken = node_.emit("sub", {fresh, node_.emit("mul", {update, fresh})});
  return {plus(taken, hidden.valid() ? node_.emit("mul", {update, hidden}) : ValueId())};
}

ValueId RecurrentCell::candidate(ValueId row, ValueId hidden, ValueId fed_back, ValueId reset) const {
  ValueId recurrent;
  if (layer_.resets_after) {
    if (fed_back.valid()) recurrent = node_.emit("mul", {reset, gates(fed_back, 2, 3)});
  } else if (hidden.valid()) {
    recurrent = product(node_.emit("mul", {reset, hidden}), weights_.candidate_recurrence);
  }
  return active(1, plus(row, recurrent));
}

// Slices gates first…last-1 from the last axis.
ValueId RecurrentCell::gates(ValueId of, int64_t first, int64_t last) const {
  const ir::Shape* const shape = node_.shape(of);
  if (shape == nullptr || shape->back() == ir::Dim((last - first) * layer_.hidden)) return of;
  return part(node_, of, static_cast<int64_t>(shape->size()) - 1, first * layer_.hidden, last * layer_.hidden);
}

ValueId RecurrentCell::product(ValueId hidden, ValueId recurrence, ValueId bias) const {
  if (!hidden.valid()) return {};
  if (!bias.valid()) return node_.emit("linear", {hidden, recurrence}, rows());
  return node_.emit("linear", {hidden, recurrence, bias}, rows());
}

ValueId RecurrentCell::plus(ValueId a, ValueId b) const {
  if (!a.valid() || !b.valid()) return a.valid() ? a : b;
  return node_.emit("add", {a, b});
}

ValueId RecurrentCell::active(size_t function, ValueId x) const {
  if (layer_.clip) x = node_.emit("clamp", {x}, {{"min", -*layer_.clip}, {"max", *layer_.clip}});
  return applied(function, x);
}

ValueId RecurrentCell::applied(size_t function, ValueId x) const {
  const Activation& by = layer_.activations[direction_][function];
  const auto* const found =
      std::find_if(std::begin(kFunctions), std::end(kFunctions), [&](const Function& f) { return f.name == by.name; });
  if (found != std::end(kFunctions)) return found->emit(node_, x, by);
  node_.fail(fmt::format("{} has the activation '{}', which is not an ONNX activation", node_.op(), by.name));
  return {};
}

ValueId RecurrentCell::with_peephole(ValueId gate, ValueId cell, int64_t index) const {
  if (!weights_.peepholes.valid() || !cell.valid()) return gate;
  const ValueId weight = part(node_, weights_.peepholes, 0, index * layer_.hidden, (index + 1) * layer_.hidden);
  return node_.emit("add", {gate, node_.emit("mul", {weight, cell})});
}

}  // namespace rannc::frontend
