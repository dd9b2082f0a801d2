#include "runtime/optimizer.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

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

namespace {

// A parameter with what an update reads and writes beside it.
struct Trained {
  at::Tensor parameter, gradient;
  std::vector<at::Tensor> states;
};

// What one call of LibTorch's fused kernels changes. A kernel treats its tensors one by one, so that the numbers of a
// parameter do not depend on what else is in the group.
struct Group {
  explicit Group(size_t states) : states(states) {}
  void add(const Trained& trained) {
    parameters.push_back(trained.parameter);
    gradients.push_back(trained.gradient);
    for (size_t s = 0; s < states.size(); ++s) states[s].push_back(trained.states[s]);
  }

  std::vector<at::Tensor> parameters, gradients;
  std::vector<std::vector<at::Tensor>> states;  // by state
};

// Elements of a gradient that are scaled, widened or squared at a time: few enough to stay in the cache, and a multiple
// of any vector's length, so that slices give the numbers of the whole.
constexpr int64_t kSlice = int64_t{1} << 16;

at::Tensor piece(const at::Tensor& tensor, int64_t first) {
  const at::Tensor flat = tensor.view(-1);
  return flat.narrow(0, first, std::min(kSlice, flat.numel() - first));
}

}  // namespace

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

  void update(uint64_t step, double gradient_scale) {
    Group whole(states.size());
    for (const Trained& each : everything()) {
      if (gradient_scale == 1 && each.gradient.scalar_type() == each.parameter.scalar_type()) {
        whole.add(each);
      } else {
        update_in_slices(each, step, gradient_scale);
      }
    }
    if (!whole.parameters.empty()) apply(whole, step);
  }

  OptimizerOptions options;
  Program& program;
  std::vector<std::string> names;
  std::vector<Values> states;  // [state][parameter]

 private:
  // Other members of a collective may hold the same gradients: they are scaled in a copy. What is narrower than the sum
  // of its gradients is updated in the sum's type and rounded once.
  void update_in_slices(const Trained& all, uint64_t step, double gradient_scale) const {
    for (int64_t first = 0; first < all.parameter.numel(); first += kSlice) {
      const auto slice = [&](const at::Tensor& tensor) { return piece(tensor, first).to(all.gradient.scalar_type()); };
      const auto keep = [&](const at::Tensor& tensor, const at::Tensor& updated) {
        const at::Tensor place = piece(tensor, first);
        if (place.data_ptr() != updated.data_ptr()) place.copy_(updated);
      };
      Trained part{slice(all.parameter), piece(all.gradient, first) * gradient_scale, {}};
      for (const at::Tensor& state : all.states) part.states.push_back(slice(state));
      Group group(states.size());
      group.add(part);
      apply(group, step);
      keep(all.parameter, part.parameter);
      for (size_t s = 0; s < states.size(); ++s) keep(all.states[s], part.states[s]);
    }
  }

  // Kernels walk memory as it lies: all tensors of a parameter are contiguous.
  std::vector<Trained> everything() const {
    std::vector<uint32_t> indices;
    for (uint32_t i = 0; i < program.parameters().size(); ++i) {
      const at::Tensor& parameter = to_tensor(program.parameters()[i]);
      if (parameter.is_floating_point() && parameter.numel() > 0) indices.push_back(i);
    }
    const Values gradients = program.gradients(indices);
    std::vector<Trained> found;
    for (size_t k = 0; k < indices.size(); ++k) {
      Trained& each = found.emplace_back();
      each.parameter = to_tensor(program.parameters()[indices[k]]);
      RANNC_CHECK(each.parameter.is_contiguous()) << "weights are read into contiguous tensors";
      each.gradient = to_tensor(gradients[k]).contiguous();
      for (const Values& state : states) each.states.push_back(to_tensor(state[indices[k]]));
    }
    return found;
  }

  void apply(const Group& group, uint64_t step) const {
    const double rate = options.learning_rate_at(step);
    if (options.kind == OptimizerKind::kSgd) {
      // The state begins as zeros, so that the first step is like the others.
      at::_fused_sgd_(group.parameters, group.gradients,
                      group.states.empty() ? std::vector<at::Tensor>{} : group.states[0], options.weight_decay,
                      options.momentum, rate, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                      /*is_first_step=*/false);
      return;
    }
    const std::vector<at::Tensor> steps(group.parameters.size(), at::scalar_tensor(static_cast<double>(step + 1)));
    const auto kernel =
        options.kind == OptimizerKind::kAdam ? &at::_ops::_fused_adam_::call : &at::_ops::_fused_adamw_::call;
    kernel(group.parameters, group.gradients, group.states[0], group.states[1], /*max_exp_avg_sqs=*/{}, steps, rate,
           options.beta1, options.beta2, options.weight_decay, options.epsilon, /*amsgrad=*/false, /*maximize=*/false,
           /*grad_scale=*/{}, /*found_inf=*/{});
  }
};

StageOptimizer::StageOptimizer(const OptimizerOptions& options, Program& program)
    : impl_(std::make_unique<Impl>(options, program)) {}
StageOptimizer::~StageOptimizer() = default;

Result<void> StageOptimizer::update(uint64_t step, double gradient_scale) {
  try {
    const c10::NoGradGuard no_grad;
    impl_->update(step, gradient_scale);
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
  for (const Value& value : program.gradients(parameters)) {
    const at::Tensor gradient = to_tensor(value).contiguous();
    for (int64_t first = 0; first < gradient.numel(); first += kSlice) {
      const at::Tensor part = piece(gradient, first).to(at::kDouble);
      sum += (part * part).sum().item<double>();
    }
  }
  return sum;
}

double clip_scale(double norm, double limit) { return std::min(1.0, limit / (norm + 1e-6)); }

}  // namespace rannc::runtime
