// Gradient rule and backward operator of an LSTM that runs by oneDNN.
#include <algorithm>
#include <array>

#include "ir/gradient/vjp.h"
#include "ir/op/backward/grad_rules.h"
#include "ir/op/entries/recurrent.h"
#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/op_memory.h"

namespace rannc::ir::ops {
namespace recurrent {
namespace {

// Operands: x, weight, recurrence, the results and their gradients, of which at least one is present.
constexpr uint32_t kResults = 3, kWorkspace = 6, kGradients = 7, kGivenBias = 10, kGivenRecurrentBias = 11,
                   kGivenHidden = 12, kGivenCell = 13, kReverseWorkspace = 14;
constexpr uint32_t kAllOperands = 15;
// Of each operand of the LSTM.
constexpr OneDnnLstm::Places kPlaces = {0, 1, 2, kGivenBias, kGivenRecurrentBias, kGivenHidden, kGivenCell};
// Results. Both biases have the same gradient.
constexpr uint32_t kOfX = 0, kOfWeight = 1, kOfRecurrence = 2, kOfBias = 3, kOfHidden = 4, kOfCell = 5, kMade = 6;
constexpr std::array<uint32_t, kOperands> kGiven = {kOfX,    kOfWeight, kOfRecurrence, kOfBias,
                                                    kOfBias, kOfHidden, kOfCell};

// --- rule

// The operator takes several gradients, so that sums of some of them are no sums of its results.
bool differentiate_lstm(GradientCall& call) {
  if (call.result_count() == 3) return gradient_by_vjp(call);
  for (size_t i = 0; i < 3; ++i) {
    if (call.gradient(i).valid() && call.type(call.gradient(i)).batch.mix != Mix::kNone) return gradient_by_vjp(call);
  }
  std::vector<ValueId> operands(kAllOperands);
  for (uint32_t i = 0; i < kOperands; ++i) operands[kPlaces[i]] = call.operand(i);
  for (uint32_t i = 0; i < 3; ++i) {
    operands[kResults + i] = call.result(i);
    operands[kGradients + i] = call.gradient(i);
  }
  operands[kWorkspace] = call.result(3);
  if (call.result_count() > 4) operands[kReverseWorkspace] = call.result(4);
  while (!operands.back().valid()) operands.pop_back();
  const std::vector<ValueId> made = call.add("lstm_grad", operands, {}, kMade);
  for (uint32_t i = 0; i < kOperands; ++i) {
    if (call.wants(i)) call.give(i, made[kGiven[i]]);
  }
  return true;
}

// --- type rule

Result<void> require_results(const OpCall& call, const Types& results) {
  bool any = false;
  for (uint32_t i = 0; i < results.size(); ++i) {
    std::vector<uint32_t> operands = {kResults + i};
    if (i < 3) operands.push_back(kGradients + i);
    if (i == 4) operands = {kReverseWorkspace};
    for (const uint32_t operand : operands) {
      if (!call.has(operand) && operand != kReverseWorkspace) continue;
      any = any || (operand >= kGradients && operand < kGradients + 3);
      RANNC_ASSIGN(const Shape found, shape_of(call, operand));
      const bool same_type = call.in(operand).dtype == results[i].dtype;
      if (same_type && taken_for_equal(call, found, *results[i].shape)) continue;
      return error("operand " + std::to_string(operand) + " is " + std::string(str(call.in(operand).dtype)) +
                   str(found) + " where " + std::string(str(results[i].dtype)) + str(*results[i].shape) + " is needed");
    }
  }
  if (!any) return error("no gradient of a result is given");
  return {};
}

Result<Types> infer_lstm_grad(const OpCall& call) {
  std::array<const ValueType*, kOperands> given{};
  for (uint32_t i = 0; i < kOperands; ++i) given[i] = call.has(kPlaces[i]) ? call.inputs[kPlaces[i]] : nullptr;
  const uint32_t workspaces = call.has(kReverseWorkspace) ? 2 : 1;
  const OpCall forward(call.op, given, call.attributes.given(), call.batch_symbol, 3 + workspaces, call.assumed);
  RANNC_ASSIGN(const Types results, lstm_types(forward));
  RANNC_TRY(require_results(call, results));
  const Shape& rows = *call.in(kWeight).shape;
  Types types(kMade);
  for (uint32_t i = 0; i < kOperands; ++i) {
    if (given[i] != nullptr) {
      RANNC_ASSIGN(const Types made, gradient_type(call, kPlaces[i]));
      types[kGiven[i]] = made[0];
    } else {
      types[kGiven[i]] = i >= kHidden ? results[1] : sum_over_samples(call, results[0].dtype, {rows[0], rows[1]});
    }
  }
  return types;
}

// Each product of the forward pass has two derivatives.
Work lstm_grad_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!call.in(kSequence).shape || !call.in(kRecurrence).shape) return {};
  return work(layer_flops(sizes_of(call.inputs)) * Dim(2), call, outputs);
}

// --- lowering

/// The gradients that the kernel returns: of x, two weights, two biases and two states.
aten::Made one_direction(const LowerCall& call, OneDnnLstm& lstm, int64_t direction) {
  std::vector<aten::Argument> arguments = lstm.operands(direction);
  arguments.emplace_back(lstm.dense(lstm.side(aten::Operand{kResults}, direction)));
  for (const uint32_t state : {kResults + 1, kResults + 2})
    arguments.emplace_back(lstm.dense(lstm.of_direction(aten::Operand{state}, direction)));
  for (uint32_t i = 0; i < 3; ++i) {
    const aten::Value gradient = aten::Operand{kGradients + i};
    if (!call.has(kGradients + i)) {
      arguments.emplace_back(aten::None{});
    } else {
      arguments.emplace_back(i == 0 ? lstm.side(gradient, direction) : lstm.of_direction(gradient, direction));
    }
  }
  const aten::Operand workspace{direction == 0 ? kWorkspace : kReverseWorkspace};
  const bool both = lstm.sizes.directions == 2;
  arguments.insert(arguments.end(), {direction == 1, kLstmMode, lstm.sizes.hidden, 1, lstm.has_biases(), /*train=*/true,
                                     both, Shape{}, /*batch_first=*/false, workspace});
  return lstm.calls("aten::mkldnn_rnn_layer_backward", std::move(arguments), 7);
}

Result<aten::Lowering> lower_lstm_grad(const LowerCall& call) {
  RANNC_TRY(require_cpu(call, "aten::mkldnn_rnn_layer_backward"));
  OneDnnLstm::Places places = kPlaces;
  for (uint32_t& place : places) place = call.has(place) ? place : UINT32_MAX;
  OneDnnLstm lstm(call, places);
  std::vector<aten::Made> made;
  for (int64_t i = 0; i < lstm.sizes.directions; ++i) made.push_back(one_direction(call, lstm, i));
  const auto all = [&](uint32_t index) {
    std::vector<aten::Value> values;
    for (const aten::Made& each : made) values.emplace_back(aten::Made{each.call, index});
    return values;
  };
  aten::Value x = made[0];
  if (made.size() == 2) x = lstm.calls("aten::add.Tensor", {x, made[1]});
  std::vector<aten::Value> results = {x};
  for (const uint32_t index : {1, 2, 3, 5, 6}) results.push_back(lstm.stacked(all(index)));
  return std::move(lstm.calls).with(std::move(results));
}

Dim lstm_grad_temporary(const MemoryCall& call) {
  const std::vector<const ValueType*> types = type_list(call.graph(), call.graph().inputs(call.task()));
  std::array<const ValueType*, kOperands> layer{};
  for (uint32_t i = 0; i < kOperands; ++i) {
    if (kPlaces[i] < types.size()) layer[i] = types[kPlaces[i]];
  }
  return one_dnn_scratch(sizes_of(layer));
}

std::vector<OpInfo> gradient_entries() {
  const auto optional = [](std::string_view name) { return OperandInfo{name, Role::kData, Presence::kOptional}; };
  const auto weight = [](std::string_view name) { return OperandInfo{name, Role::kWeight, Presence::kOptional}; };
  return {{.name = "core.lstm_grad",
           .summary = "the gradients of the operands of lstm; both biases have the same. The gradients of results come "
                      "after what they were computed from, as any of them may be absent",
           .aten = {"aten::mkldnn_rnn_layer_backward"},
           .operands = {{"x"},
                        {"weight", Role::kWeight},
                        {"recurrence", Role::kWeight},
                        {"result"},
                        {"hidden_result"},
                        {"cell_result"},
                        {"workspace"},
                        optional("gy"),
                        optional("hidden_gradient"),
                        optional("cell_gradient"),
                        weight("bias"),
                        weight("recurrent_bias"),
                        optional("hidden"),
                        optional("cell"),
                        optional("reverse_workspace")},
           .results = {{"x"}, {"weight"}, {"recurrence"}, {"bias"}, {"hidden"}, {"cell"}},
           .infer = infer_lstm_grad,
           .work = lstm_grad_work,
           .lower = lower_lstm_grad,
           .temporary = lstm_grad_temporary}};
}

}  // namespace
}  // namespace recurrent

bool gradient::lstm(GradientCall& call) { return recurrent::differentiate_lstm(call); }

std::vector<OpInfo> grad_recurrent_ops() { return recurrent::gradient_entries(); }

}  // namespace rannc::ir::ops
