// Losses, as sums over the samples of a micro-batch.
#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/op_memory.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {
namespace {

// --- type rule: a scalar, which is a sum over the samples if there are any

// Weights belong to the loss and are the same for all samples.
Result<void> require_no_samples(const OpCall& call, size_t operand) {
  if (!call.in(operand).batch.has_batch()) return {};
  return error(std::string(call.op.operand(operand).name) + " " + str(*call.in(operand).shape) + " has samples");
}

Result<void> check_class_weights(const OpCall& call, size_t operand, const Dim& classes) {
  const double smoothing = call.attributes.number("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1)) return error("label_smoothing is " + number(smoothing) + ", not 0 to 1");
  if (!call.has(operand)) return {};
  RANNC_ASSIGN(const Shape weights, shape_of(call, operand));
  RANNC_TRY(common_dtype(call, {0, operand}));
  if (!taken_for_equal(call, weights, {classes}))
    return error("weights " + str(weights) + " do not fit " + classes.str() + " classes");
  return require_no_samples(call, operand);
}

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
  if (!taken_for_equal(call, expected, labels)) {
    return error("labels " + str(labels) + " do not fit logits " + str(logits) + " with classes on axis " +
                 std::to_string(axis));
  }
  RANNC_TRY(check_class_weights(call, 2, logits[axis]));
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

// Type rule for a prediction and a target of equal shape.
Result<Types> infer_pairs(const OpCall& call) {
  RANNC_ASSIGN(const Shape prediction, shape_of(call, 0));
  RANNC_ASSIGN(const Shape target, shape_of(call, 1));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1}));
  if (!is_float(dtype)) return error("a prediction is " + std::string(str(dtype)) + ", not a float");
  if (!taken_for_equal(call, prediction, target)) {
    return error("prediction " + str(prediction) + " and target " + str(target) + " differ");
  }
  const std::vector<size_t> both = {0, 1};
  RANNC_TRY(broadcast_layout(call, prediction.size(), both));
  return Types{sum_over_samples(call, dtype, {})};
}

Result<Types> infer_bce(const OpCall& call) {
  RANNC_ASSIGN(Types types, infer_pairs(call));
  if (!call.has(2)) return types;
  RANNC_ASSIGN(const Shape weights, shape_of(call, 2));
  RANNC_TRY(common_dtype(call, {0, 2}));
  RANNC_TRY(require_no_samples(call, 2));
  const Shape& logits = *call.in(0).shape;
  RANNC_ASSIGN(const Shape stretched, broadcast(call, logits, weights));
  if (!taken_for_equal(call, stretched, logits))
    return error("weights " + str(weights) + " do not stretch to logits " + str(logits));
  return types;
}

Result<Types> infer_huber(const OpCall& call) {
  const double delta = call.attributes.number("delta");
  if (!(delta > 0)) return error("delta is " + number(delta) + "; it must be positive");
  return infer_pairs(call);
}

// --- work

Work cross_entropy_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) * Dim(14) : Dim(0), call, outputs);
}
template <int64_t operations>
Work pairs_work(const OpCall& call, std::span<const ValueType> outputs) {
  return work(call.in(0).shape ? element_count(*call.in(0).shape) * Dim(operations) : Dim(0), call, outputs);
}

// --- lowering, by ATen's Reduction::Sum

constexpr int64_t kSum = 2;

// (1 - smoothing) * loss + smoothing / classes * -sum(weights * logarithms of labels that are not ignored).
aten::Value with_smooth_part(Calls& calls, const LowerCall& call, aten::Value log, aten::Value labels,
                             aten::Value loss) {
  const double smoothing = call.attributes.number("label_smoothing");
  const Shape& logits = shape_of(*call.inputs[0]);
  const Dim& classes = logits[counted_axis(call.attributes, logits.size())];
  if (call.has(2)) log = calls("aten::mul.Tensor", {log, aten::Operand{2}});
  const aten::Value rows = calls("aten::sum.dim_IntList", {log, Shape{Dim(1)}});
  const aten::Value ignored =
      calls("aten::eq.Scalar", {labels, aten::Scalar{Dim(call.attributes.integer("ignore_index"))}});
  const aten::Value counted = calls("aten::masked_fill.Scalar", {rows, ignored, aten::Scalar{0.0}});
  const aten::Value smooth = calls("aten::sum", {counted});
  const aten::Value part = calls("aten::div.Scalar", {smooth, aten::Scalar{classes}});
  const aten::Value kept = calls("aten::mul.Scalar", {loss, aten::Scalar{1 - smoothing}});
  return calls("aten::sub.Tensor", {kept, calls("aten::mul.Scalar", {part, aten::Scalar{smoothing}})});
}

// Lowers to the two halves of ATen's loss, because the log-probabilities are a result.
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
  const double smoothing = call.attributes.number("label_smoothing");
  aten::Argument weights = aten::None{};
  if (call.has(2)) weights = aten::Operand{2};
  if (call.outputs.size() == 1) {
    return std::move(calls).with(
        {calls("aten::cross_entropy_loss", {rows, labels, weights, kSum, ignored, smoothing})});
  }
  const aten::Value log = calls("aten::log_softmax.int", {rows, 1});
  aten::Value loss = calls("aten::nll_loss_nd", {log, labels, weights, kSum, ignored});
  if (smoothing > 0) loss = with_smooth_part(calls, call, log, labels, loss);
  return std::move(calls).with({loss, calls("aten::reshape", {log, shape_of(*call.outputs[1])})});
}

Result<aten::Lowering> lower_bce(const LowerCall& call) {
  aten::Argument weights = aten::None{};
  if (call.has(2)) weights = aten::Operand{2};
  return one_call("aten::binary_cross_entropy_with_logits",
                  {aten::Operand{0}, aten::Operand{1}, aten::None{}, weights, kSum});
}

// Keeps the log-probabilities. The backward pass computes the gradient with respect to them. Smoothing also keeps the
// mask of ignored labels, and weights keep all logarithms.
TapeUse cross_entropy_tape(const TapeCall& call) {
  const Shape& logits = shape_of(*call.inputs[0]);
  const Dim bytes = element_count(logits) * Dim(byte_size(call.inputs[0]->dtype));
  TapeUse use{.keeps = {kept_operand(1)}, .own_bytes = bytes, .workspace_bytes = bytes};
  const bool weighted = call.inputs.size() > 2 && call.inputs[2] != nullptr;
  if (weighted) use.keeps.push_back(kept_operand(2));
  if (OpAttributes(call.op, call.attributes).number("label_smoothing") == 0) return use;
  use.own_bytes = use.own_bytes + element_count(shape_of(*call.inputs[1]));
  use.workspace_bytes = use.workspace_bytes + bytes;
  return use;
}

TapeUse bce_tape(const TapeCall& call) {
  TapeUse use{.keeps = {kept_operand(0), kept_operand(1)}};
  if (call.inputs.size() > 2 && call.inputs[2] != nullptr) use.keeps.push_back(kept_operand(2));
  return use;
}

// Logits whose classes are not on the last axis are copied. Without the auxiliary result, the logarithms are temporary.
Dim cross_entropy_temporary(const MemoryCall& call) {
  const int64_t axis = OpAttributes(call.graph().op(call.task()), call.attributes()).integer("axis");
  const auto rank = static_cast<int64_t>(call.operand(0).shape->size());
  const bool moved = axis != -1 && axis != rank - 1;
  return call.operand_bytes(0) * Dim((moved ? 1 : 0) + (call.results() < 2 ? 1 : 0));
}

// The terms before they are summed.
Dim each_term(const MemoryCall& call) { return call.operand_bytes(0); }

}  // namespace

std::vector<OpInfo> loss_ops() {
  using Kind = AttributeKind;
  return {
      {.name = "core.cross_entropy_sum",
       .summary =
           "sum of -log softmax(logits) at the labels that are not ignored, times the label's weight, and of such "
           "parts of all classes where labels are smoothed; the auxiliary result is the logarithm, with the "
           "classes on the last axis",
       .onnx = {"SoftmaxCrossEntropyLoss"},
       .aten = {"aten::cross_entropy_loss"},
       .operands = {{"logits"}, {"labels", Role::kIndex}, {"weights", Role::kData, Presence::kOptional}},
       .attributes = {{"axis", Kind::kInteger, Dim(-1)},
                      {"ignore_index", Kind::kInteger, Dim(-100)},
                      {"label_smoothing", Kind::kNumber, 0.0}},
       .results = {{"result"}, {"log_probabilities", Presence::kOptional}},
       .autocast = Autocast::kFloat32,
       .infer = infer_cross_entropy,
       .work = cross_entropy_work,
       .lower = lower_cross_entropy,
       .gradient = gradient::cross_entropy_sum,
       .gradient_takes_auxiliary = all_auxiliary,
       .tape = TapeInfo{.rule = cross_entropy_tape},
       .temporary = cross_entropy_temporary},
      {.name = "core.mse_sum",
       .summary = "sum of the squares of prediction - target",
       .operands = {{"prediction"}, {"target"}},
       .autocast = Autocast::kFloat32,
       .infer = infer_pairs,
       .work = pairs_work<3>,
       .form = form("aten::mse_loss", 2, {{"", Dim(kSum)}}),
       .gradient = gradient::mse_sum,
       .temporary = each_term},
      {.name = "core.huber_sum",
       .summary = "sum of half the squares of prediction - target where its size is below delta, else of "
                  "delta * (size - delta / 2)",
       .operands = {{"prediction"}, {"target"}},
       .attributes = {{"delta", Kind::kNumber, 1.0}},
       .autocast = Autocast::kFloat32,
       .infer = infer_huber,
       .work = pairs_work<6>,
       .form = form("aten::huber_loss", 2, {{"", Dim(kSum)}, {"", aten::FromAttribute{"delta"}}}),
       .gradient = gradient::huber_sum,
       .temporary = each_term},
      {.name = "core.bce_with_logits_sum",
       .summary = "sum of the cross entropies of a target from 0 to 1 and sigmoid(logits), the target's part times its "
                  "weight",
       .aten = {"aten::binary_cross_entropy_with_logits"},
       .operands = {{"logits"}, {"target"}, {"positive_weights", Role::kData, Presence::kOptional}},
       .autocast = Autocast::kFloat32,
       .infer = infer_bce,
       .work = pairs_work<12>,
       .lower = lower_bce,
       .gradient = gradient::bce_with_logits_sum,
       .tape = TapeInfo{.rule = bce_tape},
       .temporary = [](const MemoryCall& call) { return Dim(2) * call.operand_bytes(0); }},
  };
}

}  // namespace rannc::ir::ops
