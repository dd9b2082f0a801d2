// Group normalization.
#include "ir/op/entries/group_norm.h"

#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/rules/norms.h"

namespace rannc::ir::ops {

Result<int64_t> checked_groups(const OpCall& call, size_t index) {
  RANNC_ASSIGN(const Shape x, shape_of(call, index));
  RANNC_TRY(samples_lead(call, index));
  if (x.size() < 2) return error("group_norm needs rank 2 or more, found " + str(x));
  const int64_t groups = call.attributes.integer("groups");
  if (groups < 1 || !x[1].is_constant() || x[1].constant() % groups != 0) {
    return error(x[1].str() + " channels in " + std::to_string(groups) + " groups of equal size");
  }
  return groups;
}

ValueType statistics_of_groups(const ValueType& x, int64_t groups) {
  return make_type(statistics_dtype(x.dtype), {(*x.shape)[0], groups}, x.batch);
}

std::vector<aten::Argument> group_sizes(const LowerCall& call, size_t index) {
  const Shape& x = shape_of(*call.inputs[index]);
  return {x[0], x[1], element_count(Shape(x.begin() + 2, x.end())), call.attributes.integer("groups")};
}

namespace {

Result<Types> infer_group_norm(const OpCall& call) {
  RANNC_ASSIGN(const int64_t groups, checked_groups(call, 0));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1, 2}));
  if (!is_float(dtype)) return error("operand 0 is " + std::string(str(dtype)) + "; it must be a float type");
  const Shape& x = *call.in(0).shape;
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (!call.has(i)) continue;
    RANNC_ASSIGN(const Shape channels, shape_of(call, i));
    if (taken_for_equal(call, channels, {x[1]})) continue;
    return error("operand " + std::to_string(i) + " of shape " + str(channels) + " does not fit " + x[1].str() +
                 " channels");
  }
  if (call.has(2) && !call.has(1)) return error("a bias without a scale");
  Types types = {make_type(dtype, x, call.in(0).batch)};
  while (types.size() < call.output_count) types.push_back(statistics_of_groups(call.in(0), groups));
  return types;
}

Work group_norm_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(outputs[0].shape ? element_count(*outputs[0].shape) * Dim(8) : Dim(0), call, outputs);
}

// A contiguous form of an operand, as ATen's kernels require; None if the operand is absent.
aten::Argument in_one_piece(const LowerCall& call, Calls& calls, uint32_t operand) {
  if (!call.has(operand)) return aten::Operand{operand};
  return calls("aten::contiguous", {aten::Operand{operand}});
}

Result<aten::Lowering> lower_group_norm(const LowerCall& call) {
  const double epsilon = call.attributes.number("epsilon");
  if (call.outputs.size() == 1) {
    const aten::Operand scale{1}, bias{2};
    return one_call("aten::group_norm", {aten::Operand{0}, call.attributes.integer("groups"), scale, bias, epsilon});
  }
  Calls calls;
  std::vector<aten::Argument> arguments;
  for (const uint32_t operand : {0, 1, 2}) arguments.push_back(in_one_piece(call, calls, operand));
  for (const aten::Argument& size : group_sizes(call, 0)) arguments.push_back(size);
  arguments.emplace_back(epsilon);
  const aten::Made made = calls("aten::native_group_norm", std::move(arguments), 3);
  std::vector<aten::Value> results = {made, aten::Made{made.call, 1}, aten::Made{made.call, 2}};
  results.resize(call.outputs.size());
  return std::move(calls).with(std::move(results));
}

// Keeps mean and inverse standard deviation of each group.
TapeUse group_norm_tape(const TapeCall& call) {
  const Dim groups = OpAttributes(call.op, call.attributes).integer("groups");
  const Dim bytes = Dim(2 * byte_size(call.inputs[0]->dtype)) * shape_of(*call.inputs[0])[0] * groups;
  Kept x = kept_operand(0);
  x.in_one_piece = true;
  return {.keeps = {x}, .own_bytes = bytes};
}

}  // namespace

std::vector<OpInfo> group_norm_ops() {
  using Kind = AttributeKind;
  const auto optional = [](std::string_view name) { return ResultInfo{name, Presence::kOptional}; };
  return {
      {.name = "core.group_norm",
       .summary =
           "x, [N, C, …], less its mean over its deviation within each of N · groups, scaled and shifted per channel; "
           "the auxiliary results are the means and the inverse deviations",
       .onnx = {"GroupNormalization", "InstanceNormalization"},
       .aten = {"aten::group_norm"},
       .operands = {{"x"}, {"scale", Role::kWeight, Presence::kOptional}, {"bias", Role::kWeight, Presence::kOptional}},
       .attributes = {{.name = "groups", .kind = Kind::kInteger, .required = true}, {"epsilon", Kind::kNumber, 1e-5}},
       .results = {{"result"}, optional("mean"), optional("rstd")},
       .autocast = Autocast::kFloat32,
       .infer = infer_group_norm,
       .work = group_norm_work,
       .lower = lower_group_norm,
       .gradient = gradient::group_norm,
       .gradient_takes_auxiliary = all_auxiliary,
       .shares_gradient_kernel = [](const OpAttributes&) { return true; },
       .tape = TapeInfo{.rule = group_norm_tape}},
  };
}

}  // namespace rannc::ir::ops
