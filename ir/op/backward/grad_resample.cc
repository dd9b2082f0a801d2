// Backward operators of resampling. `sizes` are those of the operand's spatial axes.
#include <algorithm>

#include "ir/op/backward/grad_rules.h"
#include "ir/op/entries/resample.h"

namespace rannc::ir::ops {
namespace {

// Shape [samples, channels, sizes…] of the operand.
Result<Shape> operand_shape(const OpCall& call) {
  RANNC_ASSIGN(Shape to, shape_of(call, 0));
  RANNC_TRY(samples_lead(call, 0));
  const Shape* sizes = call.attributes.list("sizes");
  if (sizes == nullptr || to.size() != sizes->size() + 2) {
    return error("a gradient of shape " + str(to) + " does not fit the sizes of the operand");
  }
  RANNC_TRY(require_sizes(call, *sizes));
  std::copy(sizes->begin(), sizes->end(), to.begin() + 2);
  return to;
}

// --- upsample

Result<Types> infer_upsample_grad(const OpCall& call) {
  RANNC_ASSIGN(Shape to, operand_shape(call));
  RANNC_TRY(upsampling_kernel(call.attributes, to.size() - 2));
  return Types{make_type(call.in(0).dtype, std::move(to), call.in(0).batch)};
}

Work upsample_grad_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!call.in(0).shape) return {};
  const int64_t taps = upsampling_taps(call.attributes, call.in(0).shape->size() - 2);
  return work(element_count(*call.in(0).shape) * Dim(2 * taps), call, outputs);
}

Result<aten::Lowering> lower_upsample_grad(const LowerCall& call) {
  const Shape &gy = shape_of(*call.inputs[0]), &to = shape_of(*call.outputs[0]);
  const size_t rank = gy.size() - 2;
  RANNC_ASSIGN(std::string kernel, upsampling_kernel(call.attributes, rank, "_backward"));
  std::vector<aten::Argument> arguments = {aten::Operand{0}, Shape(gy.begin() + 2, gy.end()), to};
  add_scales(arguments, call.attributes, rank);
  return one_call(std::move(kernel), std::move(arguments));
}

// --- grid_sample

Result<Types> infer_grid_grad_input(const OpCall& call) {
  RANNC_ASSIGN(Shape to, operand_shape(call));
  RANNC_ASSIGN(const Shape grid, shape_of(call, 1));
  RANNC_ASSIGN(const Shape result, grid_sampled(call, to, grid));
  RANNC_TRY(require_gradient_shape(call, result));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1}));
  return Types{make_type(dtype, std::move(to), call.in(0).batch)};
}

Result<Types> infer_grid_grad_grid(const OpCall& call) {
  RANNC_ASSIGN(const Shape x, shape_of(call, 1));
  RANNC_ASSIGN(Shape grid, shape_of(call, 2));
  RANNC_ASSIGN(const Shape result, grid_sampled(call, x, grid));
  RANNC_TRY(require_gradient_shape(call, result));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1, 2}));
  return Types{make_type(dtype, std::move(grid), call.in(0).batch)};
}

Work grid_grad_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!call.in(0).shape) return {};
  const int64_t taps = upsampling_taps(call.attributes, call.in(0).shape->size() - 2);
  return work(element_count(*call.in(0).shape) * Dim(4 * taps), call, outputs);
}

// One kernel computes both gradients. It can skip the first.
aten::Made grid_backward(Calls& calls, const LowerCall& call, aten::Value x, aten::Value grid, std::vector<bool> mask) {
  std::vector<aten::Argument> arguments = {aten::Operand{0}, x, grid};
  add_sampling(arguments, call.attributes);
  arguments.emplace_back(std::move(mask));
  return calls(grid_sampler(shape_of(*call.inputs[0]).size() - 2, "_backward"), std::move(arguments), 2);
}

Result<aten::Lowering> lower_grid_grad_input(const LowerCall& call) {
  Calls calls;
  const aten::Value x = shaped(calls, shape_of(*call.outputs[0]));
  return std::move(calls).with({grid_backward(calls, call, x, aten::Operand{1}, {true, false})});
}

Result<aten::Lowering> lower_grid_grad_grid(const LowerCall& call) {
  Calls calls;
  const aten::Made made = grid_backward(calls, call, aten::Operand{1}, aten::Operand{2}, {false, true});
  return std::move(calls).with({aten::Made{made.call, 1}});
}

}  // namespace

std::vector<OpInfo> grad_resample_ops() {
  std::vector<AttributeInfo> sampled = sampling_attributes();
  sampled.push_back({.name = "sizes", .kind = AttributeKind::kSizes, .required = true});
  return {
      {.name = "core.upsample_grad_input",
       .summary = "the gradient of upsample's x, whose spatial axes have `sizes`",
       .aten = {"aten::upsample_nearest2d_backward", "aten::upsample_bilinear2d_backward",
                "aten::upsample_bicubic2d_backward"},
       .operands = {{"gy"}},
       .attributes = upsampling_attributes(),
       .infer = infer_upsample_grad,
       .linear = always<Linear::kFirst>,
       .work = upsample_grad_work,
       .lower = lower_upsample_grad},
      {.name = "core.grid_sample_grad_input",
       .summary = "the gradient of grid_sample's x, whose spatial axes have `sizes`",
       .aten = {"aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward"},
       .operands = {{"gy"}, {"grid"}},
       .attributes = std::move(sampled),
       .infer = infer_grid_grad_input,
       .linear = always<Linear::kFirst>,
       .work = grid_grad_work,
       .lower = lower_grid_grad_input},
      {.name = "core.grid_sample_grad_grid",
       .summary = "the gradient of grid_sample's grid",
       .aten = {"aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward"},
       .operands = {{"gy"}, {"x"}, {"grid"}},
       .attributes = sampling_attributes(),
       .infer = infer_grid_grad_grid,
       .linear = always<Linear::kFirst>,
       .work = grid_grad_work,
       .lower = lower_grid_grad_grid},
  };
}

}  // namespace rannc::ir::ops
