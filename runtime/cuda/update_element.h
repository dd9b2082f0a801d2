/// The arithmetic of one element of an optimizer step, for host and device.
///
/// The order of operations is that of LibTorch's fused kernels for a processor. A test compares both.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/cuda/host_device.h"
#include "runtime/device/plugin.h"

namespace rannc::cuda {

/// Factors of a step in the type in which elements are computed: float32, or float64 for parameters of that type.
template <class Number>
struct UpdateFactors {
  runtime::DeviceUpdate::Rule rule;
  bool nesterov;
  Number scale, decay, keep, momentum, beta1, beta2, rest1, rest2, root2, epsilon, step, average;
};

template <class Number>
UpdateFactors<Number> update_factors(const runtime::DeviceUpdate& update) {
  using Rule = runtime::DeviceUpdate::Rule;
  const auto number = [](double value) { return static_cast<Number>(value); };
  UpdateFactors<Number> of{};
  of.rule = update.rule;
  of.nesterov = update.nesterov;
  of.scale = number(update.gradient_scale);
  of.decay = number(update.weight_decay);
  of.keep = number(1 - update.rate * update.weight_decay);
  of.momentum = number(update.momentum);
  of.beta1 = number(update.beta1);
  of.beta2 = number(update.beta2);
  of.rest1 = number(1 - update.beta1);
  of.rest2 = number(1 - update.beta2);
  of.epsilon = number(update.epsilon);
  of.step = number(-update.rate);
  of.average = number(update.updates == 0 ? 1 : 1 - update.average);
  if (update.rule == Rule::kAdam || update.rule == Rule::kAdamW) {
    const auto steps = static_cast<double>(update.updates + 1);
    of.root2 = number(std::sqrt(1 - std::pow(update.beta2, steps)));
    of.step = number(-update.rate / (1 - std::pow(update.beta1, steps)));
  }
  return of;
}

/// `from` + `weight` * (`to` - `from`). `to` itself if the weight is 1, as of the average after the first step.
template <class Number>
RANNC_HOST_DEVICE Number lerp(Number from, Number to, Number weight) {
  if (weight == 1) return to;
  const bool near = std::abs(weight) < Number(0.5);
  return std::fma(near ? weight : weight - Number(1), to - from, near ? from : to);
}

template <class Number>
RANNC_HOST_DEVICE Number update_by_sgd(const UpdateFactors<Number>& of, Number parameter, Number gradient,
                                       Number* state) {
  if (of.decay != 0) gradient += parameter * of.decay;
  if (of.momentum != 0) {
    *state = *state * of.momentum + gradient;
    gradient = of.nesterov ? gradient + *state * of.momentum : *state;
  }
  return parameter + gradient * of.step;
}

/// `states`: the averages of gradients and of their squares; with `amsgrad` also the largest of the latter.
template <class Number>
RANNC_HOST_DEVICE Number update_by_adam(const UpdateFactors<Number>& of, Number parameter, Number gradient,
                                        Number* states, bool amsgrad) {
  if (of.rule == runtime::DeviceUpdate::Rule::kAdamW) {
    parameter *= of.keep;
  } else if (of.decay != 0) {
    gradient += parameter * of.decay;
  }
  states[0] = lerp(states[0], gradient, of.rest1);
  states[1] = states[1] * of.beta2 + of.rest2 * gradient * gradient;
  Number squares = states[1];
  if (amsgrad) {
    if (squares > states[2] || squares != squares) states[2] = squares;
    squares = states[2];
  }
  return parameter + of.step * states[0] / (std::sqrt(squares) / of.root2 + of.epsilon);
}

template <class Number>
RANNC_HOST_DEVICE Number update_by_lion(const UpdateFactors<Number>& of, Number parameter, Number gradient,
                                        Number* state) {
  const Number direction = *state * of.beta1 + gradient * of.rest1;
  const Number sign = direction > 0 ? Number(1) : direction < 0 ? Number(-1) : Number(0);
  *state = *state * of.beta2 + gradient * of.rest2;
  return parameter * of.keep + sign * of.step;
}

/// Returns the updated parameter and updates its states.
template <class Number>
RANNC_HOST_DEVICE Number update_element(const UpdateFactors<Number>& of, Number parameter, Number gradient,
                                        Number* states, bool amsgrad) {
  using Rule = runtime::DeviceUpdate::Rule;
  gradient *= of.scale;
  if (of.rule == Rule::kSgd) return update_by_sgd(of, parameter, gradient, states);
  if (of.rule == Rule::kLion) return update_by_lion(of, parameter, gradient, states);
  return update_by_adam(of, parameter, gradient, states, amsgrad);
}

}  // namespace rannc::cuda
