// Gradient rules of normalizations and losses.
#include "ir/op/gradients/gradients_dense.h"

namespace rannc::ir::ops::gradient {
namespace {

Attributes only(const GradientCall& call, std::initializer_list<std::string_view> names) {
  Attributes attributes;
  for (const std::string_view name : names) {
    if (const Attribute* given = call.attributes().given().find(name)) attributes.set(name, *given);
  }
  return attributes;
}

// Reshapes a value with one number per channel so that it broadcasts over [N, C, …].
ValueId over_channels(GradientCall& call, ValueId value, size_t rank) {
  Shape shape(rank, Dim(1));
  shape[1] = call.shape(value)[0];
  return call.add("reshape", {value}, {{"shape", shape}});
}

// Inverse running standard deviation, the factor of x - running mean.
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

// LibTorch has no derivative with respect to running statistics. In evaluation the gradient of x does not read x.
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

// Class weights have no gradient.
bool cross_entropy_sum(GradientCall& call) {
  if (call.wants(2)) return false;
  std::vector<ValueId> operands = {call.gradient(), call.result(1), call.operand(1)};
  if (call.operand(2).valid()) operands.push_back(call.operand(2));
  call.give(0, call.add("cross_entropy_sum_grad_logits", operands, call.attributes().given()));
  return true;
}

// (log(sigmoid(-x)) - w * log(sigmoid(x))) * gy, where log(sigmoid(-x)) = log(sigmoid(x)) - x.
void give_of_bits(GradientCall& call) {
  const ValueId x = call.operand(0), weights = call.operand(2);
  ValueId made = call.add("neg", {x});
  if (weights.valid()) {
    const ValueId one = call.number(1, x);
    const ValueId small = call.add("exp", {call.add("neg", {call.add("abs", {x})})});
    const ValueId log =
        call.add("sub", {call.add("clamp", {x}, {{"max", 0.0}}), call.add("log", {call.add("add", {small, one})})});
    made = call.add("sub", {call.add("mul", {log, call.add("sub", {one, weights})}), x});
  }
  call.give(1, call.add("mul", {made, call.gradient()}));
}

// For target t and positive weight w: ((w * t + 1 - t) * sigmoid(x) - w * t) * gy.
bool bce_with_logits_sum(GradientCall& call) {
  if (call.wants(2)) return false;
  if (call.wants(1)) give_of_bits(call);
  if (!call.wants(0)) return true;
  const ValueId x = call.operand(0), target = call.operand(1), weights = call.operand(2);
  ValueId shares = call.add("sigmoid", {x}), positive = target;
  if (weights.valid()) {
    positive = call.add("mul", {target, weights});
    const ValueId negative = call.add("sub", {call.number(1, target), target});
    shares = call.add("mul", {shares, call.add("add", {positive, negative})});
  }
  call.give(0, call.add("mul", {call.add("sub", {shares, positive}), call.gradient()}));
  return true;
}

// The target's gradient is the negative of the prediction's.
bool huber_sum(GradientCall& call) {
  const ValueId gy = call.gradient(), prediction = call.operand(0), target = call.operand(1);
  const Attributes delta = only(call, {"delta"});
  if (call.wants(0)) call.give(0, call.add("huber_sum_grad_prediction", {gy, prediction, target}, delta));
  if (!call.wants(1)) return true;
  call.give(1, call.wants(0) ? call.add("neg", {call.given(0)})
                             : call.add("huber_sum_grad_prediction", {gy, target, prediction}, delta));
  return true;
}

// The target's gradient is the negative of the prediction's.
bool mse_sum(GradientCall& call) {
  const ValueId gy = call.gradient(), prediction = call.operand(0), target = call.operand(1);
  if (call.wants(0)) call.give(0, call.add("mse_sum_grad_prediction", {gy, prediction, target}));
  if (!call.wants(1)) return true;
  call.give(1, call.wants(0) ? call.add("neg", {call.given(0)})
                             : call.add("mse_sum_grad_prediction", {gy, target, prediction}));
  return true;
}

}  // namespace rannc::ir::ops::gradient
