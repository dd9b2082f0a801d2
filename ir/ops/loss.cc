// Losses, as sums over the samples of a micro-batch.
#include "ir/ops/gradients_dense.h"
#include "ir/ops/rules.h"

namespace rannc::ir::ops {
namespace {

// --- type rule: a scalar, a sum over the samples where there are any

Result<Types> infer_cross_entropy(const OpCall& call) {
  RANNC_ASSIGN(const Shape logits, shape_of(call, 0));
  RANNC_ASSIGN(const Shape labels, shape_of(call, 1));
  if (!is_float(call.in(0).dtype)) return error("logits are " + std::string(str(call.in(0).dtype)));
  if (!is_integer(call.in(1).dtype))
    return error("labels are " + std::string(str(call.in(1).dtype)) + "; they must be integers");
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), logits.size()));
  RANNC_TRY(keep_samples_apart(call, 0, axis));
  Shape expected = logits;
  expected.erase(expected.begin() + axis);
  if (expected != labels) {
    return error("labels " + str(labels) + " do not fit logits " + str(logits) + " with classes on axis " +
                 std::to_string(axis));
  }
  BatchLayout layout = call.in(0).batch;
  if (layout.has_batch() && layout.axis > axis) --layout.axis;
  if (layout.has_batch() && call.in(1).batch.has_batch() && !(layout == call.in(1).batch)) {
    return error("logits and labels have their samples on axes " + std::to_string(layout.axis) + " and " +
                 std::to_string(call.in(1).batch.axis));
  }
  Types types = {sum_over_samples(call, call.in(0).dtype, {})};
  expected.push_back(logits[axis]);
  if (call.output_count > 1) types.push_back(make_type(call.in(0).dtype, std::move(expected), std::move(layout)));
  return types;
}

Result<Types> infer_mse(const OpCall& call) {
  RANNC_ASSIGN(const Shape prediction, shape_of(call, 0));
  RANNC_ASSIGN(const Shape target, shape_of(call, 1));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1}));
  if (prediction != target) return error("prediction " + str(prediction) + " and target " + str(target) + " differ");
  const std::vector<size_t> both = {0, 1};
  RANNC_TRY(broadcast_layout(call, prediction.size(), both));
  return Types{sum_over_samples(call, dtype, {})};
}

// --- work

Work cross_entropy_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) * Dim(14) : Dim(0), call, outputs);
}
Work mse_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) * Dim(3) : Dim(0), call, outputs);
}

// --- lowering, by ATen's Reduction::Sum

constexpr int64_t kSum = 2;

// With the logarithms of the probabilities as a result, the two halves of ATen's loss.
Result<aten::Lowering> lower_cross_entropy(const LowerCall& call) {
  const Shape& logits = shape_of(*call.inputs[0]);
  const int64_t given = call.attributes.integer("axis"), ignored = call.attributes.integer("ignore_index");
  const auto axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(logits.size()) : given);
  Calls calls;
  aten::Value rows = aten::Operand{0};
  if (axis + 1 != logits.size()) rows = calls("aten::movedim.int", {rows, axis, -1});
  rows = calls("aten::reshape", {rows, Shape{Dim(-1), logits[axis]}});
  const aten::Value flat = calls("aten::reshape", {aten::Operand{1}, Shape{Dim(-1)}});
  const aten::Value labels = calls("aten::to.dtype", {flat, DType::kI64});
  if (call.outputs.size() == 1) {
    return std::move(calls).with({calls("aten::cross_entropy_loss", {rows, labels, aten::None{}, kSum, ignored, 0.0})});
  }
  const aten::Value log = calls("aten::log_softmax.int", {rows, 1});
  const aten::Value loss = calls("aten::nll_loss_nd", {log, labels, aten::None{}, kSum, ignored});
  return std::move(calls).with({loss, calls("aten::reshape", {log, shape_of(*call.outputs[1])})});
}

// The logarithms of the probabilities are kept; backward, the gradient with respect to them is made.
TapeUse cross_entropy_tape(const TapeCall& call) {
  const Dim bytes = element_count(shape_of(*call.inputs[0])) * Dim(byte_size(call.inputs[0]->dtype));
  return {.keeps = {kept_operand(1)}, .own_bytes = bytes, .workspace_bytes = bytes};
}

}  // namespace

std::vector<OpInfo> loss_ops() {
  using Kind = AttributeKind;
  return {
      {.name = "core.cross_entropy_sum",
       .says = "sum of -log softmax(logits) at the labels that are not ignored; the auxiliary result "
               "is the logarithm, with the classes on the last axis",
       .onnx = {"SoftmaxCrossEntropyLoss"},
       .aten = {"aten::cross_entropy_loss"},
       .operands = {{"logits"}, {"labels", Role::kIndex}},
       .attributes = {{"axis", Kind::kInteger, Dim(-1)}, {"ignore_index", Kind::kInteger, Dim(-100)}},
       .results = {{"result"}, {"log_probabilities", Presence::kOptional}},
       .infer = infer_cross_entropy,
       .work = cross_entropy_work,
       .lower = lower_cross_entropy,
       .gradient = gradient::cross_entropy_sum,
       .gradient_takes_auxiliary = true,
       .tape = TapeInfo{.rule = cross_entropy_tape}},
      {.name = "core.mse_sum",
       .says = "sum of the squares of prediction - target",
       .operands = {{"prediction"}, {"target"}},
       .infer = infer_mse,
       .work = mse_work,
       .form = form("aten::mse_loss", 2, {{"", Dim(kSum)}}),
       .gradient = gradient::mse_sum,
       .tape = TapeInfo{{kept_operand(0), kept_operand(1)}}},
  };
}

}  // namespace rannc::ir::ops
