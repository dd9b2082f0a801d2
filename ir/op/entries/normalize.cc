// Layer, RMS and batch normalization.
#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/op_memory.h"
#include "ir/op/rules/memory.h"
#include "ir/op/rules/norms.h"
#include "ir/state/statistics.h"

namespace rannc::ir::ops {

Result<int64_t> first_normalised(const OpCall& call, size_t operand) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, operand));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), shape.size()));
  for (size_t i = static_cast<size_t>(axis); i < shape.size(); ++i) {
    RANNC_TRY(keep_samples_apart(call, operand, static_cast<int64_t>(i)));
  }
  return axis;
}

Shape normalised_sizes(const OpAttributes& attributes, const Shape& shape) {
  const auto axis = static_cast<ptrdiff_t>(counted_axis(attributes, shape.size()));
  return Shape(shape.begin() + axis, shape.end());
}

DType statistics_dtype(DType dtype) { return byte_size(dtype) < byte_size(DType::kF32) ? DType::kF32 : dtype; }

ValueType statistics_of_rows(const ValueType& x, int64_t axis) {
  ValueType type = make_type(statistics_dtype(x.dtype), *x.shape, x.batch);
  for (size_t i = static_cast<size_t>(axis); i < type.shape->size(); ++i) (*type.shape)[i] = 1;
  return type;
}

namespace {

// --- layer_norm, rms_norm: over axis…last

Result<Types> infer_norm(const OpCall& call) {
  RANNC_ASSIGN(const int64_t axis, first_normalised(call, 0));
  RANNC_TRY(common_dtype(call, {0, 1, 2}));
  if (!is_float(call.in(0).dtype))
    return error("operand 0 is " + std::string(str(call.in(0).dtype)) + "; it must be a float type");
  const Shape& shape = *call.in(0).shape;
  const Shape normalised(shape.begin() + axis, shape.end());
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (!call.has(i)) continue;
    RANNC_ASSIGN(const Shape scale, shape_of(call, i));
    if (!taken_for_equal(call, scale, normalised)) {
      return error("operand " + std::to_string(i) + " of shape " + str(scale) + " does not fit the normalised axes " +
                   str(normalised));
    }
  }
  Types types = {make_type(call.in(0).dtype, shape, call.in(0).batch)};
  while (types.size() < call.output_count) types.push_back(statistics_of_rows(call.in(0), axis));
  return types;
}

Work norm_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(outputs[0].shape ? element_count(*outputs[0].shape) * Dim(8) : Dim(0), call, outputs);
}

// The leading results of the call, as many as the task has.
aten::Lowering as_many(const LowerCall& call, Calls calls, std::vector<aten::Value> results) {
  results.resize(call.outputs.size());
  return std::move(calls).with(std::move(results));
}

Result<aten::Lowering> lower_layer_norm(const LowerCall& call) {
  const Shape sizes = normalised_sizes(call.attributes, shape_of(*call.inputs[0]));
  const double epsilon = call.attributes.number("epsilon");
  if (call.outputs.size() == 1) {
    return one_call("aten::layer_norm", {aten::Operand{0}, sizes, aten::Operand{1}, aten::Operand{2}, epsilon});
  }
  Calls calls;
  calls("aten::native_layer_norm", {aten::Operand{0}, sizes, aten::Operand{1}, aten::Operand{2}, epsilon}, 3);
  return as_many(call, std::move(calls), {aten::Made{0, 0}, aten::Made{0, 1}, aten::Made{0, 2}});
}

Result<aten::Lowering> lower_rms_norm(const LowerCall& call) {
  const Shape sizes = normalised_sizes(call.attributes, shape_of(*call.inputs[0]));
  const double epsilon = call.attributes.number("epsilon");
  if (call.outputs.size() == 1) return one_call("aten::rms_norm", {aten::Operand{0}, sizes, aten::Operand{1}, epsilon});
  Calls calls;
  calls("aten::_fused_rms_norm", {aten::Operand{0}, sizes, aten::Operand{1}, epsilon}, 2);
  return std::move(calls).with({aten::Made{0, 0}, aten::Made{0, 1}});
}

// --- batch_norm: the result, then the statistics that update the running ones, then those that normalize x

Result<Types> infer_batch_norm(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1, 2, 3, 4}));
  RANNC_TRY(samples_lead(call, 0));
  if (shape.size() < 2) return error("batch_norm needs rank 2 or more, found " + str(shape));
  RANNC_TRY(channels_can_be_last(call));
  for (size_t i = 1; i < 5; ++i) {
    RANNC_ASSIGN(const Shape channels, shape_of(call, i));
    if (!taken_for_equal(call, channels, {shape[1]})) {
      return error("operand " + std::to_string(i) + " of shape " + str(channels) + " does not fit " + shape[1].str() +
                   " channels");
    }
  }
  Types types = {make_type(dtype, shape, call.in(0).batch)};
  while (types.size() < call.output_count) {
    types.push_back(make_type(types.size() < 3 ? dtype : statistics_dtype(dtype), {shape[1]}));
  }
  return types;
}

aten::Lowering lower_by_running(const LowerCall& call) {
  const double epsilon = call.attributes.number("epsilon");
  const aten::Operand mean{3}, variance{4};
  Calls calls;
  const aten::Made normalised =
      calls("aten::batch_norm", {aten::Operand{0}, aten::Operand{1}, aten::Operand{2}, mean, variance, false,
                                 call.attributes.number("momentum"), epsilon, false});
  if (call.outputs.size() < 5) return as_many(call, std::move(calls), {normalised, mean, variance, mean});
  const aten::Made raised = calls("aten::add.Scalar", {variance, aten::Scalar{epsilon}});
  const aten::Made rstd = calls("aten::rsqrt", {raised});
  return std::move(calls).with({normalised, mean, variance, mean, rstd});
}

// In training ATen updates running statistics in place; with momentum 1 they become the batch's statistics. In
// evaluation it leaves them unchanged. ATen therefore gets copies of them, which become the statistics that normalize
// x. The copies are detached, because ATen does not update tensors that have a gradient.
Result<aten::Lowering> lower_batch_norm(const LowerCall& call) {
  if (!call.attributes.flag("training")) return lower_by_running(call);
  Calls calls;
  const aten::Made mean = calls("aten::clone", {calls("aten::detach", {aten::Operand{3}})});
  const aten::Made variance = calls("aten::clone", {calls("aten::detach", {aten::Operand{4}})});
  const aten::Argument training = call.attributes.flag("own_statistics") ? aten::Argument(true) : aten::Training{};
  std::vector<aten::Argument> arguments = {aten::Operand{0},
                                           aten::Operand{1},
                                           aten::Operand{2},
                                           mean,
                                           variance,
                                           training,
                                           1.0,
                                           call.attributes.number("epsilon")};
  if (call.outputs.size() > 3) {
    calls("aten::native_batch_norm", arguments, 3);
  } else {
    arguments.emplace_back(false);
    calls("aten::batch_norm", arguments);
  }
  return as_many(call, std::move(calls), {aten::Made{4, 0}, mean, variance, aten::Made{4, 1}, aten::Made{4, 2}});
}

// --- tape

// Bytes of `each` numbers kept per row: mean, deviation.
Dim row_bytes(const TapeCall& call, int64_t each) {
  const Shape& shape = shape_of(*call.inputs[0]);
  const auto axis = static_cast<ptrdiff_t>(counted_axis({call.op, call.attributes}, shape.size()));
  return element_count(Shape(shape.begin(), shape.begin() + axis)) * Dim(each * byte_size(call.inputs[0]->dtype));
}

TapeUse layer_norm_tape(const TapeCall& call) { return {.keeps = {kept_operand(0)}, .own_bytes = row_bytes(call, 2)}; }

TapeUse rms_norm_tape(const TapeCall& call) {
  TapeUse use;
  if (call.wants(0)) use = {.keeps = {kept_operand(0), kept_operand(1)}, .own_bytes = row_bytes(call, 1)};
  const Dim scaled = element_count(shape_of(*call.outputs[0])) * Dim(byte_size(call.outputs[0]->dtype));
  if (call.wants(1)) use.own_bytes = use.own_bytes + scaled;  // before it is scaled
  return use;
}

// In training keeps mean and inverse deviation, and the updated running statistics.
TapeUse batch_norm_tape(const TapeCall& call) {
  const Dim channels = element_count(shape_of(*call.inputs[1])) * Dim(byte_size(call.inputs[1]->dtype));
  TapeUse use{.keeps = {kept_operand(0)}, .own_bytes = Dim(2) * channels};
  if (!OpAttributes(call.op, call.attributes).flag("training")) return use;
  if (call.outputs.size() < 3) {
    use.own_bytes = Dim(4) * channels;
  } else {
    use.keeps.insert(use.keeps.end(), {kept_result(1), kept_result(2)});
  }
  return use;
}

}  // namespace

std::vector<OpInfo> normalize_ops() {
  using Kind = AttributeKind;
  const AttributeInfo axis{"axis", Kind::kInteger, Dim(-1)}, epsilon{"epsilon", Kind::kNumber, 1e-5},
      training{.name = "training", .kind = Kind::kFlag, .otherwise = false, .depends_on_training = true},
      synchronised{.name = std::string_view(kSynchronised), .kind = Kind::kFlag, .otherwise = false};
  const auto optional = [](std::string_view name) { return ResultInfo{name, Presence::kOptional}; };
  const OperandInfo x{"x"}, scale{"scale", Role::kWeight, Presence::kOptional},
      bias{"bias", Role::kWeight, Presence::kOptional};
  return {
      {.name = "core.layer_norm",
       .summary = "x less its mean over its deviation along the axes from `axis` on, scaled and shifted; the auxiliary "
                  "results are the mean and the inverse deviation",
       .onnx = {"LayerNormalization"},
       .aten = {"aten::layer_norm"},
       .operands = {x, scale, bias},
       .attributes = {axis, epsilon},
       .results = {{"result"}, optional("mean"), optional("rstd")},
       .autocast = Autocast::kFloat32,
       .infer = infer_norm,
       .work = norm_work,
       .lower = lower_layer_norm,
       .gradient = gradient::layer_norm,
       .gradient_takes_auxiliary = all_auxiliary,
       .shares_gradient_kernel = [](const OpAttributes&) { return true; },
       .tape = TapeInfo{.rule = layer_norm_tape},
       .temporary = [](const MemoryCall& call) { return call.copies({0}); }},
      {.name = "core.rms_norm",
       .summary =
           "x over the root of its mean square along the axes from `axis` on, scaled; the auxiliary result is the "
           "inverse root",
       .onnx = {"RMSNormalization"},
       .aten = {"aten::rms_norm"},
       .operands = {x, scale},
       .attributes = {axis, epsilon},
       .results = {{"result"}, optional("rstd")},
       .autocast = Autocast::kFloat32,
       .infer = infer_norm,
       .work = norm_work,
       .lower = lower_rms_norm,
       .gradient = gradient::rms_norm,
       .gradient_takes_auxiliary = all_auxiliary,
       .tape = TapeInfo{.rule = rms_norm_tape},
       .temporary = [](const MemoryCall& call) { return call.result_bytes(); }},
      {.name = "core.batch_norm",
       .summary =
           "x normalised per channel, by the batch's statistics in training, else by running ones; the auxiliary "
           "results are their mean and unbiased variance, then, in training, mean and inverse deviation as x is "
           "normalised by; synchronised: the batch's statistics are those over all replicas of the stage; "
           "own_statistics: there are no running ones, so that those of the batch count in evaluation, too",
       .onnx = {"BatchNormalization"},
       .aten = {"aten::batch_norm"},
       .operands = {x,
                    {"scale", Role::kWeight},
                    {"bias", Role::kWeight},
                    {"mean", Role::kStatistics},
                    {"variance", Role::kStatistics}},
       .attributes = {epsilon,
                      {"momentum", Kind::kNumber, 0.1},
                      training,
                      synchronised,
                      {.name = "own_statistics", .kind = Kind::kFlag, .otherwise = false},
                      channels_last_attribute()},
       .results = {{"result"},
                   {"mean", Presence::kOptional, 3},
                   {"variance", Presence::kOptional, 4},
                   optional("saved_mean"),
                   optional("rstd")},
       .autocast = Autocast::kFloat32,
       .infer = infer_batch_norm,
       .work = norm_work,
       .lower = lower_batch_norm,
       .gradient = gradient::batch_norm,
       .gradient_takes_auxiliary = all_auxiliary,
       .shares_gradient_kernel = [](const OpAttributes& attributes) { return attributes.flag("training"); },
       .tape = TapeInfo{.rule = batch_norm_tape}},
  };
}

}  // namespace rannc::ir::ops
