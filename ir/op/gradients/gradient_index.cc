// Gradient rules of operators that read or place elements by position.
#include "ir/gradient/row_gradients.h"
#include "ir/op/gradients/gradients_dense.h"

namespace rannc::ir::ops::gradient {
namespace {

// Gradient of an operand whose elements are picked: sums the gradients of each element. Reads only the operand's shape.
bool scattered(GradientCall& call, std::string_view op) {
  const ValueId x = call.operand(0);
  Attributes attributes = call.attributes().given();
  attributes.set("sizes", call.shape(x));
  const BatchLayout& layout = call.type(x).batch;
  if (layout.has_batch() && !(layout.outer == Dim(1))) attributes.set("outer", Shape{layout.outer});
  call.give(0, call.add(op, {call.gradient(), call.operand(1)}, std::move(attributes)));
  return true;
}

}  // namespace

// A micro-batch reads few rows of a large table. Zero-filling and adding a gradient of the table's size would take
// longer than the layer.
bool gather(GradientCall& call) {
  const ValueId x = call.operand(0);
  const Shape& table = call.shape(x);
  bool rows = call.is_parameter(0) && table.size() == 2 && call.attributes().integer("axis") == 0;
  const Dim bytes = element_count(table) * Dim(byte_size(call.type(x).dtype));
  rows = rows && bytes.is_constant() && bytes.constant() >= kRowGradientTableBytes;
  return scattered(call, rows ? "gather_grad_rows" : "gather_grad_input");
}
bool gather_nd(GradientCall& call) { return scattered(call, "gather_nd_grad_input"); }
bool gather_elements(GradientCall& call) { return scattered(call, "gather_elements_grad_input"); }

// The gradient of each element is the sum of the gradients from it on.
bool cumsum(GradientCall& call) {
  Attributes attributes = call.attributes().given();
  attributes.set("reverse", !call.attributes().flag("reverse"));
  call.give(0, call.add("cumsum", {call.gradient()}, std::move(attributes)));
  return true;
}

bool trilu(GradientCall& call) {
  call.give(0, call.add("trilu", {call.gradient()}, call.attributes().given()));
  return true;
}

}  // namespace rannc::ir::ops::gradient
