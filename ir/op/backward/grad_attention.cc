// Gradient rule and backward operator of attention.
#include <array>

#include "ir/gradient/vjp.h"
#include "ir/op/backward/grad_rules.h"
#include "ir/op/entries/attention.h"
#include "ir/op/gradients/gradients_dense.h"

namespace rannc::ir::ops {

namespace {

/// The other order of the last two axes.
ValueId transposed(GradientCall& call, ValueId matrices) {
  return call.add("permute", {matrices}, {{"dims", Shape{0, 1, 3, 2}}});
}

/// A value in the order of the result, by heads.
ValueId turned_by_heads(GradientCall& call, ValueId value) {
  const std::vector<int64_t> order = call.attributes().integers("order");
  Shape inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const auto rank = static_cast<int64_t>(order.size());
    inverse[static_cast<size_t>((order[i] + rank) % rank)] = static_cast<int64_t>(i);
  }
  return call.add("permute", {value}, {{"dims", inverse}});
}

// The fused kernel has no gradient of its mask. With weights w = exp(scores - log_sums), the gradient of the scores is
// w * (gy v^T - sum(gy * result)).
void attention_with_mask(GradientCall& call) {
  const ValueId q = call.operand(0), k = call.operand(1), v = call.operand(2), mask = call.operand(3);
  const ValueId gy = turned_by_heads(call, call.gradient()), y = turned_by_heads(call, call.result(0));
  const ValueId scale = call.number(call.attributes().number("scale"), q);
  const ValueId products = call.add("mul", {call.add("matmul", {q, transposed(call, k)}), scale});
  const ValueId log_sums = call.add("unsqueeze", {call.result(1)}, {{"axes", Shape{3}}});
  const ValueId weights = call.add("exp", {call.add("sub", {call.add("add", {products, mask}), log_sums})});
  const ValueId of_weights = call.add("matmul", {gy, transposed(call, v)});
  const ValueId sums = call.add("sum", {call.add("mul", {gy, y})}, {{"axes", Shape{3}}, {"keepdim", true}});
  const ValueId scores = call.add("mul", {call.add("sub", {of_weights, sums}), weights});
  if (call.wants(0)) call.give(0, call.add("mul", {call.add("matmul", {scores, k}), scale}));
  if (call.wants(1)) call.give(1, call.add("mul", {call.add("matmul", {transposed(call, scores), q}), scale}));
  if (call.wants(2)) call.give(2, call.add("matmul", {transposed(call, weights), gy}));
  call.give_unstretched(3, scores);
}

}  // namespace

bool gradient::attention(GradientCall& call) {
  if (call.result_count() == 1) return gradient_by_vjp(call);
  if (call.wants(3)) {
    attention_with_mask(call);
    return true;
  }
  std::vector<ValueId> operands = {call.gradient()};
  for (const size_t operand : {0, 1, 2}) operands.push_back(call.operand(operand));
  operands.insert(operands.end(), {call.result(0), call.result(1)});
  if (call.operand(3).valid()) operands.push_back(call.operand(3));
  const std::vector<ValueId> made = call.add("attention_grad", operands, call.attributes().given(), 3);
  for (const size_t operand : {0, 1, 2}) {
    if (call.wants(operand)) call.give(operand, made[operand]);
  }
  return true;
}

namespace attention_grad {
namespace {

constexpr uint32_t kGy = 0, kQ = 1, kK = 2, kV = 3, kResult = 4, kLogSums = 5, kMask = 6;

Result<Types> infer(const OpCall& call) {
  const std::array<const ValueType*, 4> operands = {call.inputs[kQ], call.inputs[kK], call.inputs[kV],
                                                    call.has(kMask) ? call.inputs[kMask] : nullptr};
  const OpCall forward(call.op, operands, call.attributes.given(), call.batch_symbol, 2, call.assumed);
  RANNC_ASSIGN(const Types results, attention_types(forward));
  RANNC_TRY(require_gradient_shape(call, *results[0].shape));
  RANNC_TRY(common_dtype(call, {kGy, kQ, kResult}));
  for (const size_t i : {0, 1}) {
    RANNC_ASSIGN(const Shape found, shape_of(call, kResult + i));
    if (taken_for_equal(call, found, *results[i].shape)) continue;
    return error("operand " + std::to_string(kResult + i) + " has shape " + str(found) + " where " +
                 str(*results[i].shape) + " is needed");
  }
  Types types;
  for (const uint32_t operand : {kQ, kK, kV}) {
    RANNC_ASSIGN(const Types made, gradient_type(call, operand));
    types.push_back(made[0]);
  }
  return types;
}

// The kernel repeats the scores and makes four more products, with a causal mask of half of the scores.
Work grad_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!call.in(kQ).shape || !call.in(kK).shape) return {};
  const Dim whole = attention_product(*call.in(kQ).shape, *call.in(kK).shape) * Dim(5);
  return work(call.attributes.flag("causal") ? exact_div(whole, Dim(2)).value_or(whole) : whole, call, outputs);
}

// Blocks of weights and of their gradients, and a sum for each row. The kernel copies a gradient of the result whose
// heads do not lie between positions and features.
Dim temporary(const MemoryCall& call) {
  if (call.device() == DeviceType::kCuda) return cuda_attention_grad_temporary(call);
  const bool dense = call.is_dense(kGy, FusedAttention::axes_of_read_gradient(call.attributes()));
  return (dense ? Dim(0) : call.operand_bytes(kGy)) + FusedAttention::mask_bytes(call, kMask) +
         FusedAttention::buffers(call.operand(kQ), call.operand(kK), 2, Dim(1));
}

Result<aten::Lowering> lower(const LowerCall& call) {
  if (call.device == DeviceType::kCuda) return lower_cuda_attention_grad(call);
  FusedAttention fused(call);
  std::vector<aten::Argument> arguments = {fused.turned_back(kGy)};
  for (const uint32_t operand : {kQ, kK, kV}) arguments.emplace_back(fused.by_heads(operand));
  arguments.emplace_back(fused.turned_back_dense(kResult));
  arguments.insert(arguments.end(), {aten::Operand{kLogSums}, 0.0, call.attributes.flag("causal")});
  arguments.push_back(fused.mask(kMask, call.inputs[kQ]->dtype));
  arguments.emplace_back("scale", call.attributes.number("scale"));
  const aten::Made made =
      fused.calls("aten::_scaled_dot_product_flash_attention_for_cpu_backward", std::move(arguments), 3);
  return std::move(fused.calls).with({made, aten::Made{made.call, 1}, aten::Made{made.call, 2}});
}

}  // namespace
}  // namespace attention_grad

std::vector<OpInfo> grad_attention_ops() {
  return {
      {.name = "core.attention_grad",
       .summary = "the gradients of attention's q, k and v",
       .aten = {"aten::_scaled_dot_product_flash_attention_for_cpu_backward"},
       .operands = {{"gy"}, {"q"}, {"k"}, {"v"}, {"result"}, {"log_sums"}, {"mask", Role::kData, Presence::kOptional}},
       .attributes = attention_attributes(),
       .results = {{"q"}, {"k"}, {"v"}},
       .infer = attention_grad::infer,
       .linear = always<Linear::kFirst>,
       .work = attention_grad::grad_work,
       .lower = attention_grad::lower,
       .axes_in_memory = FusedAttention::axes_of_gradients,
       .copied =
           [](const MemoryCall& call) {
             using namespace attention_grad;
             return FusedAttention::copied(call, {kQ, kK, kV});
           },
       .temporary = attention_grad::temporary}};
}

}  // namespace rannc::ir::ops
