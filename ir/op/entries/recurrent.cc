// Recurrent layers over whole sequences: one task per layer and call.
#include "ir/op/entries/recurrent.h"

#include <array>

#include "ir/gradient/vjp.h"
#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/op_memory.h"

namespace rannc::ir::ops {
namespace recurrent {
namespace {

// --- type rule

Result<void> ranks_fit(const OpCall& call, int64_t gates) {
  for (const size_t operand : {kSequence, kWeight, kRecurrence}) {
    RANNC_ASSIGN(const Shape shape, shape_of(call, operand));
    if (shape.size() != 3)
      return error("operand " + std::to_string(operand) + " is " + str(shape) + "; it needs rank 3");
  }
  const Shape& recurrence = *call.in(kRecurrence).shape;
  if (!(recurrence[0] == Dim(1)) && !(recurrence[0] == Dim(2)))
    return error("recurrence " + str(recurrence) + " is of " + recurrence[0].str() +
                 " directions; 1 or 2 are possible");
  if (!taken_for_equal(call, recurrence[1], Dim(gates) * recurrence[2])) {
    return error("recurrence " + str(recurrence) + " has " + recurrence[1].str() + " rows; " + std::to_string(gates) +
                 " gates of " + recurrence[2].str() + " need " + (Dim(gates) * recurrence[2]).str());
  }
  return {};
}

Result<void> weights_fit(const OpCall& call, const Sizes& sizes) {
  if (call.has(kBias) != call.has(kRecurrentBias))
    return error("one of two biases is given; both or none are possible");
  const Shape bias = {sizes.directions, sizes.rows}, weight = {sizes.directions, sizes.rows, sizes.features};
  for (const size_t operand : {kWeight, kRecurrence, kBias, kRecurrentBias}) {
    if (!call.has(operand)) continue;
    RANNC_ASSIGN(const Shape shape, shape_of(call, operand));
    const bool fits = operand == kRecurrence || taken_for_equal(call, shape, operand == kWeight ? weight : bias);
    if (!fits) {
      return error("operand " + std::to_string(operand) + " of shape " + str(shape) + " does not fit: x is " +
                   str(*call.in(kSequence).shape) + " and the recurrence " + str(*call.in(kRecurrence).shape) +
                   ", which needs " + str(operand == kWeight ? weight : bias));
    }
    if (call.in(operand).batch.has_batch())
      return error("operand " + std::to_string(operand) + " has samples: the weights of a layer are the same for all");
  }
  return {};
}

Result<void> states_fit(const OpCall& call, const Sizes& sizes) {
  const Shape state = {sizes.directions, sizes.samples, sizes.hidden};
  for (const size_t operand : {kHidden, kCell}) {
    if (!call.has(operand)) continue;
    RANNC_ASSIGN(const Shape shape, shape_of(call, operand));
    if (!taken_for_equal(call, shape, state))
      return error("state " + str(shape) + " does not fit x " + str(*call.in(kSequence).shape) + ": it needs " +
                   str(state));
  }
  for (const size_t operand : {kSequence, kHidden, kCell}) {
    for (const int64_t axis : {0, 2}) {
      if (call.has(operand)) RANNC_TRY(keep_samples_apart(call, operand, axis));
    }
  }
  return {};
}

// y [T, B, D * H], then the states after the last step of each direction.
template <int64_t gates>
Result<Types> infer_recurrent(const OpCall& call) {
  constexpr uint32_t kRequired = gates == 4 ? 3 : 2;
  RANNC_ASSIGN(const DType dtype,
               common_dtype(call, {kSequence, kWeight, kRecurrence, kBias, kRecurrentBias, kHidden, kCell}));
  if (!is_float(dtype)) return error("operand 0 is " + std::string(str(dtype)) + "; it must be a float type");
  RANNC_TRY(ranks_fit(call, gates));
  const Sizes sizes = sizes_of(call.inputs);
  RANNC_TRY(weights_fit(call, sizes));
  RANNC_TRY(states_fit(call, sizes));
  RANNC_ASSIGN(const BatchLayout layout, broadcast_layout(call, 3, std::array<size_t, 3>{kSequence, kHidden, kCell}));
  Types types = {make_type(dtype, {sizes.steps, sizes.samples, Dim(sizes.directions) * sizes.hidden}, layout)};
  types.resize(kRequired, make_type(dtype, {sizes.directions, sizes.samples, sizes.hidden}, layout));
  if (call.output_count > kRequired) RANNC_TRY(add_workspaces(call, types));
  return types;
}

Work recurrent_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!call.in(kSequence).shape || !call.in(kRecurrence).shape) return {};
  return work(layer_flops(sizes_of(call.inputs)), call, outputs);
}

// --- lowering

// Builds the one ATen call. Its weights are a list of weight, recurrence and their biases per direction.
class RecurrentLowering {
 public:
  explicit RecurrentLowering(const LowerCall& call) : call_(call), sizes_(sizes_of(call.inputs)) {}

  // `states` are ATen's arguments, a list of two for an LSTM. ATen always runs in training mode, because derivatives
  // need the values that it keeps. Without a derivative they are freed immediately. Of a sequence that is not
  // contiguous, also in the stride of an axis of one element, it multiplies the steps one by one, or at once if a
  // gradient is required: other bits.
  aten::Lowering by(const std::string& schema, aten::Argument states, uint32_t results) && {
    const bool biases = has(call_.inputs, kBias);
    const aten::Made dense = calls_("aten::contiguous", {aten::Operand{kSequence}});
    const aten::Made sequence = calls_("aten::reshape", {dense, *call_.inputs[kSequence]->shape});
    const aten::Made y = calls_(schema,
                                {sequence, std::move(states), weights(), biases, 1, 0.0, /*train=*/true,
                                 /*bidirectional=*/sizes_.directions == 2, /*batch_first=*/false},
                                results);
    std::vector<aten::Value> made;
    for (uint32_t i = 0; i < results; ++i) made.emplace_back(aten::Made{y.call, i});
    return std::move(calls_).with(std::move(made));
  }
  aten::Value state(size_t operand) {
    if (has(call_.inputs, operand)) return aten::Operand{static_cast<uint32_t>(operand)};
    if (!zeros_) zeros_ = calls_("aten::new_zeros", {aten::Operand{kSequence}, zeros_shape()});
    return *zeros_;
  }

 private:
  Shape zeros_shape() const { return {sizes_.directions, sizes_.samples, sizes_.hidden}; }
  std::vector<aten::Value> weights() {
    std::vector<aten::Value> weights;
    for (int64_t direction = 0; direction < sizes_.directions; ++direction) {
      for (const uint32_t operand : {kWeight, kRecurrence, kBias, kRecurrentBias}) {
        if (!has(call_.inputs, operand)) continue;
        const aten::Operand stacked{operand};
        weights.emplace_back(sizes_.directions == 1 ? calls_("aten::squeeze.dim", {stacked, 0})
                                                    : calls_("aten::select.int", {stacked, 0, direction}));
      }
    }
    return weights;
  }

  const LowerCall& call_;
  const Sizes sizes_;
  Calls calls_;
  std::optional<aten::Made> zeros_;
};

Result<aten::Lowering> lower_lstm(const LowerCall& call) {
  if (call.outputs.size() > 3) return lower_one_dnn_lstm(call);
  RecurrentLowering lowering(call);
  const std::vector<aten::Value> states = {lowering.state(kHidden), lowering.state(kCell)};
  return std::move(lowering).by("aten::lstm.input", states, 3);
}

Result<aten::Lowering> lower_gru(const LowerCall& call) {
  RecurrentLowering lowering(call);
  const aten::Value state = lowering.state(kHidden);
  return std::move(lowering).by("aten::gru.input", state, 2);
}

Result<aten::Lowering> lower_rnn(const LowerCall& call) {
  RecurrentLowering lowering(call);
  const aten::Value state = lowering.state(kHidden);
  return std::move(lowering).by("aten::rnn_" + call.attributes.text("activation") + ".input", state, 2);
}

// --- tape: as LibTorch's processor kernels keep it; those of a GPU keep less

// Keeps `each` values of a state's size per step. The gradient of the recurrence reads the state before each step. With
// `state_is_kept` it is one of these values. Before the first step it is an operand or zeros.
TapeUse stepwise_tape(const TapeCall& call, int64_t each, bool state_is_kept) {
  const Dim steps = sizes_of(call.inputs).steps, state = state_bytes(call);
  TapeUse use{.keeps = {whole_x(kWeight), operand_where(kWeight, kSequence)}};
  if (!(steps == Dim(1)) || call.wants(kHidden)) use.keeps.push_back(kept_operand(kRecurrence));
  use.own_bytes = steps * Dim(each) * state;
  if (!call.wants(kRecurrence)) return use;
  if (has(call.inputs, kHidden)) use.keeps.push_back(kept_operand(kHidden));
  if (!has(call.inputs, kHidden)) use.own_bytes = use.own_bytes + state;
  if (!state_is_kept) use.own_bytes = use.own_bytes + (steps - Dim(1)) * state;
  return use;
}

// Four gates, the new cell and its tanh. The cell of the last step is not read.
TapeUse stepwise_lstm_tape(const TapeCall& call) {
  TapeUse use = stepwise_tape(call, 6, false);
  use.own_bytes = use.own_bytes - state_bytes(call);
  const bool gates_want = (call.wanted & ~(uint64_t{1} << kCell)) != 0;
  if (has(call.inputs, kCell)) {
    if (gates_want) use.keeps.push_back(kept_operand(kCell));
    return use;
  }
  const bool zeros_counted = call.wants(kRecurrence) && !has(call.inputs, kHidden);
  if (!zeros_counted) use.own_bytes = use.own_bytes + state_bytes(call);
  return use;
}

TapeUse lstm_tape(const TapeCall& call) {
  return call.inputs[kSequence]->dtype == DType::kF32 ? one_dnn_lstm_tape(call) : stepwise_lstm_tape(call);
}
// Three gates, a copy of the last one's recurrent part, the new state, and its difference to the old one.
TapeUse gru_tape(const TapeCall& call) { return stepwise_tape(call, 6, false); }
TapeUse rnn_tape(const TapeCall& call) { return stepwise_tape(call, 1, true); }

// Without a workspace, the products of a layer with its weights exist for all steps at once. Of a copy of x, a tape
// counts the bytes.
template <int64_t gates>
Dim gates_of_all_steps(const MemoryCall& call) {
  const Dim copied = taped_of(call.graph(), call.task()) ? Dim(0) : call.copies({kSequence});
  return Dim(gates) * call.result_bytes() + copied;
}

Dim lstm_temporary(const MemoryCall& call) {
  if (call.operand(kSequence).dtype != DType::kF32) return gates_of_all_steps<4>(call);
  return one_dnn_forward_scratch(sizes_of(type_list(call.graph(), call.graph().inputs(call.task()))));
}

std::vector<OperandInfo> operands(size_t count) {
  const OperandInfo all[kOperands] = {{"x"},
                                      {"weight", Role::kWeight},
                                      {"recurrence", Role::kWeight},
                                      {"bias", Role::kWeight, Presence::kOptional},
                                      {"recurrent_bias", Role::kWeight, Presence::kOptional},
                                      {"hidden", Role::kData, Presence::kOptional},
                                      {"cell", Role::kData, Presence::kOptional}};
  return {all, all + count};
}

// Without oneDNN, LibTorch differentiates step by step from its own kept values. There is no gradient rule for that.
std::vector<OpInfo> entries() {
  const auto optional = [](std::string_view name) { return ResultInfo{name, Presence::kOptional}; };
  return {
      {.name = "core.lstm",
       .summary =
           "long short-term memory over x [steps, samples, features], in one direction or both, which stand side by "
           "side in the result; weights are [directions, 4 * hidden, …], gates in the order input, forget, cell, "
           "output; then the states after the last step. A state left out is zero; the auxiliary results are what the "
           "kernel of each direction keeps for its gradient",
       .onnx = {"LSTM"},
       .aten = {"aten::lstm"},
       .operands = operands(kOperands),
       .results = {{"result"}, {"hidden"}, {"cell"}, optional("workspace"), optional("reverse_workspace")},
       .autocast = Autocast::kFloat32,
       .infer = infer_recurrent<4>,
       .work = recurrent_work,
       .lower = lower_lstm,
       .gradient = gradient::lstm,
       .gradient_takes_auxiliary = one_dnn_workspaces,
       .tape = TapeInfo{.rule = lstm_tape},
       .temporary = lstm_temporary},
      {.name = "core.gru",
       .summary =
           "gated recurrent units likewise; gates in the order reset, update, new, of which the last takes the reset "
           "gate after the recurrence",
       .onnx = {"GRU"},
       .aten = {"aten::gru"},
       .operands = operands(kCell),
       .results = {{"result"}, {"hidden"}},
       .autocast = Autocast::kFloat32,
       .infer = infer_recurrent<3>,
       .work = recurrent_work,
       .lower = lower_gru,
       .gradient = gradient_by_vjp,
       .tape = TapeInfo{.rule = gru_tape},
       .temporary = gates_of_all_steps<3>},
      {.name = "core.rnn",
       .summary = "a plain recurrent layer likewise, of one gate",
       .onnx = {"RNN"},
       .aten = {"aten::rnn_tanh", "aten::rnn_relu"},
       .operands = operands(kCell),
       .attributes = {{"activation", AttributeKind::kText, "tanh", false, {"tanh", "relu"}}},
       .results = {{"result"}, {"hidden"}},
       .autocast = Autocast::kFloat32,
       .infer = infer_recurrent<1>,
       .work = recurrent_work,
       .lower = lower_rnn,
       .gradient = gradient_by_vjp,
       .tape = TapeInfo{.rule = rnn_tape},
       .temporary = gates_of_all_steps<1>},
  };
}

}  // namespace

Result<Types> lstm_types(const OpCall& call) { return infer_recurrent<4>(call); }

}  // namespace recurrent

std::vector<OpInfo> recurrent_ops() { return recurrent::entries(); }

}  // namespace rannc::ir::ops
