// Gradient rule and backward operators of group normalization.
#include "ir/op/backward/grad_rules.h"
#include "ir/op/backward/gradient_kernels.h"
#include "ir/op/entries/group_norm.h"
#include "ir/op/gradients/gradients_dense.h"

namespace rannc::ir::ops {

bool gradient::group_norm(GradientCall& call) {
  const ValueId gy = call.gradient(), x = call.operand(0), mean = call.result(1), rstd = call.result(2);
  const Attributes groups = {{"groups", Dim(call.attributes().integer("groups"))}};
  if (call.wants(0)) call.give(0, call.add("group_norm_grad_input", {gy, x, mean, rstd, call.operand(1)}, groups));
  if (call.wants(1)) call.give(1, call.add("group_norm_grad_scale", {gy, x, mean, rstd}, groups));
  if (call.wants(2)) give_channel_sums(call, 2);
  return true;
}

namespace {

// Operands: gy, x, mean, rstd and optionally a scale.
Result<void> check_operands(const OpCall& call) {
  RANNC_ASSIGN(const int64_t groups, checked_groups(call, 1));
  RANNC_TRY(common_dtype(call, {0, 1}));
  const Shape& x = *call.in(1).shape;
  RANNC_TRY(require_gradient_shape(call, x));
  for (size_t i = 2; i < call.inputs.size(); ++i) {
    if (!call.has(i)) continue;
    RANNC_ASSIGN(const Shape found, shape_of(call, i));
    const Shape expected = i < 4 ? Shape{x[0], groups} : Shape{x[1]};
    if (taken_for_equal(call, found, expected)) continue;
    return error("operand " + std::to_string(i) + " has shape " + str(found) + " where " + str(expected) +
                 " is needed");
  }
  return {};
}

Result<Types> infer_grad_input(const OpCall& call) {
  RANNC_TRY(check_operands(call));
  return gradient_type(call, 1);
}

Result<Types> infer_grad_scale(const OpCall& call) {
  RANNC_TRY(check_operands(call));
  return Types{sum_over_samples(call, call.in(1).dtype, {(*call.in(1).shape)[1]})};
}

Work grad_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(1).shape ? element_count(*call.in(1).shape) * Dim(12) : Dim(0), call, outputs);
}

}  // namespace

// ATen requires contiguous operands. For the gradient of the scale it reads only the shape of the scale.
Result<aten::Lowering> group_norm_backward(const KernelCall& call) {
  Calls calls;
  std::optional<aten::Value> scale = call.operand("scale");
  if (scale) {
    scale = calls("aten::contiguous", {*scale});
  } else if (call.wants(1)) {
    scale = calls("aten::new_empty", {aten::Operand{1}, call.shape(1)});
  }
  std::vector<aten::Argument> arguments;
  for (const std::string_view name : {"gy", "x", "mean", "rstd"}) {
    arguments.emplace_back(calls("aten::contiguous", {*call.operand(name)}));
  }
  arguments.push_back(or_none(scale));
  for (const aten::Argument& size : group_sizes(call.any(), 1)) arguments.push_back(size);
  arguments.emplace_back(call.mask());
  const aten::Made made = calls("aten::native_group_norm_backward", std::move(arguments), 3);
  return std::move(calls).with(gradients_of(made));
}

std::vector<OpInfo> grad_group_norm_ops() {
  const AttributeInfo groups{.name = "groups", .kind = AttributeKind::kInteger, .required = true};
  return {
      {.name = "core.group_norm_grad_input",
       .summary = "the gradient of group_norm's x",
       .aten = {"aten::native_group_norm_backward"},
       .operands = {{"gy"}, {"x"}, {"mean"}, {"rstd"}, {"scale", Role::kWeight, Presence::kOptional}},
       .attributes = {groups},
       .infer = infer_grad_input,
       .linear = always<Linear::kFirst>,
       .work = grad_work,
       .lower = one_gradient<group_norm_backward, 0>},
      {.name = "core.group_norm_grad_scale",
       .summary = "the gradient of group_norm's scale",
       .aten = {"aten::native_group_norm_backward"},
       .operands = {{"gy"}, {"x"}, {"mean"}, {"rstd"}},
       .attributes = {groups},
       .infer = infer_grad_scale,
       .linear = always<Linear::kFirst>,
       .work = grad_work,
       .lower = one_gradient<group_norm_backward, 1>},
  };
}

}  // namespace rannc::ir::ops
