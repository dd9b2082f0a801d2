// Backward operators of normalizations, losses and look-ups.
#include <algorithm>

#include "ir/op/backward/gradient_kernels.h"
#include "ir/op/op_memory.h"
#include "ir/op/rules/norms.h"
#include "ir/op/rules/picks.h"

namespace rannc::ir::ops {
namespace {

// --- shared helpers

Result<void> require_shape(const OpCall& call, size_t operand, const Shape& expected) {
  RANNC_ASSIGN(const Shape found, shape_of(call, operand));
  if (taken_for_equal(call, found, expected)) return {};
  return error("operand " + std::to_string(operand) + " has shape " + str(found) + " where " + str(expected) +
               " is needed");
}

Work each_element(const OpCall& call, int64_t operations, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) * Dim(operations) : Dim(0), call, outputs);
}
Work norm_grad_work(const OpCall& call, std::span<const ValueType> outputs) { return each_element(call, 12, outputs); }

// --- layer_norm, rms_norm: gy, x, one or two statistics of each row

Result<int64_t> checked_rows(const OpCall& call, size_t statistics) {
  RANNC_ASSIGN(const Shape x, shape_of(call, 1));
  RANNC_TRY(require_shape(call, 0, x));
  RANNC_TRY(common_dtype(call, {0, 1}));
  RANNC_ASSIGN(const int64_t axis, first_normalised(call, 1));
  for (size_t i = 2; i < 2 + statistics; ++i) {
    RANNC_TRY(require_shape(call, i, *statistics_of_rows(call.in(1), axis).shape));
  }
  return axis;
}

template <size_t statistics>
Result<Types> infer_norm_grad_input(const OpCall& call) {
  RANNC_TRY(checked_rows(call, statistics));
  const Shape& x = *call.in(1).shape;
  const size_t scale = 2 + statistics;
  if (call.has(scale)) RANNC_TRY(require_shape(call, scale, normalised_sizes(call.attributes, x)));
  return gradient_type(call, 1);
}

template <size_t statistics>
Result<Types> infer_norm_grad_scale(const OpCall& call) {
  RANNC_TRY(checked_rows(call, statistics));
  const ValueType& x = call.in(1);
  return Types{sum_over_samples(call, x.dtype, normalised_sizes(call.attributes, *x.shape))};
}

// With n = x * rstd and g = gy * scale: (g - n * mean(g * n)) * rstd.
Result<aten::Lowering> lower_rms_norm_grad_input(const LowerCall& call) {
  const Shape& x = shape_of(*call.inputs[1]);
  const size_t count = normalised_sizes(call.attributes, x).size();
  Shape axes;
  for (size_t i = x.size() - count; i < x.size(); ++i) axes.emplace_back(static_cast<int64_t>(i));
  Calls calls;
  const aten::Value rstd = aten::Operand{2}, n = calls("aten::mul.Tensor", {aten::Operand{1}, rstd});
  aten::Value g = aten::Operand{0};
  if (call.has(3)) g = calls("aten::mul.Tensor", {g, aten::Operand{3}});
  const aten::Value along = calls("aten::mean.dim", {calls("aten::mul.Tensor", {g, n}), axes, true});
  const aten::Value across = calls("aten::sub.Tensor", {g, calls("aten::mul.Tensor", {n, along})});
  aten::Value made = calls("aten::mul.Tensor", {across, rstd});
  const DType dtype = call.outputs[0]->dtype;
  if (call.inputs[2]->dtype != dtype) made = calls("aten::to.dtype", {made, dtype});
  return std::move(calls).with({made});
}

Result<aten::Lowering> lower_rms_norm_grad_scale(const LowerCall& call) {
  const Shape& x = shape_of(*call.inputs[1]);
  const size_t rows = x.size() - normalised_sizes(call.attributes, x).size();
  Calls calls;
  const aten::Value n = calls("aten::mul.Tensor", {aten::Operand{1}, aten::Operand{2}});
  aten::Value made = calls("aten::mul.Tensor", {aten::Operand{0}, n});
  Shape axes;
  for (size_t i = 0; i < rows; ++i) axes.emplace_back(static_cast<int64_t>(i));
  if (rows > 0) made = calls("aten::sum.dim_IntList", {made, axes});
  const DType dtype = call.outputs[0]->dtype;
  if (call.inputs[2]->dtype != dtype) made = calls("aten::to.dtype", {made, dtype});
  return std::move(calls).with({made});
}

// The products of x and of gy replace both, which may be of a narrower element type.
Dim rms_norm_grad_input_temporary(const MemoryCall& call) {
  const Dim wider = call.operand(2).dtype == call.result().dtype ? Dim(0) : Dim(2) * call.result_bytes();
  return call.operand_bytes(2) + wider;
}
std::vector<uint32_t> multiplied(const MemoryCall& call) {
  return call.has(3) ? std::vector<uint32_t>{1, 0} : std::vector<uint32_t>{1};
}

// The product of gy and the normalized x exists before the result does.
Dim rms_norm_grad_scale_temporary(const MemoryCall& call) {
  const bool wide = call.operand(2).dtype != call.result().dtype;
  return Dim(wide ? 3 : 1) * call.operand_bytes(0) - call.result_bytes();
}

// --- batch_norm: by mean and inverse deviation of each channel

Result<Types> infer_batch_norm_grad(const OpCall& call, bool of_scale) {
  RANNC_ASSIGN(const Shape x, shape_of(call, 1));
  RANNC_TRY(require_shape(call, 0, x));
  RANNC_TRY(common_dtype(call, {0, 1}));
  RANNC_TRY(samples_lead(call, 1));
  if (x.size() < 2) return error("batch_norm needs rank 2 or more, found " + str(x));
  for (size_t i = 2; i < call.inputs.size(); ++i) RANNC_TRY(require_shape(call, i, {x[1]}));
  if (of_scale) return Types{sum_over_samples(call, call.in(1).dtype, {x[1]})};
  return gradient_type(call, 1);
}
Result<Types> infer_batch_norm_grad_input(const OpCall& call) { return infer_batch_norm_grad(call, false); }
Result<Types> infer_batch_norm_grad_scale(const OpCall& call) { return infer_batch_norm_grad(call, true); }

// --- losses

constexpr int64_t kSum = 2;

// The classes are on the last axis of the logarithms and on `axis` of the logits.
Result<Types> infer_cross_entropy_grad(const OpCall& call) {
  RANNC_TRY(require_shape(call, 0, {}));
  RANNC_ASSIGN(Shape log, shape_of(call, 1));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), log.size()));
  RANNC_TRY(keep_samples_apart(call, 1, static_cast<int64_t>(log.size()) - 1));
  RANNC_TRY(require_shape(call, 2, Shape(log.begin(), log.end() - 1)));
  RANNC_TRY(require_integers(call, 2));
  if (call.has(3)) RANNC_TRY(require_shape(call, 3, {log.back()}));
  RANNC_ASSIGN(const Types types, gradient_type(call, 1));
  ValueType type = types[0];
  std::rotate(type.shape->begin() + axis, type.shape->end() - 1, type.shape->end());
  if (type.batch.axis >= axis) ++type.batch.axis;
  return Types{std::move(type)};
}

// Adds the smoothing term to the gradient of the logarithms: -smoothing / classes * weights * gy at labels that are not
// ignored.
aten::Value with_smooth_part(Calls& calls, const LowerCall& call, aten::Value labels, aten::Value made) {
  const double smoothing = call.attributes.number("label_smoothing");
  const aten::Value counted =
      calls("aten::ne.Scalar", {labels, aten::Scalar{Dim(call.attributes.integer("ignore_index"))}});
  const aten::Value rows = calls("aten::mul.Tensor", {calls("aten::unsqueeze", {counted, 1}), aten::Operand{0}});
  aten::Value part = calls("aten::div.Scalar", {rows, aten::Scalar{shape_of(*call.inputs[1]).back()}});
  if (call.has(3)) part = calls("aten::mul.Tensor", {part, aten::Operand{3}});
  const aten::Value kept = calls("aten::mul.Scalar", {made, aten::Scalar{1 - smoothing}});
  return calls("aten::sub.Tensor", {kept, calls("aten::mul.Scalar", {part, aten::Scalar{smoothing}})});
}

// Goes through the logarithms at the labels, then through the softmax. ATen does not read the total weight for sums.
Result<aten::Lowering> lower_cross_entropy_grad(const LowerCall& call) {
  const Shape& log = shape_of(*call.inputs[1]);
  const size_t axis = counted_axis(call.attributes, log.size());
  Calls calls;
  const aten::Value rows = calls("aten::reshape", {aten::Operand{1}, Shape{Dim(-1), log.back()}});
  const aten::Value flat = calls("aten::reshape", {aten::Operand{2}, Shape{Dim(-1)}});
  const aten::Value labels = calls("aten::to.dtype", {flat, DType::kI64});
  const aten::Value weight = calls("aten::new_zeros", {aten::Operand{0}, Shape{}});
  aten::Argument of_classes = aten::None{};
  if (call.has(3)) of_classes = aten::Operand{3};
  aten::Value made = calls("aten::nll_loss_backward", {aten::Operand{0}, rows, labels, of_classes, kSum,
                                                       call.attributes.integer("ignore_index"), weight});
  if (call.attributes.number("label_smoothing") > 0) made = with_smooth_part(calls, call, labels, made);
  made = calls("aten::_log_softmax_backward_data", {made, rows, 1, call.inputs[1]->dtype});
  made = calls("aten::reshape", {made, log});
  if (axis + 1 != log.size()) made = calls("aten::movedim.int", {made, -1, axis});
  return std::move(calls).with({made});
}

Work cross_entropy_grad_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(1).shape ? element_count(*call.in(1).shape) * Dim(13) : Dim(0), call, outputs);
}

Result<Types> infer_pairs_grad(const OpCall& call) {
  RANNC_ASSIGN(const Shape prediction, shape_of(call, 1));
  RANNC_TRY(require_shape(call, 0, {}));
  RANNC_TRY(require_shape(call, 2, prediction));
  RANNC_TRY(common_dtype(call, {0, 1, 2}));
  return gradient_type(call, 1);
}

template <int64_t operations>
Work pairs_grad_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(1).shape ? element_count(*call.in(1).shape) * Dim(operations) : Dim(0), call, outputs);
}

// --- look-ups: add gy's elements to zeros of shape `sizes`, whose batch axis has extent outer * samples * inner

Result<Types> infer_scattered(const OpCall& call, const Shape& expected) {
  RANNC_TRY(require_shape(call, 0, expected));
  RANNC_TRY(require_integers(call, 1));
  const Shape& sizes = *call.attributes.list("sizes");
  RANNC_TRY(require_sizes(call, sizes));
  RANNC_ASSIGN(BatchLayout layout, layout_from_sizes(call, sizes));
  if (!layout.has_batch()) return Types{sum_over_samples(call, call.in(0).dtype, sizes)};
  const Shape* outer = call.attributes.list("outer");
  if (outer != nullptr && outer->size() == 1) {
    const auto inner = exact_div(layout.inner, (*outer)[0]);
    if (!inner) return error((*outer)[0].str() + " does not divide " + layout.inner.str() + " places of each sample");
    layout = {layout.axis, (*outer)[0], *inner};
  }
  return Types{make_type(call.in(0).dtype, sizes, std::move(layout))};
}

Result<Types> infer_gather_grad(const OpCall& call) {
  const Shape& sizes = *call.attributes.list("sizes");
  RANNC_ASSIGN(const Shape indices, shape_of(call, 1));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), sizes.size()));
  RANNC_TRY(check_padding(call.attributes, sizes, axis));
  return infer_scattered(call, gathered(sizes, indices, static_cast<size_t>(axis)));
}

Result<aten::Lowering> lower_gather_grad(const LowerCall& call) {
  const Shape &to = shape_of(*call.outputs[0]), &indices = shape_of(*call.inputs[1]);
  const size_t axis = counted_axis(call.attributes, to.size());
  Calls calls;
  aten::Value index = from_start(calls, aten::Operand{1}, call.inputs[1]->dtype, to[axis]);
  if (axis == 0 && to.size() == 2) {
    return std::move(calls).with(
        {calls("aten::embedding_dense_backward",
               {aten::Operand{0}, index, to[0], padding_index(call.attributes).value_or(-1), false})});
  }
  aten::Value rows = aten::Operand{0};
  if (indices.size() != 1) {
    index = calls("aten::reshape", {index, Shape{Dim(-1)}});
    rows = calls("aten::reshape", {rows, gathered(to, {element_count(indices)}, axis)});
  }
  const aten::Value zeros = calls("aten::new_zeros", {rows, to});
  return std::move(calls).with({calls("aten::index_add", {zeros, axis, index, rows})});
}

Result<Types> infer_gather_rows(const OpCall& call) {
  RANNC_ASSIGN(Types types, infer_gather_grad(call));
  types[0].rows = true;
  return types;
}

// On GPUs, kernels whose result depends on data in size make the host wait, so rows keep their number: those of the
// padding are zero, and equal ones are added up by the sum, which is wider than 16 bits.
aten::Lowering lower_all_rows(const LowerCall& call, Calls calls, const aten::Value& index, const Dim& extent) {
  const DType dtype = call.inputs[0]->dtype;
  aten::Value rows = aten::Operand{0};
  if (const auto padding = padding_index(call.attributes)) {
    const aten::Value is_padding =
        calls("aten::unsqueeze", {calls("aten::eq.Scalar", {index, aten::Scalar{Dim(*padding)}}), -1});
    rows = calls("aten::masked_fill.Scalar", {rows, is_padding, aten::Scalar{Dim(0)}});
  }
  if (sum_dtype(dtype) != dtype) rows = calls("aten::to.dtype", {rows, sum_dtype(dtype)});
  return std::move(calls).with({calls("aten::embedding_sparse_backward", {rows, index, extent, -1, false})});
}

// Sums the rows before anything is added to the table's gradient, as a dense gradient does.
Result<aten::Lowering> lower_gather_rows(const LowerCall& call) {
  const Shape& to = shape_of(*call.outputs[0]);
  Calls calls;
  const aten::Value index = from_start(calls, aten::Operand{1}, call.inputs[1]->dtype, to[0]);
  if (call.device == DeviceType::kCuda) return lower_all_rows(call, std::move(calls), index, to[0]);
  const aten::Value rows = calls("aten::embedding_sparse_backward",
                                 {aten::Operand{0}, index, to[0], padding_index(call.attributes).value_or(-1), false});
  return std::move(calls).with({calls("aten::coalesce", {rows})});
}

Result<Types> infer_gather_nd_grad(const OpCall& call) {
  const Shape& sizes = *call.attributes.list("sizes");
  RANNC_ASSIGN(const Shape indices, shape_of(call, 1));
  RANNC_ASSIGN(const Shape expected, gathered_nd(call, sizes, indices, call.attributes.integer("batch_dims")));
  return infer_scattered(call, expected);
}

Result<aten::Lowering> lower_gather_nd_grad(const LowerCall& call) {
  const Shape& to = shape_of(*call.outputs[0]);
  Calls calls;
  RANNC_ASSIGN(const FlatPicks flat, flat_picks(calls, call, to));
  const auto& [groups, picked, rest, read] = flat.parts;
  const aten::Value rows = calls("aten::reshape", {aten::Operand{0}, Shape{groups * read, rest}});
  const aten::Value zeros = calls("aten::new_zeros", {rows, Shape{groups * picked, rest}});
  const aten::Value made = calls("aten::index_add", {zeros, 0, flat.index, rows});
  return std::move(calls).with({calls("aten::reshape", {made, to})});
}

Result<Types> infer_gather_elements_grad(const OpCall& call) {
  const Shape& sizes = *call.attributes.list("sizes");
  RANNC_ASSIGN(const Shape indices, shape_of(call, 1));
  RANNC_TRY(checked_axis(call.attributes.integer("axis"), sizes.size()));
  if (indices.size() != sizes.size()) return error("ranks differ: " + str(sizes) + " and " + str(indices));
  return infer_scattered(call, indices);
}

Result<aten::Lowering> lower_gather_elements_grad(const LowerCall& call) {
  const Shape& to = shape_of(*call.outputs[0]);
  const size_t axis = counted_axis(call.attributes, to.size());
  Calls calls;
  const aten::Value index = from_start(calls, aten::Operand{1}, call.inputs[1]->dtype, to[axis]);
  const aten::Value zeros = calls("aten::new_zeros", {aten::Operand{0}, to});
  return std::move(calls).with({calls("aten::scatter_add", {zeros, axis, index, aten::Operand{0}})});
}

OpInfo scattering(std::string_view name, std::string_view summary, std::string_view aten, AttributeInfo more,
                  InferRule infer, LowerRule lower, std::vector<AttributeInfo> further = {}) {
  OpInfo made = {.name = "core." + std::string(name),
                 .summary = summary,
                 .aten = {aten},
                 .operands = {{"gy"}, {"indices", Role::kIndex}},
                 .attributes = {std::move(more),
                                {.name = "sizes", .kind = AttributeKind::kSizes, .required = true},
                                {"outer", AttributeKind::kSizes}},
                 .infer = infer,
                 .linear = always<Linear::kFirst>,
                 .lower = lower,
                 .temporary = [](const MemoryCall& call) { return call.copies({0}); }};
  made.attributes.insert(made.attributes.end(), further.begin(), further.end());
  return made;
}

}  // namespace

// For the gradient of the scale, ATen reads only the shape of the scale, and for that of the bias the shape of the
// bias.
Result<aten::Lowering> layer_norm_backward(const KernelCall& call) {
  const Shape sizes = normalised_sizes(call.any().attributes, shape_of(*call.any().inputs[1]));
  Calls calls;
  std::optional<aten::Value> scale = call.operand("scale");
  if (!scale && call.wants(1)) scale = calls("aten::new_empty", {aten::Operand{1}, sizes});
  const std::optional<aten::Value> bias = call.wants(2) ? scale : std::nullopt;
  const aten::Made made = calls("aten::native_layer_norm_backward",
                                {aten::Operand{0}, aten::Operand{1}, sizes, or_none(call.operand("mean")),
                                 or_none(call.operand("rstd")), or_none(scale), or_none(bias), call.mask()},
                                3);
  return std::move(calls).with(gradients_of(made));
}

// The numbers of the scale have no influence on its gradient. Without a scale CUDA's kernels fail, or return no
// gradient; the kernel of the processor reads its type.
Result<aten::Lowering> batch_norm_backward(const KernelCall& call) {
  Calls calls;
  std::optional<aten::Value> scale = call.operand("scale");
  if (!scale && call.any().device == DeviceType::kCuda) {
    scale = calls("aten::new_empty", {aten::Operand{1}, call.shape(1)});
  }
  const aten::Made made = calls("aten::native_batch_norm_backward",
                                {aten::Operand{0}, aten::Operand{1}, or_none(scale), aten::None{}, aten::None{},
                                 or_none(call.operand("mean")), or_none(call.operand("rstd")), true, 0.0, call.mask()},
                                3);
  return std::move(calls).with(gradients_of(made));
}

std::vector<OpInfo> grad_dense_ops() {
  using Kind = AttributeKind;
  const AttributeInfo last{"axis", Kind::kInteger, Dim(-1)}, first{"axis", Kind::kInteger, Dim(0)};
  const OperandInfo scale{"scale", Role::kWeight, Presence::kOptional};
  return {
      {.name = "core.layer_norm_grad_input",
       .summary = "the gradient of layer_norm's x",
       .aten = {"aten::native_layer_norm_backward"},
       .operands = {{"gy"}, {"x"}, {"mean"}, {"rstd"}, scale},
       .attributes = {last},
       .infer = infer_norm_grad_input<2>,
       .linear = always<Linear::kFirst>,
       .work = norm_grad_work,
       .lower = one_gradient<layer_norm_backward, 0>,
       .temporary =
           [](const MemoryCall& call) {
             return call.copies({0, 1});
           }},
      {.name = "core.layer_norm_grad_scale",
       .summary = "the gradient of layer_norm's scale",
       .aten = {"aten::native_layer_norm_backward"},
       .operands = {{"gy"}, {"x"}, {"mean"}, {"rstd"}},
       .attributes = {last},
       .infer = infer_norm_grad_scale<2>,
       .linear = always<Linear::kFirst>,
       .work = norm_grad_work,
       .lower = one_gradient<layer_norm_backward, 1>,
       .temporary =
           [](const MemoryCall& call) {
             return call.copies({0, 1});
           }},
      {.name = "core.rms_norm_grad_input",
       .summary = "the gradient of rms_norm's x",
       .aten = {"aten::_fused_rms_norm_backward"},
       .operands = {{"gy"}, {"x"}, {"rstd"}, scale},
       .attributes = {last},
       .infer = infer_norm_grad_input<1>,
       .linear = always<Linear::kFirst>,
       .work = norm_grad_work,
       .lower = lower_rms_norm_grad_input,
       .copied = multiplied,
       .temporary = rms_norm_grad_input_temporary},
      {.name = "core.rms_norm_grad_scale",
       .summary = "the gradient of rms_norm's scale",
       .aten = {"aten::_fused_rms_norm_backward"},
       .operands = {{"gy"}, {"x"}, {"rstd"}},
       .attributes = {last},
       .infer = infer_norm_grad_scale<1>,
       .linear = always<Linear::kFirst>,
       .work = norm_grad_work,
       .lower = lower_rms_norm_grad_scale,
       .copied = [](const MemoryCall&) { return std::vector<uint32_t>{1}; },
       .temporary = rms_norm_grad_scale_temporary},
      {.name = "core.batch_norm_grad_input",
       .summary = "the gradient of batch_norm's x in training, by the batch's mean and inverse deviation",
       .aten = {"aten::native_batch_norm_backward"},
       .operands = {{"gy"}, {"x"}, {"scale", Role::kWeight}, {"mean"}, {"rstd"}},
       .infer = infer_batch_norm_grad_input,
       .linear = always<Linear::kFirst>,
       .work = norm_grad_work,
       .lower = one_gradient<batch_norm_backward, 0>,
       .temporary = [](const MemoryCall& call) { return call.result_bytes(); }},
      {.name = "core.batch_norm_grad_scale",
       .summary = "the gradient of batch_norm's scale, by mean and inverse deviation",
       .aten = {"aten::native_batch_norm_backward"},
       .operands = {{"gy"}, {"x"}, {"mean"}, {"rstd"}},
       .infer = infer_batch_norm_grad_scale,
       .linear = always<Linear::kFirst>,
       .work = norm_grad_work,
       .lower = one_gradient<batch_norm_backward, 1>},
      {.name = "core.cross_entropy_sum_grad_logits",
       .summary = "the gradient of cross_entropy_sum's logits, by the logarithms of the probabilities",
       .aten = {"aten::nll_loss_backward", "aten::_log_softmax_backward_data"},
       .operands =
           {{"gy"}, {"log_probabilities"}, {"labels", Role::kIndex}, {"weights", Role::kData, Presence::kOptional}},
       .attributes = {last, {"ignore_index", Kind::kInteger, Dim(-100)}, {"label_smoothing", Kind::kNumber, 0.0}},
       .infer = infer_cross_entropy_grad,
       .linear = always<Linear::kFirst>,
       .work = cross_entropy_grad_work,
       .lower = lower_cross_entropy_grad,
       .temporary = [](const MemoryCall& call) { return call.result_bytes(); }},
      {.name = "core.mse_sum_grad_prediction",
       .summary = "the gradient of mse_sum's prediction",
       .operands = {{"gy"}, {"prediction"}, {"target"}},
       .infer = infer_pairs_grad,
       .linear = always<Linear::kFirst>,
       .work = pairs_grad_work<3>,
       .form = form("aten::mse_loss_backward", 3, {{"", Dim(kSum)}})},
      {.name = "core.huber_sum_grad_prediction",
       .summary = "the gradient of huber_sum's prediction",
       .operands = {{"gy"}, {"prediction"}, {"target"}},
       .attributes = {{"delta", Kind::kNumber, 1.0}},
       .infer = infer_pairs_grad,
       .linear = always<Linear::kFirst>,
       .work = pairs_grad_work<6>,
       .form = form("aten::huber_loss_backward", 3, {{"", Dim(kSum)}, {"", aten::FromAttribute{"delta"}}})},
      scattering(
          "gather_grad_input",
          "the gradient of gather's x of shape `sizes`, whose samples lie `outer` apart; 0 in row `padding_index`",
          "aten::embedding_dense_backward", first, infer_gather_grad, lower_gather_grad,
          {{"padding_index", Kind::kInteger}}),
      scattering("gather_grad_rows", "gather_grad_input of a table of rank 2, as rows",
                 "aten::embedding_sparse_backward", first, infer_gather_rows, lower_gather_rows,
                 {{"padding_index", Kind::kInteger}}),
      scattering("gather_nd_grad_input", "the gradient of gather_nd's x of shape `sizes`", "aten::index_add",
                 {"batch_dims", Kind::kInteger, Dim(0)}, infer_gather_nd_grad, lower_gather_nd_grad),
      scattering("gather_elements_grad_input", "the gradient of gather_elements' x of shape `sizes`",
                 "aten::scatter_add", first, infer_gather_elements_grad, lower_gather_elements_grad),
  };
}

}  // namespace rannc::ir::ops
