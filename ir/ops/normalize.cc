// Normalisations.
#include "ir/ops/rules.h"

namespace rannc::ir::ops {
namespace {

// --- layer_norm, rms_norm: over axis…last

Result<int64_t> first_normalised(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  RANNC_TRY(common_dtype(call, {0, 1, 2}));
  if (!is_float(call.in(0).dtype))
    return error("operand 0 is " + std::string(str(call.in(0).dtype)) + "; it must be a float type");
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), shape.size()));
  for (size_t i = static_cast<size_t>(axis); i < shape.size(); ++i) {
    RANNC_TRY(keep_samples_apart(call, 0, static_cast<int64_t>(i)));
  }
  return axis;
}

Result<Types> infer_norm(const OpCall& call) {
  RANNC_ASSIGN(const int64_t axis, first_normalised(call));
  const Shape& shape = *call.in(0).shape;
  const Shape normalised(shape.begin() + axis, shape.end());
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    if (!call.has(i)) continue;
    RANNC_ASSIGN(const Shape scale, shape_of(call, i));
    if (scale != normalised) {
      return error("operand " + std::to_string(i) + " of shape " + str(scale) + " does not fit the normalised axes " +
                   str(normalised));
    }
  }
  return Types{make_type(call.in(0).dtype, shape, call.in(0).batch)};
}

Work norm_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(outputs[0].shape ? element_count(*outputs[0].shape) * Dim(8) : Dim(0), call, outputs);
}

Shape normalised_sizes(const LowerCall& call) {
  const Shape& shape = shape_of(*call.inputs[0]);
  const int64_t given = call.attributes.integer("axis");
  const int64_t axis = given < 0 ? given + static_cast<int64_t>(shape.size()) : given;
  return Shape(shape.begin() + axis, shape.end());
}

Result<aten::Lowering> lower_layer_norm(const LowerCall& call) {
  return one_call("aten::layer_norm", {aten::Operand{0}, normalised_sizes(call), aten::Operand{1}, aten::Operand{2},
                                       call.attributes.number("epsilon")});
}

Result<aten::Lowering> lower_rms_norm(const LowerCall& call) {
  return one_call("aten::rms_norm",
                  {aten::Operand{0}, normalised_sizes(call), aten::Operand{1}, call.attributes.number("epsilon")});
}

// --- batch_norm: one output, or three where the task also wants the batch's mean and unbiased variance

Result<Types> infer_batch_norm(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1, 2, 3, 4}));
  RANNC_TRY(samples_lead(call, 0));
  if (shape.size() < 2) return error("batch_norm needs rank 2 or more, found " + str(shape));
  for (size_t i = 1; i < 5; ++i) {
    RANNC_ASSIGN(const Shape channels, shape_of(call, i));
    if (channels != Shape{shape[1]}) {
      return error("operand " + std::to_string(i) + " of shape " + str(channels) + " does not fit " + shape[1].str() +
                   " channels");
    }
  }
  Types types = {make_type(dtype, shape, call.in(0).batch)};
  if (call.output_count != 1 && !call.attributes.flag("training")) {
    return error("batch_norm gives the batch's statistics in training alone");
  }
  while (types.size() < call.output_count) types.push_back(make_type(dtype, {shape[1]}));
  return types;
}

// Running statistics are inputs only: the runtime commits the batch's statistics once a step.
Result<aten::Lowering> lower_batch_norm(const LowerCall& call) {
  const bool training = call.attributes.flag("training");
  const auto statistics = [&](uint32_t operand) -> aten::Argument::Kind {
    if (training) return aten::None{};
    return aten::Value(aten::Operand{operand});
  };
  Calls calls;
  const aten::Made normalised = calls(
      "aten::batch_norm", {aten::Operand{0}, aten::Operand{1}, aten::Operand{2}, statistics(3), statistics(4), training,
                           call.attributes.number("momentum"), call.attributes.number("epsilon"), false});
  if (call.outputs.size() < 3) return std::move(calls).with({normalised});
  Shape axes = {Dim(0)};
  for (size_t i = 2; i < shape_of(*call.inputs[0]).size(); ++i) axes.emplace_back(static_cast<int64_t>(i));
  const aten::Made x = calls("aten::detach", {aten::Operand{0}});
  const aten::Made mean = calls("aten::mean.dim", {x, axes});
  const aten::Made variance = calls("aten::var.dim", {x, axes, true});
  return std::move(calls).with({normalised, mean, variance});
}

// --- tape

// Numbers kept of each row: mean, deviation.
Dim row_bytes(const TapeCall& call, int64_t each) {
  const Shape& shape = shape_of(*call.inputs[0]);
  const int64_t given = OpAttributes(call.op, call.attributes).integer("axis");
  const int64_t axis = given < 0 ? given + static_cast<int64_t>(shape.size()) : given;
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

TapeUse batch_norm_tape(const TapeCall& call) {
  const Dim channels = element_count(shape_of(*call.inputs[1])) * Dim(byte_size(call.inputs[1]->dtype));
  return {.keeps = {kept_operand(0)}, .own_bytes = Dim(2) * channels};
}

}  // namespace

std::vector<OpInfo> normalize_ops() {
  using Kind = AttributeKind;
  const AttributeInfo axis{"axis", Kind::kInteger, Dim(-1)}, epsilon{"epsilon", Kind::kNumber, 1e-5};
  const OperandInfo x{"x"}, scale{"scale", Role::kWeight, Presence::kOptional},
      bias{"bias", Role::kWeight, Presence::kOptional};
  return {
      {.name = "core.layer_norm",
       .says = "x less its mean over its deviation along the axes from `axis` on, scaled and shifted",
       .onnx = {"LayerNormalization"},
       .aten = {"aten::layer_norm"},
       .operands = {x, scale, bias},
       .attributes = {axis, epsilon},
       .infer = infer_norm,
       .work = norm_work,
       .lower = lower_layer_norm,
       .tape = TapeInfo{.rule = layer_norm_tape}},
      {.name = "core.rms_norm",
       .says = "x over the root of its mean square along the axes from `axis` on, scaled",
       .onnx = {"RMSNormalization"},
       .aten = {"aten::rms_norm"},
       .operands = {x, scale},
       .attributes = {axis, epsilon},
       .infer = infer_norm,
       .work = norm_work,
       .lower = lower_rms_norm,
       .tape = TapeInfo{.copies = 4, .rule = rms_norm_tape}},
      {.name = "core.batch_norm",
       .says = "x normalised per channel, by the batch's statistics in training, else by running ones; the auxiliary "
               "results are the batch's mean and unbiased variance",
       .onnx = {"BatchNormalization"},
       .aten = {"aten::batch_norm"},
       .operands = {x,
                    {"scale", Role::kWeight},
                    {"bias", Role::kWeight},
                    {"mean", Role::kStatistics},
                    {"variance", Role::kStatistics}},
       .attributes = {epsilon, {"momentum", Kind::kNumber, 0.1}, {"training", Kind::kFlag, false}},
       .results = {{"result"}, {"mean", Presence::kOptional}, {"variance", Presence::kOptional}},
       .effect = Effect::kStatistics,
       .infer = infer_batch_norm,
       .work = norm_work,
       .lower = lower_batch_norm,
       .tape = TapeInfo{.rule = batch_norm_tape}},
  };
}

}  // namespace rannc::ir::ops
