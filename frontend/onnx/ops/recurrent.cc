/// Translates ONNX recurrent layers.
#include "frontend/onnx/internal/recurrent/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "frontend/onnx/internal/translate/node.h"
#include "frontend/onnx/internal/translate/translators.h"

namespace rannc::frontend {

namespace {

/// Default alpha and beta of an activation function; absent if it has no such parameter.
struct Defaults {
  std::string_view name;
  std::optional<double> alpha, beta;
};

constexpr Defaults kDefaults[] = {
    {"affine", 1, 0},     {"leakyrelu", 0.01, {}}, {"thresholdedrelu", 1, {}},
    {"scaledtanh", 1, 1}, {"elu", 1, {}},          {"hardsigmoid", 0.2, 0.5},
};

std::string in_lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Reads the activations of all directions. Each function with a parameter consumes the next element of its list.
void read_activations(Node& node, RecurrentLayer& layer) {
  const std::vector<std::string> usual = layer.kind == CellKind::kLstm
                                             ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
                                         : layer.kind == CellKind::kGru ? std::vector<std::string>{"sigmoid", "tanh"}
                                                                        : std::vector<std::string>{"tanh"};
  std::vector<std::string> names = node.texts("activations");
  if (names.empty()) {
    for (size_t d = 0; d < layer.directions(); ++d) names.insert(names.end(), usual.begin(), usual.end());
  }
  if (names.size() != usual.size() * layer.directions()) {
    return node.fail(fmt::format("{} has {} activations; {} directions need {}", node.op(), names.size(),
                                 layer.directions(), usual.size() * layer.directions()));
  }
  const std::vector<double> alphas = node.numbers("activation_alpha"), betas = node.numbers("activation_beta");
  size_t alpha = 0, beta = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i % usual.size() == 0) layer.activations.emplace_back();
    Activation& made = layer.activations.back().emplace_back(Activation{in_lower_case(names[i])});
    for (const Defaults& each : kDefaults) {
      if (each.name != made.name) continue;
      made.alpha = alpha < alphas.size() ? alphas[alpha] : *each.alpha;
      alpha += 1;
      if (each.beta) made.beta = beta < betas.size() ? betas[beta++] : *each.beta;
    }
  }
}

void read_directions(Node& node, RecurrentLayer& layer) {
  const std::string direction = in_lower_case(node.text("direction", "forward"));
  if (direction == "bidirectional") {
    layer.backwards = {false, true};
  } else if (direction == "forward" || direction == "reverse") {
    layer.backwards = {direction == "reverse"};
  } else {
    node.fail(fmt::format("{} has direction '{}'; expected forward, reverse or bidirectional", node.op(), direction));
  }
}

/// Reads sizes from R, of shape [D, rows, H].
void read_sizes(Node& node, RecurrentLayer& layer) {
  const ir::Shape* const x = node.shape(layer.x);
  const ir::Shape* const recurrence = node.shape(layer.recurrence);
  if (!x || !recurrence) return;
  const auto directions = static_cast<int64_t>(layer.directions());
  if (x->size() != 3 || recurrence->size() != 3 || !(*recurrence)[2].is_constant()) {
    return node.fail(fmt::format("{} needs X and R of rank 3 and a known hidden size; they are {} and {}", node.op(),
                                 ir::str(*x), ir::str(*recurrence)));
  }
  layer.steps = (*x)[0];
  layer.hidden = (*recurrence)[2].constant();
  if (node.integer("hidden_size", layer.hidden) != layer.hidden || !((*recurrence)[0] == ir::Dim(directions))) {
    node.fail(fmt::format("{} of hidden_size {} in {} directions has R {}", node.op(),
                          node.integer("hidden_size", layer.hidden), directions, ir::str(*recurrence)));
  }
}

/// Shape that ONNX requires of an operand. The extent of samples may be another expression, which operators check. One
/// row of zeros is valid for any number of samples.
struct FixedSizes {
  size_t operand;
  std::string_view name;
  ir::Shape sizes;
  std::optional<size_t> samples = {};  ///< sample axis
};

bool fits(Node& node, const FixedSizes& fixed, const ir::Shape& found) {
  if (found.size() != fixed.sizes.size()) return false;
  for (size_t axis = 0; axis < found.size(); ++axis) {
    const ir::Dim &own = found[axis], &wanted = fixed.sizes[axis];
    if (own == wanted) continue;
    if (axis != fixed.samples || (own.is_constant() && wanted.is_constant())) return false;
    const bool stretches = own == ir::Dim(1) || wanted == ir::Dim(1);
    if (stretches && !(own == ir::Dim(1) && node.is_zero(node.optional(fixed.operand)))) return false;
  }
  return true;
}

/// Checks the shapes of operands. Layers that become elementwise tasks would silently broadcast wrong extents.
void check_sizes(Node& node, const RecurrentLayer& layer) {
  const ir::Shape* const x = node.shape(layer.x);
  if (!x) return;
  const ir::Dim directions = static_cast<int64_t>(layer.directions()), rows = layer.gates * layer.hidden;
  const ir::Dim samples = (*x)[1];
  const bool batch_first = node.integer("layout", 0) != 0;
  const ir::Shape state =
      batch_first ? ir::Shape{samples, directions, layer.hidden} : ir::Shape{directions, samples, layer.hidden};
  const size_t state_samples = batch_first ? 0 : 1;
  const FixedSizes all[] = {{1, "W", {directions, rows, (*x)[2]}},     {2, "R", {directions, rows, layer.hidden}},
                            {3, "B", {directions, ir::Dim(2) * rows}}, {4, "sequence_lens", {samples}, 0},
                            {5, "initial_h", state, state_samples},    {6, "initial_c", state, state_samples},
                            {7, "P", {directions, 3 * layer.hidden}}};
  for (const FixedSizes& fixed : all) {
    if (!node.has(fixed.operand)) continue;
    const ir::Shape* const found = node.shape(node.optional(fixed.operand));
    if (!found) return;
    if (fits(node, fixed, *found)) continue;
    return node.fail(fmt::format("{} '{}' of {} has the shape {}; X {} and the hidden size {} need {}", fixed.name,
                                 node.name(node.optional(fixed.operand)), node.op(), ir::str(*found), ir::str(*x),
                                 layer.hidden, ir::str(fixed.sizes)));
  }
}

ValueId time_first(Node& node, ValueId x) {
  if (!x.valid() || node.integer("layout", 0) == 0) return x;
  return node.emit("permute", {x}, {{"dims", ir::Shape{1, 0, 2}}});
}

/// Returns the sequence lengths; an invalid value if all are equal to the length of x.
ValueId lengths(Node& node, const ir::Dim& steps) {
  const auto known = node.contents(node.optional(4));
  const bool all = known && std::all_of(known->begin(), known->end(), [&](const ir::Dim& n) { return n == steps; });
  return all ? ValueId() : node.optional(4);
}

ValueId state(Node& node, size_t operand) {
  return node.is_zero(node.optional(operand)) ? ValueId() : time_first(node, node.optional(operand));
}

RecurrentLayer read(Node& node, CellKind kind) {
  RecurrentLayer layer;
  layer.kind = kind;
  layer.gates = kind == CellKind::kLstm ? 4 : kind == CellKind::kGru ? 3 : 1;
  layer.x = time_first(node, node.in(0));
  layer.weight = node.in(1);
  layer.recurrence = node.in(2);
  layer.bias = node.optional(3);
  read_directions(node, layer);
  read_sizes(node, layer);
  if (node.good()) check_sizes(node, layer);
  read_activations(node, layer);
  layer.lengths = lengths(node, layer.steps);
  layer.initial_hidden = state(node, 5);
  if (kind == CellKind::kLstm) {
    layer.wants_cell = node.wants(2);
    layer.initial_cell = state(node, 6);
    layer.peepholes = node.optional(7);
  }
  if (node.number("clip", 0) != 0) layer.clip = node.number("clip", 0);
  layer.couples_gates = node.integer("input_forget", 0) != 0;
  layer.resets_after = node.integer("linear_before_reset", 0) != 0;
  return layer;
}

/// Emits y [T, D, B, H] and states [D, B, H] in the layout of the node.
template <CellKind kind>
void recurrent(Node& node) {
  const RecurrentLayer layer = read(node, kind);
  if (!node.good()) return;
  const RecurrentResults made = is_of_core(layer) ? as_operator(node, layer) : step_by_step(node, layer);
  if (!node.good()) return;
  const bool batch_first = node.integer("layout", 0) != 0;
  if (node.wants(0)) {
    const ir::Shape samples_first = {2, 0, 1, 3};
    node.result_at(0, batch_first ? node.emit("permute", {made.y}, {{"dims", samples_first}}) : made.y);
  }
  for (size_t i = 0; i < made.states.size(); ++i) {
    if (node.wants(i + 1)) node.result_at(i + 1, time_first(node, made.states[i]));
  }
}

}  // namespace

std::span<const Translator> recurrent_translators() {
  static constexpr Translator kTable[] = {
      {"LSTM", 7, 27, recurrent<CellKind::kLstm>},
      {"GRU", 7, 27, recurrent<CellKind::kGru>},
      {"RNN", 7, 27, recurrent<CellKind::kRnn>},
  };
  return kTable;
}

}  // namespace rannc::frontend
