// Attention: softmax(q k^T * scale + mask) v, head by head.
#include "ir/gradient/vjp.h"
#include "ir/ops/norms.h"
#include "ir/ops/rules.h"

namespace rannc::ir::ops {
namespace {

// Operands are [samples, heads, positions, features]; the mask may omit the first two axes. `order` is the axis order
// of the result. If it equals the memory order of q, the result is contiguous, as the CPU kernel creates it.
constexpr size_t kQ = 0, kK = 1, kV = 2, kMask = 3;
constexpr size_t kRank = 4, kHeads = 1, kPlaces = 2, kFeatures = 3;

// Samples may be on the axis of samples or of heads. Positions and features are contracted.
Result<BatchLayout> attention_layout(const OpCall& call) {
  BatchLayout layout;
  for (const size_t operand : {kQ, kK, kV, kMask}) {
    if (!call.has(operand)) continue;
    const size_t rank = call.in(operand).shape->size();
    for (const size_t axis : {rank - 2, rank - 1})
      RANNC_TRY(keep_samples_apart(call, operand, static_cast<int64_t>(axis)));
    const BatchLayout& own = call.in(operand).batch;
    if (!own.has_batch()) continue;
    if (layout.has_batch() && !(layout == own)) {
      return error("operand " + std::to_string(operand) + " of attention has its samples elsewhere than the others");
    }
    layout = own;
  }
  return layout;
}

Result<void> fits(const OpCall& call, size_t operand, const Shape& expected) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, operand));
  if (shape == expected) return {};
  return error("operand " + std::to_string(operand) + " of attention has the shape " + str(shape) + "; q wants " +
               str(expected));
}

Result<void> mask_fits(const OpCall& call, const Shape& scores) {
  RANNC_ASSIGN(const Shape mask, shape_of(call, kMask));
  const DType dtype = call.in(kMask).dtype;
  if (dtype != call.in(kQ).dtype && dtype != DType::kBool)
    return error("the mask is " + std::string(str(dtype)) + "; it must be bool or of the type of q");
  bool stretches = mask.size() == kRank || mask.size() == 2;
  for (size_t i = 0; stretches && i < mask.size(); ++i) {
    const Dim& wanted = scores[kRank - mask.size() + i];
    stretches = mask[i] == Dim(1) || mask[i] == wanted;
  }
  if (stretches) return {};
  return error("a mask " + str(mask) + " does not stretch to the scores " + str(scores));
}

Result<Types> infer_attention(const OpCall& call) {
  RANNC_ASSIGN(const Shape q, shape_of(call, kQ));
  RANNC_ASSIGN(const Shape k, shape_of(call, kK));
  RANNC_ASSIGN(const Shape v, shape_of(call, kV));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {kQ, kK, kV}));
  if (!is_float(dtype)) return error("attention of " + std::string(str(dtype)) + "; it must be a float type");
  for (const Shape& shape : {q, k, v}) {
    if (shape.size() != kRank) return error("attention takes operands of rank 4, found " + str(shape));
  }
  const Dim& places = k[kPlaces];
  RANNC_TRY(fits(call, kK, {q[0], q[kHeads], places, q[kFeatures]}));
  RANNC_TRY(fits(call, kV, {q[0], q[kHeads], places, v[kFeatures]}));
  if (call.has(kMask)) RANNC_TRY(mask_fits(call, {q[0], q[kHeads], q[kPlaces], places}));
  RANNC_ASSIGN(const BatchLayout by_heads, attention_layout(call));
  const Shape made{q[0], q[kHeads], q[kPlaces], v[kFeatures]};
  const std::vector<int64_t> order = call.attributes.integers("order");
  RANNC_ASSIGN(const std::vector<int64_t> axes, checked_axes(order, kRank));
  if (order.size() != kRank || axes.size() != kRank) return error("order has to name each of the 4 axes once");
  Shape shape;
  BatchLayout layout = by_heads;
  for (size_t i = 0; i < kRank; ++i) {
    RANNC_ASSIGN(const int64_t axis, checked_axis(order[i], kRank));
    shape.push_back(made[static_cast<size_t>(axis)]);
    if (by_heads.axis == axis) layout.axis = static_cast<int32_t>(i);
  }
  return Types{make_type(dtype, std::move(shape), std::move(layout))};
}

Dim scores(std::span<const ValueType* const> inputs) {
  const Shape& q = shape_of(*inputs[kQ]);
  return q[0] * q[kHeads] * q[kPlaces] * shape_of(*inputs[kK])[kPlaces];
}

Work attention_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape || !call.in(kK).shape) return {};
  const Dim features = call.in(kQ).shape->back() + outputs[0].shape->back();
  return work(scores(call.inputs) * features * Dim(2), call, outputs);
}

Result<aten::Lowering> lower_attention(const LowerCall& call) {
  const aten::Operand q{kQ}, k{kK}, v{kV}, mask{kMask};
  Calls calls;
  const aten::Made by_heads = calls("aten::scaled_dot_product_attention",
                                    {q, k, v, mask, 0.0, false, {"scale", call.attributes.number("scale")}});
  return std::move(calls).with({calls("aten::permute", {by_heads, call.attributes.integers("order")})});
}

// --- tape of the CPU kernels

// Decomposed attention, which keeps the weights of all positions. Used because the kernel has no gradient for a mask.
TapeUse written_out_tape(const TapeCall& call) {
  TapeUse use{.keeps = {kept_operand(kV)}};
  use.own_bytes = scores(call.inputs) * Dim(byte_size(call.inputs[kQ]->dtype));
  if (call.wants(kQ)) use.own_bytes = use.own_bytes + bytes_of(*call.inputs[kK]);  // as scaled
  if (call.wants(kK)) use.own_bytes = use.own_bytes + bytes_of(*call.inputs[kQ]);
  return use;
}

// Keeps the log-sum-exp of each row, and a bool mask converted to floats.
TapeUse attention_tape(const TapeCall& call) {
  if (call.wants(kMask)) return written_out_tape(call);
  const Shape& q = shape_of(*call.inputs[kQ]);
  TapeUse use{.keeps = {kept_operand(kQ), kept_operand(kK), kept_operand(kV), kept_result()}};
  use.own_bytes = q[0] * q[kHeads] * q[kPlaces] * Dim(byte_size(statistics_dtype(call.inputs[kQ]->dtype)));
  if (call.inputs.size() <= kMask || call.inputs[kMask] == nullptr) return use;
  if (call.inputs[kMask]->dtype == DType::kBool) {
    use.own_bytes =
        use.own_bytes + element_count(shape_of(*call.inputs[kMask])) * Dim(byte_size(call.inputs[kQ]->dtype));
  } else {
    use.keeps.push_back(kept_operand(kMask));
  }
  return use;
}

}  // namespace

std::vector<OpInfo> attention_ops() {
  return {
      {.name = "core.attention",
       .says =
           "softmax(q k^T * scale + mask) v of q, k, v [samples, heads, places, features], its axes in the order asked "
           "for; a mask of bool says which places are seen. Rows that see none are zeros",
       .onnx = {"Attention"},
       .aten = {"aten::scaled_dot_product_attention", "aten::permute"},
       .operands = {{"q"}, {"k"}, {"v"}, {"mask", Role::kData, Presence::kOptional}},
       .attributes = {{.name = "scale", .kind = AttributeKind::kNumber, .required = true},
                      {.name = "order", .kind = AttributeKind::kIntegers, .required = true}},
       .infer = infer_attention,
       .work = attention_work,
       .lower = lower_attention,
       .gradient = gradient_by_vjp,
       .tape = TapeInfo{.rule = attention_tape}}};
}

}  // namespace rannc::ir::ops
