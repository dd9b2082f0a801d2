/// Gradient rules (`ir/gradient/gradient.h`) of the families elementwise, reduce, shape and slice, named after their
/// operators. Private to ir/op.
#pragma once

#include "ir/gradient/gradient.h"

namespace rannc::ir::ops::gradient {

/// Gives the gradient of operand 0 of a rule that gives no other.
inline bool give(GradientCall& call, ValueId gradient) {
  call.give(0, gradient);
  return true;
}

// --- gradient_elementwise.cc
bool add(GradientCall& call);
bool sub(GradientCall& call);
bool mul(GradientCall& call);
bool div(GradientCall& call);
bool mod(GradientCall& call);
bool fmod(GradientCall& call);
bool pow(GradientCall& call);
bool maximum(GradientCall& call);
bool minimum(GradientCall& call);
bool neg(GradientCall& call);
bool abs(GradientCall& call);
bool relu(GradientCall& call);
/// Rule of step functions, whose gradient is 0 everywhere: sign, floor, ceil, round.
bool steps(GradientCall& call);
bool clamp(GradientCall& call);
bool where(GradientCall& call);
bool cast(GradientCall& call);
bool identity(GradientCall& call);
bool exp(GradientCall& call);
bool log(GradientCall& call);
bool sqrt(GradientCall& call);
bool rsqrt(GradientCall& call);
bool reciprocal(GradientCall& call);
bool erf(GradientCall& call);
bool tanh(GradientCall& call);
bool sigmoid(GradientCall& call);
bool sin(GradientCall& call);
bool cos(GradientCall& call);
bool silu(GradientCall& call);
bool hardswish(GradientCall& call);
bool hardsigmoid(GradientCall& call);
bool softplus(GradientCall& call);
bool gelu(GradientCall& call);
bool leaky_relu(GradientCall& call);
bool elu(GradientCall& call);

// --- gradient_reduce.cc
bool sum(GradientCall& call);
bool mean(GradientCall& call);
bool amax(GradientCall& call);
bool amin(GradientCall& call);
bool prod(GradientCall& call);
bool softmax(GradientCall& call);
bool log_softmax(GradientCall& call);

// --- gradient_shape.cc
bool reshape(GradientCall& call);
bool permute(GradientCall& call);
bool expand(GradientCall& call);
bool tile(GradientCall& call);
bool unsqueeze(GradientCall& call);
bool squeeze(GradientCall& call);
bool concat(GradientCall& call);
bool split(GradientCall& call);
bool slice(GradientCall& call);
bool pad(GradientCall& call);

}  // namespace rannc::ir::ops::gradient
