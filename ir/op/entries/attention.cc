// Attention: softmax(q k^T * scale + mask) v, head by head.
#include "ir/op/entries/attention.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/rules/norms.h"

namespace rannc::ir::ops {
namespace {

// Operands are [samples, heads, positions, features]; the mask may omit the first two axes. `order` is the axis order
// of the result. If it equals the memory order of q, the result is contiguous, as the CPU kernel creates it.
constexpr uint32_t kQ = 0, kK = 1, kV = 2, kMask = 3;
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
  if (taken_for_equal(call, shape, expected)) return {};
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
    stretches = mask[i] == Dim(1) || taken_for_equal(call, mask[i], wanted);
  }
  if (stretches) return {};
  return error("a mask " + str(mask) + " does not stretch to the scores " + str(scores));
}

}  // namespace

Result<Types> attention_types(const OpCall& call) {
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
  if (call.attributes.flag("causal")) {
    if (call.has(kMask)) return error("causal attention has no other mask");
    if (!taken_for_equal(call, q[kPlaces], places))
      return error("causal attention of " + q[kPlaces].str() + " queries and " + places.str() + " keys");
  }
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
  Types types = {make_type(dtype, std::move(shape), std::move(layout))};
  if (call.output_count == 1) return types;
  if (!FusedAttention::fits(call.inputs))
    return error("attention of q " + str(q) + ", k " + str(k) + ", v " + str(v) + " has no log_sums");
  types.push_back(make_type(statistics_dtype(dtype), {q[0], q[kHeads], q[kPlaces]}, by_heads));
  return types;
}

std::vector<AttributeInfo> attention_attributes() {
  return {{.name = "scale", .kind = AttributeKind::kNumber, .required = true},
          {.name = "order", .kind = AttributeKind::kIntegers, .required = true},
          {.name = "causal", .kind = AttributeKind::kFlag},
          {.name = "checked", .kind = AttributeKind::kText, .allowed = {"rows", "rows_of_ones"}}};
}

Dim attention_product(const Shape& q, const Shape& k) {
  return q[0] * q[kHeads] * q[kPlaces] * k[kPlaces] * q[kFeatures] * Dim(2);
}

// --- lowering

namespace {

// Axes counted from the first.
std::vector<int64_t> from_first(std::vector<int64_t> axes) {
  for (int64_t& axis : axes) axis = (axis + static_cast<int64_t>(kRank)) % static_cast<int64_t>(kRank);
  return axes;
}

}  // namespace

FusedAttention::FusedAttention(const LowerCall& call)
    : call_(call), order_(from_first(call.attributes.integers("order"))), inverse_(kRank) {
  for (size_t i = 0; i < kRank; ++i) inverse_[static_cast<size_t>(order_[i])] = static_cast<int64_t>(i);
}

bool FusedAttention::fits(std::span<const ValueType* const> operands) {
  for (const size_t operand : {kQ, kK, kV}) {
    if (!operands[operand]->shape || (*operands[operand]->shape)[kPlaces] == Dim(0)) return false;
  }
  return operands[kQ]->shape->back() == operands[kV]->shape->back();
}

std::vector<int64_t> FusedAttention::axes_of_read_gradient(const Attributes& attributes) {
  const std::vector<int64_t> order = from_first(attributes.integers("order"));
  std::vector<int64_t> axes;
  for (const int64_t axis : axes_of_gradients(attributes))
    axes.push_back(std::find(order.begin(), order.end(), axis) - order.begin());
  return axes;
}

std::vector<uint32_t> FusedAttention::copied(const MemoryCall& call, std::initializer_list<uint32_t> operands) {
  if (call.results() == 1) return {};  // not fused
  std::vector<int64_t> axes = from_first(call.attributes().integers("order"));
  if (axes.back() != kFeatures) std::iota(axes.begin(), axes.end(), 0);
  std::vector<uint32_t> found;
  for (const uint32_t operand : operands) {
    const bool strided = call.device() == DeviceType::kCuda && call.has_rows(operand);
    if (!strided && !call.is_dense(operand, axes)) found.push_back(operand);
  }
  return found;
}

// The kernel computes in blocks, of 32, 64 or 256 rows by 512 columns. Blocks of 16-bit floats are computed in f32 and
// then narrowed.
Dim FusedAttention::buffers(const ValueType& q, const ValueType& k, int64_t blocks, const Dim& each_row) {
  const Dim& places = (*q.shape)[kPlaces];
  const auto from = [&](int64_t least) { return min(Dim(1), floor_div(places, Dim(least))); };
  const Dim rows = min(places, Dim(32) + Dim(32) * from(192) + Dim(192) * from(768));
  const Dim scores = Dim(blocks) * rows * min((*k.shape)[kPlaces], Dim(512));
  const DType wide = statistics_dtype(q.dtype);
  const Dim narrowed = wide == q.dtype ? Dim(0) : scores * Dim(byte_size(q.dtype));
  return (scores + rows * each_row) * Dim(byte_size(wide)) + narrowed;
}

aten::Value FusedAttention::by_heads(uint32_t operand) {
  const aten::Operand given{operand};
  if (call_.has_rows(operand)) return given;
  if (order_.back() != kFeatures) return calls("aten::contiguous", {given});
  const aten::Made dense = calls("aten::contiguous", {in_order(given)});
  return calls("aten::permute", {dense, inverse_});
}

aten::Value FusedAttention::turned_back(uint32_t operand) {
  return calls("aten::permute", {aten::Operand{operand}, inverse_});
}

aten::Value FusedAttention::turned_back_dense(uint32_t operand) {
  if (order_.back() != kFeatures) return calls("aten::contiguous", {turned_back(operand)});
  const aten::Made dense = calls("aten::contiguous", {aten::Operand{operand}});
  return calls("aten::permute", {dense, inverse_});
}

Dim FusedAttention::mask_bytes(const MemoryCall& call, uint32_t operand) {
  if (!call.has(operand) || call.operand(operand).dtype != DType::kBool) return 0;
  return call.operand_bytes(operand) * Dim(byte_size(call.operand(kQ).dtype));
}

aten::Argument FusedAttention::mask(uint32_t operand, DType dtype) {
  if (!call_.has(operand)) return {"attn_mask", aten::None{}};
  if (call_.inputs[operand]->dtype != DType::kBool) return {"attn_mask", aten::Operand{operand}};
  const aten::Operand seen{operand};
  const aten::Made zeros = calls("aten::zeros_like", {seen, {"dtype", dtype}});
  const aten::Made hidden = calls("aten::logical_not", {seen});
  const aten::Scalar least{-std::numeric_limits<double>::infinity()};
  return {"attn_mask", calls("aten::masked_fill.Scalar", {zeros, hidden, least})};
}

namespace {

Dim scores(std::span<const ValueType* const> inputs) {
  const Shape& q = shape_of(*inputs[kQ]);
  return q[0] * q[kHeads] * q[kPlaces] * shape_of(*inputs[kK])[kPlaces];
}

Work attention_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape || !call.in(kK).shape) return {};
  const Dim features = call.in(kQ).shape->back() + outputs[0].shape->back();
  const int64_t operations = call.attributes.flag("causal") ? 1 : 2;  // half of the scores are computed
  return work(scores(call.inputs) * features * Dim(operations), call, outputs);
}

// The same kernel as that of `aten::scaled_dot_product_attention`.
aten::Lowering lower_fused_attention(const LowerCall& call) {
  if (call.device == DeviceType::kCuda) return lower_cuda_attention(call);
  FusedAttention fused(call);
  std::vector<aten::Argument> arguments;
  for (const uint32_t operand : {kQ, kK, kV}) arguments.emplace_back(fused.by_heads(operand));
  arguments.insert(arguments.end(), {0.0, call.attributes.flag("causal")});
  arguments.push_back(fused.mask(kMask, call.inputs[kQ]->dtype));
  arguments.emplace_back("scale", call.attributes.number("scale"));
  const aten::Made made = fused.calls("aten::_scaled_dot_product_flash_attention_for_cpu", std::move(arguments), 2);
  const aten::Value result = fused.in_order(made);
  return std::move(fused.calls).with({result, aten::Made{made.call, 1}});
}

Result<aten::Lowering> lower_attention(const LowerCall& call) {
  if (call.outputs.size() > 1) return lower_fused_attention(call);
  const aten::Operand q{kQ}, k{kK}, v{kV}, mask{kMask};
  Calls calls;
  const aten::Made by_heads =
      calls("aten::scaled_dot_product_attention",
            {q, k, v, mask, 0.0, call.attributes.flag("causal"), {"scale", call.attributes.number("scale")}});
  return std::move(calls).with({calls("aten::permute", {by_heads, call.attributes.integers("order")})});
}

// A bool mask is converted. The buffers hold a block of scores, the maximum and the sum of each of its rows, and rows
// of results.
Dim attention_temporary(const MemoryCall& call) {
  if (call.results() == 1) return 0;
  if (call.device() == DeviceType::kCuda) return cuda_attention_temporary(call);
  const Dim features = call.operand(kQ).shape->back();
  return FusedAttention::mask_bytes(call, kMask) +
         FusedAttention::buffers(call.operand(kQ), call.operand(kK), 1, features + Dim(2));
}

// --- tape of the CPU kernels

// Decomposed attention, which keeps the weights of all positions. Used where the kernel does not fit, or because it has
// no gradient for a mask.
TapeUse written_out_tape(const TapeCall& call) {
  TapeUse use;
  if (call.wants(kQ) || call.wants(kK) || call.wants(kMask)) use.keeps = {kept_operand(kV)};
  use.own_bytes = scores(call.inputs) * Dim(byte_size(call.inputs[kQ]->dtype));
  if (call.wants(kQ)) use.own_bytes = use.own_bytes + byte_count(*call.inputs[kK]);  // as scaled
  if (call.wants(kK)) use.own_bytes = use.own_bytes + byte_count(*call.inputs[kQ]);
  return use;
}

// Keeps the log-sum-exp of each row, and a bool mask converted to floats.
TapeUse attention_tape(const TapeCall& call) {
  if (call.wants(kMask) || !FusedAttention::fits(call.inputs)) return written_out_tape(call);
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

// LibTorch decomposes attention if its mask wants a gradient, with 16-bit floats in f32.
uint32_t attention_auxiliary(const TapeCall& call) {
  const bool narrow = byte_size(call.inputs[kQ]->dtype) < byte_size(DType::kF32);
  return FusedAttention::fits(call.inputs) && !(call.wants(kMask) && narrow) ? 1 : 0;
}

}  // namespace

std::vector<OpInfo> attention_ops() {
  return {
      {.name = "core.attention",
       .summary =
           "softmax(q k^T * scale + mask) v of q, k, v [samples, heads, places, features], its axes as in `order`; a "
           "mask of bool marks the places that are seen. Rows that see none are zeros; where they would not be, a mask "
           "has to be `checked` before a step: `rows`, each row sees a place; `rows_of_ones`, and the numbers that it "
           "is cast from are 0 or 1. The auxiliary result is the logarithm of the sum of exponentials of each row",
       .onnx = {"Attention"},
       .aten = {"aten::scaled_dot_product_attention", "aten::permute"},
       .operands = {{"q"}, {"k"}, {"v"}, {"mask", Role::kData, Presence::kOptional}},
       .attributes = attention_attributes(),
       .results = {{"result"}, {"log_sums", Presence::kOptional}},
       .autocast = Autocast::kSixteenBit,
       .infer = attention_types,
       .work = attention_work,
       .lower = lower_attention,
       .gradient = gradient::attention,
       .gradient_takes_auxiliary = attention_auxiliary,
       .tape = TapeInfo{.rule = attention_tape},
       .copied =
           [](const MemoryCall& call) {
             return FusedAttention::copied(call, {kQ, kK, kV});
           },
       .temporary = attention_temporary}};
}

}  // namespace rannc::ir::ops
