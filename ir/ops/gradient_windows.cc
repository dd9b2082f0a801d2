// Gradients of convolutions and pooling.
#include "ir/ops/gradients_dense.h"

namespace rannc::ir::ops::gradient {
namespace {

Shape spatial(const Shape& shape) { return Shape(shape.begin() + 2, shape.end()); }

// The forward task's attributes and one more.
Attributes with(const GradientCall& call, std::string_view name, Shape value) {
  Attributes attributes = call.attributes().given();
  attributes.set(name, std::move(value));
  return attributes;
}

bool pool(GradientCall& call, std::string_view op, const std::vector<ValueId>& operands) {
  call.give(0, call.add(op, operands, with(call, "sizes", spatial(call.shape(call.operand(0))))));
  return true;
}

}  // namespace

void give_channel_sums(GradientCall& call, size_t operand) {
  Shape axes = {Dim(0)};
  for (size_t i = 2; i < call.shape(call.gradient()).size(); ++i) axes.emplace_back(static_cast<int64_t>(i));
  call.give(operand, call.add("sum", {call.gradient()}, {{"axes", axes}}));
}

bool conv(GradientCall& call) {
  const ValueId gy = call.gradient(), x = call.operand(0), weight = call.operand(1);
  if (call.wants(0)) {
    call.give(0, call.add("conv_grad_input", {gy, weight}, with(call, "sizes", spatial(call.shape(x)))));
  }
  if (call.wants(1)) {
    call.give(1, call.add("conv_grad_weight", {gy, x}, with(call, "kernel", spatial(call.shape(weight)))));
  }
  if (call.wants(2)) give_channel_sums(call, 2);
  return true;
}

bool max_pool(GradientCall& call) { return pool(call, "max_pool_grad_input", {call.gradient(), call.result(1)}); }

bool avg_pool(GradientCall& call) { return pool(call, "avg_pool_grad_input", {call.gradient()}); }

bool adaptive_avg_pool(GradientCall& call) {
  call.give(0, call.add("adaptive_avg_pool_grad_input", {call.gradient()},
                        {{"sizes", spatial(call.shape(call.operand(0)))}}));
  return true;
}

}  // namespace rannc::ir::ops::gradient
