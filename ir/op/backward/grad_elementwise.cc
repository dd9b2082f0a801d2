// Backward operators of elementwise operators, after LibTorch's derivatives.
#include <algorithm>

#include "ir/op/backward/grad_rules.h"

namespace rannc::ir::ops {
namespace {

using aten::FromAttribute;
using aten::Operand;
using aten::Scalar;
using Kind = AttributeKind;
using Slots = std::vector<aten::Template::Slot>;

// --- type rules: operand 0 is the gradient of the result

// Type of operand 1, which has the shape of the result.
Result<Types> infer_same(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 1));
  RANNC_TRY(require_gradient_shape(call, shape));
  return gradient_type(call, 1);
}

// Type of an operand broadcast to the shape of the result.
Result<Types> infer_stretched(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 0));
  for (size_t k = 1; k < call.inputs.size(); ++k) {
    RANNC_ASSIGN(const Shape other, shape_of(call, k));
    RANNC_ASSIGN(const Shape both, broadcast(call, shape, other));
    bool fits = both.size() == shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i) fits = !(shape[i] == Dim(1)) || both[i] == Dim(1);
    if (!fits) {
      return error("operand " + std::to_string(k) + " of shape " + str(other) + " does not stretch to the result's " +
                   str(shape));
    }
  }
  return gradient_type(call, 0);
}

Result<Types> infer_chosen(const OpCall& call) {
  if (call.in(1).dtype != DType::kBool) return error("the condition is " + std::string(str(call.in(1).dtype)));
  return infer_stretched(call);
}

Result<Types> infer_base(const OpCall& call) {
  RANNC_TRY(common_dtype(call, {0, 1}));
  return infer_stretched(call);
}

Result<Types> infer_exponent(const OpCall& call) {
  RANNC_ASSIGN(Types types, infer_base(call));
  types[0].dtype = call.in(2).dtype;
  return types;
}

Result<Types> infer_choice(const OpCall& call) {
  RANNC_TRY(common_dtype(call, {0, 1, 2}));
  return infer_stretched(call);
}

Result<Types> infer_softmax(const OpCall& call) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, 1));
  RANNC_ASSIGN(const int64_t axis, checked_axis(call.attributes.integer("axis"), shape.size()));
  RANNC_TRY(keep_samples_apart(call, 1, axis));
  return infer_same(call);
}

Result<Types> infer_product(const OpCall& call) {
  RANNC_ASSIGN(const Shape from, shape_of(call, 1));
  RANNC_ASSIGN(const std::vector<int64_t> axes, reduced_axes(call.attributes, from.size()));
  Shape folded;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool gone = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    if (gone) RANNC_TRY(keep_samples_apart(call, 1, static_cast<int64_t>(i)));
    if (!gone || call.attributes.flag("keepdim")) folded.push_back(gone ? Dim(1) : from[i]);
  }
  RANNC_TRY(require_gradient_shape(call, folded));
  return gradient_type(call, 1);
}

// --- lowerings of several calls

// Casts to the type of the result if ATen's type promotion gave another.
aten::Lowering in_result_type(const LowerCall& call, Calls calls, aten::Made value) {
  if (call.inputs[1]->dtype != call.inputs[2]->dtype) {
    value = calls("aten::to.dtype", {value, {"dtype", call.outputs[0]->dtype}});
  }
  return std::move(calls).with({value});
}

// gy * b * a^(b-1), and 0 where b is 0.
Result<aten::Lowering> lower_base(const LowerCall& call) {
  Calls calls;
  const aten::Made less = calls("aten::sub.Scalar", {Operand{2}, Scalar{Dim(1)}});
  const aten::Made power = calls("aten::pow.Tensor_Tensor", {Operand{1}, less});
  const aten::Made slope = calls("aten::mul.Tensor", {Operand{2}, power});
  const aten::Made made = calls("aten::mul.Tensor", {Operand{0}, slope});
  const aten::Made flat = calls("aten::eq.Scalar", {Operand{2}, Scalar{Dim(0)}});
  const aten::Made chosen = calls("aten::where.ScalarSelf", {flat, Scalar{Dim(0)}, made});
  return in_result_type(call, std::move(calls), chosen);
}

// gy * a^b * log(a), and 0 where a is 0 and b is not negative.
Result<aten::Lowering> lower_exponent(const LowerCall& call) {
  Calls calls;
  aten::Value base = Operand{1};
  if (byte_size(call.inputs[2]->dtype) > byte_size(call.inputs[1]->dtype)) {
    base = calls("aten::to.dtype", {base, {"dtype", call.inputs[2]->dtype}});
  }
  const aten::Made power = calls("aten::pow.Tensor_Tensor", {base, Operand{2}});
  const aten::Made logarithm = calls("aten::log", {base});
  const aten::Made slope = calls("aten::mul.Tensor", {power, logarithm});
  const aten::Made zero = calls("aten::eq.Scalar", {Operand{1}, Scalar{Dim(0)}});
  const aten::Made rises = calls("aten::ge.Scalar", {Operand{2}, Scalar{Dim(0)}});
  const aten::Made flat = calls("aten::logical_and", {zero, rises});
  const aten::Made chosen = calls("aten::where.ScalarSelf", {flat, Scalar{Dim(0)}, slope});
  const aten::Made made = calls("aten::mul.Tensor", {Operand{0}, chosen});
  return in_result_type(call, std::move(calls), made);
}

// gy; half of it where both operands are equal, 0 where the other one was chosen.
aten::Lowering lower_choice(const std::string& other_taken) {
  Calls calls;
  const aten::Made equal = calls("aten::eq.Tensor", {Operand{1}, Operand{2}});
  const aten::Made half = calls("aten::div.Scalar", {Operand{0}, Scalar{Dim(2)}});
  const aten::Made shared = calls("aten::where.self", {equal, half, Operand{0}});
  const aten::Made other = calls(other_taken, {Operand{1}, Operand{2}});
  return std::move(calls).with({calls("aten::masked_fill.Scalar", {shared, other, Scalar{Dim(0)}})});
}
Result<aten::Lowering> lower_maximum(const LowerCall&) { return lower_choice("aten::lt.Tensor"); }
Result<aten::Lowering> lower_minimum(const LowerCall&) { return lower_choice("aten::gt.Tensor"); }

aten::Lowering by_softmax(const LowerCall& call, std::string schema) {
  return one_call(std::move(schema), {Operand{0}, Operand{1}, call.attributes.integer("axis"), call.inputs[1]->dtype});
}
Result<aten::Lowering> lower_softmax(const LowerCall& call) { return by_softmax(call, "aten::_softmax_backward_data"); }
Result<aten::Lowering> lower_log_softmax(const LowerCall& call) {
  return by_softmax(call, "aten::_log_softmax_backward_data");
}

// Product of all elements before each element, along the last axis of `x`.
aten::Made product_before(Calls& calls, const aten::Value& x) {
  const aten::Made shifted = calls("aten::constant_pad_nd", {x, Shape{1, -1}, Scalar{Dim(1)}});
  return calls("aten::cumprod", {shifted, -1});
}

// gy times the product of all other elements. Dividing the product by the element would fail for zeros. The reduced
// axes become one last axis, along which the products of the elements before and after each are multiplied.
Result<aten::Lowering> lower_product(const LowerCall& call) {
  const Shape& from = shape_of(*call.inputs[1]);
  RANNC_ASSIGN(const std::vector<int64_t> axes, reduced_axes(call.attributes, from.size()));
  if (axes.empty()) return passed_on();
  if (element_count(from) == Dim(0)) return one_call("aten::zeros_like", {Operand{1}});
  std::vector<int64_t> order, back(from.size());
  Shape moved, rows, kept = from;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i)))
      order.push_back(static_cast<int64_t>(i));
  }
  for (const int64_t axis : order) rows.push_back(from[axis]);
  order.insert(order.end(), axes.begin(), axes.end());
  Dim folded = 1;
  for (const int64_t axis : axes) folded = folded * from[axis], kept[axis] = 1;
  rows.push_back(folded);
  for (size_t i = 0; i < order.size(); ++i) moved.push_back(from[order[i]]), back[order[i]] = static_cast<int64_t>(i);
  Calls calls;
  const aten::Made flat = calls("aten::reshape", {calls("aten::permute", {Operand{1}, order}), rows});
  const aten::Made before = product_before(calls, flat);
  const aten::Made turned = product_before(calls, calls("aten::flip", {flat, Shape{-1}}));
  const aten::Made others = calls("aten::mul.Tensor", {before, calls("aten::flip", {turned, Shape{-1}})});
  const aten::Made placed = calls("aten::permute", {calls("aten::reshape", {others, moved}), back});
  const aten::Made gradient = calls("aten::reshape", {Operand{0}, kept});
  return std::move(calls).with({calls("aten::mul.Tensor", {gradient, placed})});
}

// --- rows

/// Entry for an elementwise operator of one operand, lowered to one call that reads the operand or the result.
OpInfo unary(std::string_view name, std::string_view summary, std::string_view reads, std::string schema,
             Slots slots = {}, std::vector<AttributeInfo> attributes = {}) {
  OpInfo op = gradient_row(name, summary, {{reads}}, infer_same);
  op.attributes = std::move(attributes);
  op.form = form("aten::" + std::move(schema), 2, std::move(slots));
  return op;
}

void add_functions(std::vector<OpInfo>& table) {
  const AttributeInfo approximate{"approximate", Kind::kText, "none", false, {"none", "tanh"}};
  const AttributeInfo slope{"alpha", Kind::kNumber, 0.01}, scale{"alpha", Kind::kNumber, 1.0};
  OpInfo elu = unary("elu", "gy through elu of x", "x", "elu_backward", {}, {scale});
  elu.form = aten::Template{"aten::elu_backward",
                            {{"", aten::Value(Operand{0})},
                             {"", FromAttribute{"alpha"}},
                             {"", Scalar{Dim(1)}},
                             {"", Scalar{Dim(1)}},
                             {"", false},
                             {"", aten::Value(Operand{1})}}};
  table.insert(table.end(), {unary("relu", "gy where y is positive", "y", "threshold_backward", {{"", Scalar{Dim(0)}}}),
                             unary("tanh", "gy through tanh, whose result is y", "y", "tanh_backward"),
                             unary("sigmoid", "gy through sigmoid, whose result is y", "y", "sigmoid_backward"),
                             unary("silu", "gy through silu of x", "x", "silu_backward"),
                             unary("hardswish", "gy through hardswish of x", "x", "hardswish_backward"),
                             unary("hardsigmoid", "gy through hardsigmoid of x", "x", "hardsigmoid_backward"),
                             // Same threshold as softplus.
                             unary("softplus", "gy through softplus of x", "x", "softplus_backward",
                                   {{"", Scalar{Dim(1)}}, {"", Scalar{Dim(40)}}}),
                             unary("gelu", "gy through gelu of x", "x", "gelu_backward",
                                   {{"approximate", FromAttribute{"approximate"}}}, {approximate}),
                             unary("leaky_relu", "gy through leaky_relu of x", "x", "leaky_relu_backward",
                                   {{"", FromAttribute{"alpha"}}, {"", false}}, {slope}),
                             std::move(elu)});
}

void add_choices(std::vector<OpInfo>& table) {
  OpInfo where = gradient_row("where", "gy where the condition holds, 0 elsewhere", {{"condition"}}, infer_chosen,
                              elementwise_work<1>);
  where.form = aten::Template{"aten::where.ScalarOther",
                              {{"", aten::Value(Operand{1})}, {"", aten::Value(Operand{0})}, {"", Scalar{Dim(0)}}}};
  table.insert(table.end(),
               {std::move(where),
                by_rule(gradient_row("maximum", "gy of a where it is larger than b, half of it where they are equal",
                                     {{"a"}, {"b"}}, infer_choice),
                        lower_maximum, {"aten::masked_fill"}),
                by_rule(gradient_row("minimum", "gy of a where it is smaller than b, half of it where they are equal",
                                     {{"a"}, {"b"}}, infer_choice),
                        lower_minimum, {"aten::masked_fill"}),
                by_rule(gradient_row("pow_base", "gy of a through a to the power of b", {{"a"}, {"b"}}, infer_base,
                                     elementwise_work<14>),
                        lower_base, {"aten::pow"}),
                by_rule(gradient_row("pow_exponent", "gy of b through a to the power of b", {{"a"}, {"b"}},
                                     infer_exponent, elementwise_work<24>),
                        lower_exponent, {"aten::pow", "aten::log"})});
}

void add_folds(std::vector<OpInfo>& table) {
  const AttributeInfo axis{"axis", Kind::kInteger, Dim(-1)}, axes{"axes", Kind::kIntegers},
      keepdim{"keepdim", Kind::kFlag, false};
  table.insert(table.end(),
               {by_rule(gradient_row("softmax", "gy through softmax, whose result is y", {{"y"}}, infer_softmax),
                        lower_softmax, {"aten::_softmax_backward_data"}, {axis}),
                by_rule(gradient_row("log_softmax", "gy through log_softmax, whose result is y", {{"y"}}, infer_softmax,
                                     elementwise_work<14>),
                        lower_log_softmax, {"aten::_log_softmax_backward_data"}, {axis}),
                by_rule(gradient_row("prod", "gy times the product of the other elements of x", {{"x"}}, infer_product),
                        lower_product, {"aten::cumprod"}, {axes, keepdim})});
}

}  // namespace

std::vector<OpInfo> grad_elementwise_ops() {
  std::vector<OpInfo> table;
  add_functions(table);
  add_choices(table);
  add_folds(table);
  return table;
}

}  // namespace rannc::ir::ops
