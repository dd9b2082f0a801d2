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
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis", -1), shape.size()));
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

std::string normalised_sizes(const LowerCall& call) {
  const Shape& shape = shape_of(*call.input_types[0]);
  const int64_t given = call.attributes.integer("axis", -1);
  const int64_t axis = given < 0 ? given + static_cast<int64_t>(shape.size()) : given;
  return torchscript(Shape(shape.begin() + axis, shape.end()));
}

Result<std::string> lower_layer_norm(const LowerCall& call) {
  return assign(call, "layer_norm",
                {call.inputs[0], normalised_sizes(call), operand(call, 1), operand(call, 2),
                 number(call.attributes.number("epsilon", 1e-5))});
}

Result<std::string> lower_rms_norm(const LowerCall& call) {
  return assign(
      call, "rms_norm",
      {call.inputs[0], normalised_sizes(call), operand(call, 1), number(call.attributes.number("epsilon", 1e-5))});
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
  if (call.output_count != 1 && !(call.output_count == 3 && call.attributes.flag("training"))) {
    return error("batch_norm has one output, or three in training; asked for " + std::to_string(call.output_count));
  }
  while (types.size() < call.output_count) types.push_back(make_type(dtype, {shape[1]}));
  return types;
}

// Running statistics are inputs only: the runtime commits the batch's statistics once a step.
Result<std::string> lower_batch_norm(const LowerCall& call) {
  const bool training = call.attributes.flag("training");
  const std::string epsilon = number(call.attributes.number("epsilon", 1e-5));
  const std::string momentum = number(call.attributes.number("momentum", 0.1));
  const std::string mean = training ? "None" : call.inputs[3], variance = training ? "None" : call.inputs[4];
  std::string text = assign(
      call, "batch_norm",
      {call.inputs[0], call.inputs[1], call.inputs[2], mean, variance, flag(training), momentum, epsilon, "False"});
  if (call.outputs.size() < 3) return text;
  std::vector<int64_t> axes = {0};
  for (size_t i = 2; i < shape_of(*call.input_types[0]).size(); ++i) axes.push_back(static_cast<int64_t>(i));
  const std::string x = "torch.detach(" + call.inputs[0] + "), " + int_list(axes);
  text += call.outputs[1] + " = torch.mean(" + x + ")\n";
  return text + call.outputs[2] + " = torch.var(" + x + ", True)\n";
}

}  // namespace

std::vector<OpInfo> normalize_ops() {
  return {
      {"core.layer_norm", 1, 3, 1, {"axis", "epsilon"}, Effect::kPure, infer_norm, norm_work, lower_layer_norm},
      {"core.rms_norm", 1, 2, 1, {"axis", "epsilon"}, Effect::kPure, infer_norm, norm_work, lower_rms_norm},
      {"core.batch_norm",
       5,
       5,
       0,
       {"epsilon", "momentum", "training"},
       Effect::kStatistics,
       infer_batch_norm,
       norm_work,
       lower_batch_norm},
  };
}

}  // namespace rannc::ir::ops
