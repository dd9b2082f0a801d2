// Matrix products.
#include "ir/op/gradients/gradients_dense.h"
#include "ir/op/op_memory.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {
namespace {

// --- matmul

// Batch layout that an operand gives to a product of rank `rank`, whose last two axes are rows and columns.
BatchLayout carried(const ValueType& type, size_t rank) {
  BatchLayout layout = type.batch;
  if (layout.has_batch()) layout.axis += static_cast<int32_t>(rank - type.shape->size());
  return layout;
}

// Batch layout of a product of rank `rank` of operands with the layouts a and b, as `carried` gives them.
Result<BatchLayout> product_layout(const OpCall& call, const BatchLayout& a, const BatchLayout& b, size_t rank) {
  const std::string op(short_name(call.op));
  const auto columns = static_cast<int32_t>(rank) - 1, rows = columns - 1;
  // If both operands have the same samples on the contracted axis, the result is a sum over samples.
  if (a.has_batch() && a.axis == columns && b.has_batch() && b.axis == rows && a.outer == b.outer && a.inner == b.inner)
    return BatchLayout{.mix = Mix::kPartial};
  if (a.axis == columns && rank >= 1 && a.has_batch()) return error(op + " contracts over the samples of operand 0");
  if (b.has_batch() && b.axis == rows) return error(op + " contracts over the samples of operand 1");
  if (a.has_batch() && b.has_batch() && !(a == b)) {
    return error("the operands of " + op + " have their samples on axes " + std::to_string(a.axis) + " and " +
                 std::to_string(b.axis) + " of the product: that would mix samples");
  }
  return a.has_batch() ? a : b;
}

Result<Types> infer_matmul(const OpCall& call) {
  RANNC_ASSIGN(Shape a, shape_of(call, 0));
  RANNC_ASSIGN(Shape b, shape_of(call, 1));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1}));
  if (a.empty() || b.empty()) return error("matmul of a scalar: " + str(a) + " and " + str(b));
  const bool vector_a = a.size() == 1, vector_b = b.size() == 1;
  if ((vector_a && call.in(0).batch.has_batch()) || (vector_b && call.in(1).batch.has_batch())) {
    return error("matmul contracts over the samples of a vector");
  }
  if (vector_a) a.insert(a.begin(), Dim(1));
  if (vector_b) b.push_back(1);
  if (!taken_for_equal(call, a.back(), b[b.size() - 2])) {
    return error("matmul of " + str(*call.in(0).shape) + " and " + str(*call.in(1).shape) + ": inner sizes " +
                 a.back().str() + " and " + b[b.size() - 2].str() + " differ");
  }
  RANNC_ASSIGN(Shape to, broadcast(call, Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2)));
  const size_t rank = to.size() + 2;
  BatchLayout layout;
  if (!vector_a && !vector_b) {
    RANNC_ASSIGN(layout, product_layout(call, carried(call.in(0), rank), carried(call.in(1), rank), rank));
  } else {
    layout = vector_a ? call.in(1).batch : call.in(0).batch;
    const int32_t contracted = static_cast<int32_t>(rank) - (vector_a ? 2 : 1);
    if (layout.has_batch() && layout.axis == contracted)
      return error("matmul contracts over the samples of an operand");
    if (vector_a && layout.axis > contracted) --layout.axis;
  }
  if (!vector_a) to.push_back(a[a.size() - 2]);
  if (!vector_b) to.push_back(b.back());
  return Types{make_type(dtype, std::move(to), std::move(layout))};
}

Work matmul_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape || !call.in(0).shape) return {};
  return work(element_count(*outputs[0].shape) * call.in(0).shape->back() * Dim(2), call, outputs);
}

// --- linear

bool output_first(const OpAttributes& attributes) { return attributes.text("layout") == "oi"; }

// The weight may carry samples too, on the axis of its outputs or, for a sum over samples, on the other one.
Result<BatchLayout> linear_layout(const OpCall& call, size_t rank) {
  BatchLayout weight = call.in(1).batch;
  if (rank < 2 && weight.has_batch()) return error("linear of a vector with a weight that carries samples");
  const bool outputs = weight.axis == (output_first(call.attributes) ? 0 : 1);
  if (weight.has_batch()) weight.axis = static_cast<int32_t>(rank) - (outputs ? 1 : 2);
  RANNC_ASSIGN(const BatchLayout layout, product_layout(call, call.in(0).batch, weight, rank));
  if (call.has(2) && layout.mix == Mix::kPartial) return error("linear adds a bias to a sum over samples");
  if (!call.has(2) || !call.in(2).batch.has_batch()) return layout;
  BatchLayout bias = call.in(2).batch;
  bias.axis = static_cast<int32_t>(rank) - 1;
  if (!(bias == layout)) return error("the bias of linear carries other samples than the product");
  return layout;
}

Result<Types> infer_linear(const OpCall& call) {
  RANNC_ASSIGN(Shape shape, shape_of(call, 0));
  RANNC_ASSIGN(const Shape weight, shape_of(call, 1));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1, 2}));
  const std::string layout = call.attributes.text("layout");
  if (shape.empty() || weight.size() != 2) return error("linear of " + str(shape) + " with weight " + str(weight));
  const Dim &out = weight[layout == "oi" ? 0 : 1], &in = weight[layout == "oi" ? 1 : 0];
  if (!taken_for_equal(call, shape.back(), in)) {
    return error("linear of " + str(shape) + " with weight " + str(weight) + " (" + layout +
                 "): " + shape.back().str() + " features against " + in.str());
  }
  if (call.has(2)) {
    RANNC_ASSIGN(const Shape bias, shape_of(call, 2));
    if (bias != Shape{out} && bias != Shape{Dim(1)} && !bias.empty()) {
      return error("bias " + str(bias) + " does not fit " + out.str() + " output features");
    }
  }
  RANNC_ASSIGN(BatchLayout samples, linear_layout(call, shape.size()));
  shape.back() = out;
  return Types{make_type(dtype, std::move(shape), std::move(samples))};
}

Work linear_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape || !call.in(0).shape) return {};
  return work(element_count(*outputs[0].shape) * call.in(0).shape->back() * Dim(2), call, outputs);
}

Result<aten::Lowering> lower_linear(const LowerCall& call) {
  Calls calls;
  aten::Value weight = aten::Operand{1};
  if (!output_first(call.attributes)) weight = calls("aten::t", {weight});
  return std::move(calls).with({calls("aten::linear", {aten::Operand{0}, weight, aten::Operand{2}})});
}

// --- tape: a batched matrix product first makes its operands contiguous

// Whether some stack axes of an operand, but not all, are broadcast. The operand is then copied.
bool partly_stretched(const Shape& operand, const Shape& result) {
  bool stretched = false, filled = false;
  for (size_t i = 2; i < result.size(); ++i) {
    const Dim own = i < operand.size() ? operand[operand.size() - 1 - i] : Dim(1);
    const bool stays = own == result[result.size() - 1 - i];
    stretched = stretched || !stays;
    filled = filled || (stays && !(own == Dim(1)));
  }
  return stretched && filled;
}

TapeUse matmul_tape(const TapeCall& call) {
  const bool stacked = shape_of(*call.inputs[0]).size() > 2 && shape_of(*call.inputs[1]).size() > 2;
  const Shape& result = shape_of(*call.outputs[0]);
  TapeUse use;
  for (const uint32_t k : {0U, 1U}) {
    const Shape& operand = shape_of(*call.inputs[k]);
    if (stacked && partly_stretched(operand, result)) {
      const Dim matrix = operand.back() * operand[operand.size() - 2] * Dim(byte_size(call.inputs[k]->dtype));
      if (call.wants(1 - k)) {
        use.own_bytes = use.own_bytes + element_count(Shape(result.begin(), result.end() - 2)) * matrix;
      }
      continue;
    }
    Kept kept = operand_where(k, 1 - k);
    kept.in_one_piece = stacked;
    use.keeps.push_back(kept);
  }
  return use;
}

// Products of stacked matrices are computed on operands with one leading axis.
Dim matmul_temporary(const MemoryCall& call) {
  if (call.operand(0).shape->size() < 3 || call.operand(1).shape->size() < 3) return Dim(0);
  return call.merged_copies({0, 1}, 2);
}

}  // namespace

std::vector<OpInfo> linear_ops() {
  return {
      {.name = "core.matmul",
       .summary = "matrix product, broadcasting as numpy",
       .onnx = {"MatMul", "Gemm"},
       .operands = {{"a"}, {"b"}},
       .autocast = Autocast::kSixteenBit,
       .infer = infer_matmul,
       .linear = always<Linear::kEach>,
       .work = matmul_work,
       .form = form("aten::matmul", 2),
       .gradient = gradient::matmul,
       .tape = TapeInfo{.rule = matmul_tape},
       .temporary = matmul_temporary},
      {.name = "core.linear",
       .summary = "x times a weight [out, in] or [in, out], by `layout`, plus bias",
       .onnx = {"Gemm"},
       .aten = {"aten::linear"},
       .operands = {{"x"}, {"weight", Role::kWeight}, {"bias", Role::kWeight, Presence::kOptional}},
       .attributes = {{"layout", AttributeKind::kText, "oi", false, {"oi", "io"}}},
       .autocast = Autocast::kSixteenBit,
       .infer = infer_linear,
       .linear = [](const OpCall& call) { return call.has(2) ? Linear::kNo : Linear::kEach; },
       .work = linear_work,
       .lower = lower_linear,
       .gradient = gradient::linear,
       .temporary = [](const MemoryCall& call) { return call.has(2) ? call.copies({0}) : call.merged_copies({0}, 1); }},
  };
}

}  // namespace rannc::ir::ops
