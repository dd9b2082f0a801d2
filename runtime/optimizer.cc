#include "runtime/optimizer.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {
constexpr std::array<std::pair<OptimizerKind, std::string_view>, 3> kNames{
    {{OptimizerKind::kSgd, "sgd"}, {OptimizerKind::kAdam, "adam"}, {OptimizerKind::kAdamW, "adamw"}}};
}  // namespace

std::string_view str(OptimizerKind kind) { return kNames[static_cast<size_t>(kind)].second; }

Result<OptimizerKind> parse_optimizer(std::string_view name) {
  for (const auto& [kind, text] : kNames) {
    if (text == name) return kind;
  }
  return error("optimizer '" + std::string(name) + "' is not one of sgd, adam, adamw");
}

double OptimizerOptions::learning_rate_at(uint64_t step) const {
  if (step < warmup_steps) return learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  if (decay_steps <= warmup_steps) return learning_rate;
  const double span = static_cast<double>(decay_steps - warmup_steps);
  const double done = std::min(1.0, static_cast<double>(step - warmup_steps) / span);
  return learning_rate * (decay_to + (1 - decay_to) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

uint32_t OptimizerOptions::states() const {
  if (kind == OptimizerKind::kSgd) return momentum != 0 ? 1 : 0;
  return 2;
}

class StageOptimizer::Impl {
 public:
  Impl(const OptimizerOptions& options, Program& program) : options(options), program(program) {
    if (options.kind != OptimizerKind::kSgd) {
      names = {"exp_avg", "exp_avg_sq"};
    } else if (options.momentum != 0) {
      names = {"momentum"};
    }
    for (size_t i = 0; i < names.size(); ++i) {
      Values zeros;
      for (const Value& parameter : program.parameters())
        zeros.push_back(to_value(at::zeros_like(to_tensor(parameter))));
      states.push_back(std::move(zeros));
    }
  }

  void sgd(at::Tensor parameter, at::Tensor gradient, size_t index, double rate) {
    if (options.weight_decay != 0) gradient = gradient.add(parameter, options.weight_decay);
    if (!states.empty()) {
      at::Tensor velocity = to_tensor(states[0][index]);
      gradient = velocity.mul_(options.momentum).add_(gradient);
    }
    parameter.add_(gradient, -rate);
  }

  void adam(at::Tensor parameter, at::Tensor gradient, size_t index, double rate, uint64_t step) {
    if (options.weight_decay != 0) {
      if (options.kind == OptimizerKind::kAdamW) {
        parameter.mul_(1 - rate * options.weight_decay);
      } else {
        gradient = gradient.add(parameter, options.weight_decay);
      }
    }
    at::Tensor first = to_tensor(states[0][index]), second = to_tensor(states[1][index]);
    first.lerp_(gradient, 1 - options.beta1);
    second.mul_(options.beta2).addcmul_(gradient, gradient, 1 - options.beta2);
    const double count = static_cast<double>(step + 1);
    const double correction1 = 1 - std::pow(options.beta1, count), correction2 = 1 - std::pow(options.beta2, count);
    const at::Tensor denominator = second.sqrt().div_(std::sqrt(correction2)).add_(options.epsilon);
    parameter.addcdiv_(first, denominator, -rate / correction1);
  }

  OptimizerOptions options;
  Program& program;
  std::vector<std::string> names;
  std::vector<Values> states;  // [state][parameter]
};

StageOptimizer::StageOptimizer(const OptimizerOptions& options, Program& program)
    : impl_(std::make_unique<Impl>(options, program)) {}
StageOptimizer::~StageOptimizer() = default;

Result<void> StageOptimizer::update(uint64_t step, double gradient_scale) {
  try {
    const c10::NoGradGuard no_grad;
    std::vector<uint32_t> all(impl_->program.parameters().size());
    std::iota(all.begin(), all.end(), 0U);
    const Values gradients = impl_->program.gradients(all);
    const double rate = impl_->options.learning_rate_at(step);
    for (size_t i = 0; i < all.size(); ++i) {
      at::Tensor gradient = to_tensor(gradients[i]);
      if (gradient_scale != 1) gradient = gradient.mul(gradient_scale);
      const at::Tensor parameter = to_tensor(impl_->program.parameters()[i]);
      if (impl_->options.kind == OptimizerKind::kSgd) {
        impl_->sgd(parameter, gradient, i, rate);
      } else {
        impl_->adam(parameter, gradient, i, rate, step);
      }
    }
  } catch (const std::exception& failure) {
    return error(std::string("optimizer step failed: ") + failure.what());
  }
  return {};
}

void StageOptimizer::set_learning_rate(double rate) { impl_->options.learning_rate = rate; }

const std::vector<std::string>& StageOptimizer::state_names() const { return impl_->names; }
const std::vector<Values>& StageOptimizer::states() const { return impl_->states; }

double squared_norm(Program& program, std::span<const uint32_t> parameters) {
  const c10::NoGradGuard no_grad;
  double sum = 0;
  for (const Value& gradient : program.gradients(parameters)) {
    sum += to_tensor(gradient).to(at::kDouble).square().sum().item<double>();
  }
  return sum;
}

}  // namespace rannc::runtime
