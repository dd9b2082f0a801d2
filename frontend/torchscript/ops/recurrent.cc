/// Translates recurrent layers.
#include <fmt/format.h>

#include <algorithm>

#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::Shape;

struct Layers {
  bool has_biases, trains, bidirectional, batch_first;
  int64_t count;
  double drop;
  size_t directions() const { return bidirectional ? 2 : 1; }
};

ValueId stacked(Call& call, const std::vector<ValueId>& of_directions) {
  std::vector<ValueId> rows;
  for (const ValueId each : of_directions) rows.push_back(call.emit("unsqueeze", {each}, {{"axes", Shape{0}}}));
  return rows.size() == 1 ? rows[0] : call.emit("concat", rows, {{"axis", Dim(0)}});
}

/// Returns the states of one layer from [layers * directions, samples, hidden]. States of zeros, which programs create
/// by default, become an absent value.
ValueId of_layer(Call& call, ValueId states, int64_t layer, size_t directions) {
  if (!states.valid() || call.is_zero(states)) return {};
  const auto first = layer * static_cast<int64_t>(directions);
  return call.emit(
      "slice", {states},
      {{"axes", Shape{0}}, {"starts", Shape{first}}, {"ends", Shape{first + static_cast<int64_t>(directions)}}});
}

/// Emits all layers. The weights of a layer and direction are w_ih, w_hh and, with biases, b_ih, b_hh.
void run(Call& call, std::string_view op, const std::vector<ValueId>& states) {
  const Layers layers{call.flag("has_biases"),  call.flag("train"),         call.flag("bidirectional"),
                      call.flag("batch_first"), call.integer("num_layers"), call.number("dropout")};
  const std::vector<ValueId> weights = call.tensors("params");
  ValueId x = call.tensor("input");
  if (!call.good()) return;
  if (call.rank(x) != 3)
    return call.fail(fmt::format("{} of {} axes; expected 3, with a batch", call.schema(), call.rank(x)));
  const size_t each = layers.has_biases ? 4 : 2;
  if (weights.size() != each * layers.directions() * static_cast<size_t>(layers.count))
    return call.fail(
        fmt::format("{}: wrong number of weights, {} (projections are not supported)", call.schema(), weights.size()));
  const Shape turned = {1, 0, 2};
  if (layers.batch_first) x = call.emit("permute", {x}, {{"dims", turned}});
  const size_t kinds = op == "lstm" ? 2 : 1;
  std::vector<std::vector<ValueId>> last(kinds);
  for (int64_t layer = 0; layer < layers.count && call.good(); ++layer) {
    std::vector<ValueId> operands = {x};
    for (size_t part = 0; part < 4; ++part) {
      std::vector<ValueId> of_directions;
      for (size_t direction = 0; direction < layers.directions() && part < each; ++direction)
        of_directions.push_back(weights[(static_cast<size_t>(layer) * layers.directions() + direction) * each + part]);
      operands.push_back(of_directions.empty() ? ValueId() : stacked(call, of_directions));
    }
    for (const ValueId state : states) operands.push_back(of_layer(call, state, layer, layers.directions()));
    while (!operands.back().valid()) operands.pop_back();
    ir::Attributes attributes;
    if (op == "rnn") attributes.set("activation", std::string(call.op() == "rnn_relu" ? "relu" : "tanh"));
    const auto made = call.emit_all(op, operands, std::move(attributes), kinds + 1);
    if (!call.good()) return;
    x = made[0];
    for (size_t kind = 0; kind < kinds; ++kind) last[kind].push_back(made[kind + 1]);
    if (layers.drop > 0 && layer + 1 < layers.count) {
      if (layers.trains)
        x = call.emit("mul",
                      {x, call.add_random_input(x, {.of = ir::RandomInput::Of::kBernoulli, .drop = layers.drop})});
      else
        call.notes().training.dropouts.emplace(call.name(x), ir::LostDropout{layers.drop, false});
    }
  }
  if (layers.batch_first) x = call.emit("permute", {x}, {{"dims", turned}});
  if (!call.good()) return;
  call.give(x);
  for (const auto& of_layers : last)
    call.give(of_layers.size() == 1 ? of_layers[0] : call.emit("concat", of_layers, {{"axis", Dim(0)}}));
}

void lstm(Call& call) {
  if (!call.has("batch_first")) return call.fail("lstm of packed sequences is not supported: use padded ones");
  const std::vector<ValueId> states = call.tensors("hx");
  if (call.good() && states.size() != 2) return call.fail("lstm needs a hidden state and a cell state");
  if (call.good()) run(call, "lstm", states);
}
void gru(Call& call) {
  if (!call.has("batch_first")) return call.fail("gru of packed sequences is not supported: use padded ones");
  run(call, "gru", {call.tensor("hx")});
}
void rnn(Call& call) {
  if (!call.has("batch_first"))
    return call.fail("a recurrent layer of packed sequences is not supported: use padded ones");
  run(call, "rnn", {call.tensor("hx")});
}

}  // namespace

std::span<const Translator> recurrent_translators() {
  static constexpr Translator kTable[] = {
      {"lstm", lstm},
      {"gru", gru},
      {"rnn_tanh", rnn},
      {"rnn_relu", rnn},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
