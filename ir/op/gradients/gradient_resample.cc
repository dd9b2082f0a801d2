// Gradient rules of resampling.
#include "ir/op/gradients/gradients_dense.h"

namespace rannc::ir::ops::gradient {
namespace {

// The forward task's attributes with the spatial sizes of its operand 0.
Attributes back_to_operand(const GradientCall& call) {
  const Shape& x = call.shape(call.operand(0));
  Attributes attributes = call.attributes().given();
  attributes.set("sizes", Shape(x.begin() + 2, x.end()));
  return attributes;
}

}  // namespace

bool upsample(GradientCall& call) {
  call.give(0, call.add("upsample_grad_input", {call.gradient()}, back_to_operand(call)));
  return true;
}

bool grid_sample(GradientCall& call) {
  const ValueId gy = call.gradient(), x = call.operand(0), grid = call.operand(1);
  if (call.wants(0)) call.give(0, call.add("grid_sample_grad_input", {gy, grid}, back_to_operand(call)));
  if (call.wants(1)) call.give(1, call.add("grid_sample_grad_grid", {gy, x, grid}, call.attributes().given()));
  return true;
}

}  // namespace rannc::ir::ops::gradient
