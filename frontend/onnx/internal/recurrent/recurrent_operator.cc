/// Translates recurrent layers to core operators, whose weights have gates in ATen's order.
#include <algorithm>
#include <tuple>
#include <utility>

#include "frontend/onnx/internal/recurrent/recurrent.h"

namespace rannc::frontend {

namespace {

/// Reorders the gates of weights to ATen's order. The tasks read only weights, so they run once per step, and
/// parameters stay as in the file.
struct Weights {
  ValueId weight, recurrence, bias, recurrent_bias;
};

/// Gate ranges along axis 1, in units of the hidden size, in ATen's order: i, o, f + c becomes i, f + c, o, and z, r, h
/// becomes r, z, n.
struct Order {
  std::vector<int64_t> parts;
  std::vector<size_t> places;
};

Order order_of(CellKind kind) {
  if (kind == CellKind::kLstm) return {{1, 1, 2}, {0, 2, 1}};
  if (kind == CellKind::kGru) return {{1, 1, 1}, {1, 0, 2}};
  return {{1}, {0}};
}

ValueId in_order(Node& node, const std::vector<ValueId>& parts, const std::vector<size_t>& places, size_t first) {
  std::vector<ValueId> ordered;
  for (const size_t place : places) ordered.push_back(parts[first + place]);
  return ordered.size() == 1 ? ordered[0] : node.emit("concat", ordered, {{"axis", ir::Dim(1)}});
}

std::vector<ValueId> split(Node& node, ValueId x, const RecurrentLayer& layer, size_t times) {
  const Order order = order_of(layer.kind);
  if (order.parts.size() * times == 1) return {x};
  ir::Shape sizes;
  for (size_t time = 0; time < times; ++time) {
    for (const int64_t part : order.parts) sizes.emplace_back(part * layer.hidden);
  }
  return node.emit_all("split", {x}, {{"axis", ir::Dim(1)}, {"sizes", sizes}}, sizes.size());
}

Weights ordered(Node& node, const RecurrentLayer& layer) {
  const std::vector<size_t> places = order_of(layer.kind).places;
  Weights weights;
  weights.weight = in_order(node, split(node, layer.weight, layer, 1), places, 0);
  weights.recurrence = in_order(node, split(node, layer.recurrence, layer, 1), places, 0);
  if (!layer.bias.valid()) return weights;
  const std::vector<ValueId> biases = split(node, layer.bias, layer, 2);
  weights.bias = in_order(node, biases, places, 0);
  weights.recurrent_bias = in_order(node, biases, places, places.size());
  return weights;
}

/// Emits the task. Returns y [T, B, D * H], followed by the states.
std::vector<ValueId> layer_task(Node& node, const RecurrentLayer& layer, ValueId x, const Weights& weights,
                                std::span<const ValueId> states) {
  constexpr std::string_view kOps[] = {"lstm", "gru", "rnn"};
  std::vector<ValueId> operands = {x, weights.weight, weights.recurrence, weights.bias, weights.recurrent_bias};
  operands.insert(operands.end(), states.begin(), states.end());
  while (!operands.back().valid() && operands.size() > 3) operands.pop_back();
  ir::Attributes attributes;
  if (layer.kind == CellKind::kRnn) attributes.set("activation", layer.activations[0][0].name);
  return node.emit_all(kOps[static_cast<size_t>(layer.kind)], operands, std::move(attributes), 1 + layer.states());
}

std::vector<ValueId> initial_states(const RecurrentLayer& layer) {
  if (layer.kind == CellKind::kLstm) return {layer.initial_hidden, layer.initial_cell};
  return {layer.initial_hidden};
}

/// Case where all samples are as long as x.
RecurrentResults whole(Node& node, const RecurrentLayer& layer) {
  const bool reverse = layer.directions() == 1 && layer.backwards[0];
  const ValueId x = reverse ? flipped(node, layer.x) : layer.x;
  const std::vector<ValueId> made = layer_task(node, layer, x, ordered(node, layer), initial_states(layer));
  RecurrentResults results{made[0], {made.begin() + 1, made.end()}};
  if (reverse) results.y = flipped(node, results.y);
  if (layer.directions() == 1) {
    results.y = node.emit("unsqueeze", {results.y}, {{"axes", ir::Shape{1}}});
    return results;
  }
  const ir::Shape* const shape = node.shape(results.y);
  if (shape == nullptr) return results;
  const ir::Shape apart = {(*shape)[0], (*shape)[1], 2, layer.hidden};
  results.y = node.emit("reshape", {results.y}, {{"shape", apart}});
  results.y = node.emit("permute", {results.y}, {{"dims", ir::Shape{0, 2, 1, 3}}});
  return results;
}

/// Values derived from the lengths of samples.
class Lengths {
 public:
  Lengths(Node& node, const RecurrentLayer& layer) : node_(node) {
    time_ = node.emit("range", {}, {{"limit", layer.steps}, {"dtype", ir::DType::kI64}});
    time_ = along(time_, 1);
    lengths_ = node.emit("cast", {layer.lengths}, {{"dtype", ir::DType::kI64}});
    inside_ = node.emit("lt", {time_, lengths_});
  }

  /// [T, B, 1]: whether the step is within the sample's length.
  ValueId inside() { return along(inside_, 2); }
  ValueId masked(ValueId y) { return node_.emit("where", {inside(), y, node_.scalar(0, node_.dtype(y))}); }
  /// x [T, B, F] with each sample's steps within its length reversed.
  ValueId reversed(ValueId x) {
    const ValueId from_end = node_.emit("sub", {last_step(), time_});
    return picked(x, along(node_.emit("where", {inside_, from_end, time_}), 2));
  }
  /// [1, B, F]: the last step within each sample's length.
  ValueId last_of(ValueId y) {
    const ValueId place = node_.emit("clamp", {last_step()}, {{"min", ir::Dim(0)}});
    return picked(y, along(along(place, 0), 2));
  }

 private:
  ValueId last_step() { return node_.emit("sub", {lengths_, node_.scalar(1, ir::DType::kI64)}); }
  ValueId along(ValueId x, int64_t axis) { return node_.emit("unsqueeze", {x}, {{"axes", ir::Shape{axis}}}); }
  ValueId picked(ValueId x, ValueId places) {
    const ir::Shape* const shape = node_.shape(x);
    if (shape == nullptr) return {};
    const ValueId wide = node_.emit("expand", {places}, {{"shape", ir::Shape{1, 1, shape->back()}}});
    return node_.emit("gather_elements", {x, wide}, {{"axis", ir::Dim(0)}});
  }

  Node& node_;
  ValueId time_, lengths_, inside_;  // [T, 1], [B], [T, B]
};

/// Adds a feature to x that is 1 beyond a sample's end, with weights that open the forget gate and close the input gate
/// there, so that the cell state does not change. Sigmoids of numbers that large are exactly 1 and 0.
std::pair<ValueId, ValueId> holding(Node& node, Lengths& lengths, ValueId x, ValueId weight, int64_t hidden) {
  constexpr double kFar = 1e4;
  const ir::DType dtype = node.dtype(x);
  const auto rows = [&](double value, int64_t gates) {
    return node.emit("full", {}, {{"shape", ir::Shape{1, gates * hidden, 1}}, {"value", value}, {"dtype", dtype}});
  };
  const ValueId column = node.emit("concat", {rows(-kFar, 1), rows(kFar, 1), rows(0, 2)}, {{"axis", ir::Dim(1)}});
  const ValueId beyond = node.emit("cast", {node.emit("logical_not", {lengths.inside()})}, {{"dtype", dtype}});
  return {node.emit("concat", {x, beyond}, {{"axis", ir::Dim(2)}}),
          node.emit("concat", {weight, column}, {{"axis", ir::Dim(2)}})};
}

ValueId slab(Node& node, ValueId x, const RecurrentLayer& layer, size_t direction) {
  if (!x.valid() || layer.directions() == 1) return x;
  const auto first = static_cast<int64_t>(direction);
  return node.emit("slice", {x},
                   {{"starts", ir::Shape{first}}, {"ends", ir::Shape{first + 1}}, {"axes", ir::Shape{0}}});
}

/// Emits one direction over samples with different lengths, starting at the first step. Returns y [T, B, H] and states
/// [1, B, H].
RecurrentResults direction_of(Node& node, const RecurrentLayer& layer, const Weights& all, Lengths& lengths,
                              size_t direction) {
  const auto of = [&](ValueId x) { return slab(node, x, layer, direction); };
  Weights weights = {of(all.weight), of(all.recurrence), of(all.bias), of(all.recurrent_bias)};
  std::vector<ValueId> states = initial_states(layer);
  for (ValueId& state : states) state = of(state);
  const bool backwards = layer.backwards[direction];
  ValueId x = backwards ? lengths.reversed(layer.x) : layer.x;
  if (layer.wants_cell) std::tie(x, weights.weight) = holding(node, lengths, x, weights.weight, layer.hidden);
  const std::vector<ValueId> made = layer_task(node, layer, x, weights, states);
  const ValueId y = lengths.masked(made[0]);
  RecurrentResults results{backwards ? lengths.reversed(y) : y, {lengths.last_of(y)}};
  if (layer.states() == 2) results.states.push_back(made[2]);
  return results;
}

RecurrentResults by_lengths(Node& node, const RecurrentLayer& layer) {
  const Weights weights = ordered(node, layer);
  Lengths lengths(node, layer);
  std::vector<ValueId> ys;
  std::vector<std::vector<ValueId>> states(layer.states());
  for (size_t direction = 0; direction < layer.directions(); ++direction) {
    const RecurrentResults one = direction_of(node, layer, weights, lengths, direction);
    ys.push_back(one.y);
    for (size_t i = 0; i < states.size(); ++i) states[i].push_back(one.states[i]);
  }
  RecurrentResults results{stacked(node, ys, 1), {}};
  for (const std::vector<ValueId>& parts : states)
    results.states.push_back(parts.size() == 1 ? parts[0] : node.emit("concat", parts, {{"axis", ir::Dim(0)}}));
  return results;
}

/// Whether ATen supports the activations: the standard ones of LSTM and GRU, one of two for RNN, equal in all
/// directions.
bool has_usual_functions(const RecurrentLayer& layer) {
  std::vector<std::string> usual = {"sigmoid", "tanh", "tanh"};
  if (layer.kind == CellKind::kRnn) usual = {layer.activations[0][0].name == "relu" ? "relu" : "tanh"};
  return std::all_of(layer.activations.begin(), layer.activations.end(), [&](const std::vector<Activation>& functions) {
    return std::equal(functions.begin(), functions.end(), usual.begin(),
                      [](const Activation& given, const std::string& name) { return given.name == name; });
  });
}

}  // namespace

bool is_of_core(const RecurrentLayer& layer) {
  const bool resets_before = layer.kind == CellKind::kGru && !layer.resets_after;
  return !layer.peepholes.valid() && !layer.clip && !layer.couples_gates && !resets_before &&
         has_usual_functions(layer);
}

RecurrentResults as_operator(Node& node, const RecurrentLayer& layer) {
  return layer.lengths.valid() ? by_lengths(node, layer) : whole(node, layer);
}

}  // namespace rannc::frontend
