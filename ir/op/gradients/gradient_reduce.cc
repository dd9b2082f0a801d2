// Gradient rules of reductions.
#include "ir/op/gradients/gradients_elementwise.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops::gradient {
namespace {

std::vector<int64_t> folded_axes(const GradientCall& call) {
  return reduced_axes(call.attributes(), call.shape(call.operand(0)).size()).value();
}

Shape list(const std::vector<int64_t>& axes) { return {axes.begin(), axes.end()}; }

// Reinserts the reduced axes, with size 1, into a value of the result's shape.
ValueId unfolded(GradientCall& call, ValueId value, const std::vector<int64_t>& axes) {
  if (axes.empty() || call.attributes().flag("keepdim")) return value;
  return call.add("unsqueeze", {value}, {{"axes", list(axes)}});
}

// Broadcasts `value` to the operand's shape. If the samples were reduced, they get the operand's batch layout back.
// Samples in the middle of an axis need a temporary axis for that.
ValueId stretched(GradientCall& call, ValueId value) {
  const ValueId x = call.operand(0);
  const Shape to = call.shape(x);
  const BatchLayout place = call.type(x).batch;
  if (!place.has_batch() || place.outer == Dim(1) || call.type(value).batch.has_batch()) {
    return call.add("expand", {value}, {{"shape", to}});
  }
  Shape apart = to;
  apart[place.axis] = *exact_div(to[place.axis], place.outer);
  apart.insert(apart.begin() + place.axis, place.outer);
  const ValueId room = call.add("unsqueeze", {value}, {{"axes", Shape{Dim(place.axis)}}});
  return call.add("reshape", {call.add("expand", {room}, {{"shape", apart}})}, {{"shape", to}});
}

}  // namespace

bool sum(GradientCall& call) {
  call.give(0, stretched(call, unfolded(call, call.gradient(), folded_axes(call))));
  return true;
}

// Divides by the number of elements before broadcasting, in a type that can represent it.
bool mean(GradientCall& call) {
  const std::vector<int64_t> axes = folded_axes(call);
  Dim count = 1;
  for (const int64_t axis : axes) count = count * call.shape(call.operand(0))[axis];
  const DType dtype = call.type(call.gradient()).dtype, wide = byte_size(dtype) < 4 ? DType::kF32 : dtype;
  const ValueId whole = call.add("full", {}, {{"shape", Shape{}}, {"value", count}, {"dtype", DType::kI64}});
  const auto as = [&](ValueId value, DType type) { return call.add("cast", {value}, {{"dtype", type}}); };
  ValueId share = wide == dtype ? call.gradient() : as(call.gradient(), wide);
  share = call.add("div", {share, as(whole, wide)});
  if (wide != dtype) share = as(share, dtype);
  call.give(0, stretched(call, unfolded(call, share, axes)));
  return true;
}

// Divides the gradient evenly among the elements that equal the extreme.
bool amax(GradientCall& call) {
  const std::vector<int64_t> axes = folded_axes(call);
  if (axes.empty()) return identity(call);  // as it is lowered
  const ValueId x = call.operand(0), extreme = unfolded(call, call.result(), axes);
  const ValueId chosen = call.add("cast", {call.add("eq", {x, extreme})}, {{"dtype", call.type(x).dtype}});
  const ValueId count = call.add("sum", {chosen}, {{"axes", list(axes)}, {"keepdim", true}});
  const ValueId share = call.add("div", {unfolded(call, call.gradient(), axes), count});
  call.give(0, call.add("mul", {share, chosen}));
  return true;
}
bool amin(GradientCall& call) { return amax(call); }

bool prod(GradientCall& call) {
  call.give(0, call.add("prod_grad", {call.gradient(), call.operand(0)}, call.attributes().given()));
  return true;
}

bool softmax(GradientCall& call) {
  const ir::Dim axis = call.attributes().integer("axis");
  call.give(0, call.add("softmax_grad", {call.gradient(), call.result()}, {{"axis", axis}}));
  return true;
}

bool log_softmax(GradientCall& call) {
  call.give(0, call.add("log_softmax_grad", {call.gradient(), call.result()}, call.attributes().given()));
  return true;
}

}  // namespace rannc::ir::ops::gradient
