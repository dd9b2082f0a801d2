// Gradients of normalisations and losses.
#include "ir/ops/gradients_dense.h"

namespace rannc::ir::ops::gradient {
namespace {

Attributes only(const GradientCall& call, std::initializer_list<std::string_view> names) {
  Attributes attributes;
  for (const std::string_view name : names) {
    if (const Attribute* given = call.attributes().given().find(name)) attributes.set(name, *given);
  }
  return attributes;
}

// A number for each channel, to be stretched over [N, C, …].
ValueId over_channels(GradientCall& call, ValueId value, size_t rank) {
  Shape shape(rank, Dim(1));
  shape[1] = call.shape(value)[0];
  return call.add("reshape", {value}, {{"shape", shape}});
}

// What x less the running mean is multiplied by.
ValueId running_deviation(GradientCall& call) {
  const ValueId variance = call.operand(4);
  const ValueId epsilon = call.number(call.attributes().number("epsilon"), variance);
  return call.add("rsqrt", {call.add("add", {variance, epsilon})});
}

}  // namespace

bool layer_norm(GradientCall& call) {
  const ValueId gy = call.gradient(), x = call.operand(0), mean = call.result(1), rstd = call.result(2);
  const Attributes axis = only(call, {"axis"});
  if (call.wants(0)) call.give(0, call.add("layer_norm_grad_input", {gy, x, mean, rstd, call.operand(1)}, axis));
  if (call.wants(1)) call.give(1, call.add("layer_norm_grad_scale", {gy, x, mean, rstd}, axis));
  if (call.wants(2)) call.give_unstretched(2, gy);
  return true;
}

bool rms_norm(GradientCall& call) {
  const ValueId gy = call.gradient(), x = call.operand(0), rstd = call.result(1);
  const Attributes axis = only(call, {"axis"});
  if (call.wants(0)) call.give(0, call.add("rms_norm_grad_input", {gy, x, rstd, call.operand(1)}, axis));
  if (call.wants(1)) call.give(1, call.add("rms_norm_grad_scale", {gy, x, rstd}, axis));
  return true;
}

// LibTorch has no derivative by running statistics. In evaluation the gradient of x reads nothing of x.
bool batch_norm(GradientCall& call) {
  if (call.wants(3) || call.wants(4)) return false;
  const ValueId gy = call.gradient(), x = call.operand(0), scale = call.operand(1);
  const bool training = call.attributes().flag("training");
  ValueId mean = call.operand(3), rstd;
  if (training) {
    mean = call.result(3);
    rstd = call.result(4);
  } else if (call.wants(0) || call.wants(1)) {
    rstd = running_deviation(call);
  }
  if (call.wants(0) && training) call.give(0, call.add("batch_norm_grad_input", {gy, x, scale, mean, rstd}));
  if (call.wants(0) && !training) {
    const ValueId factor = over_channels(call, call.add("mul", {scale, rstd}), call.shape(x).size());
    call.give(0, call.add("mul", {gy, factor}));
  }
  if (call.wants(1)) call.give(1, call.add("batch_norm_grad_scale", {gy, x, mean, rstd}));
  if (call.wants(2)) give_channel_sums(call, 2);
  return true;
}

bool cross_entropy_sum(GradientCall& call) {
  call.give(0, call.add("cross_entropy_sum_grad_logits", {call.gradient(), call.result(1), call.operand(1)},
                        call.attributes().given()));
  return true;
}

// That of the target is the other way round.
bool mse_sum(GradientCall& call) {
  const ValueId gy = call.gradient(), prediction = call.operand(0), target = call.operand(1);
  if (call.wants(0)) call.give(0, call.add("mse_sum_grad_prediction", {gy, prediction, target}));
  if (!call.wants(1)) return true;
  call.give(1, call.wants(0) ? call.add("neg", {call.given(0)})
                             : call.add("mse_sum_grad_prediction", {gy, target, prediction}));
  return true;
}

}  // namespace rannc::ir::ops::gradient
