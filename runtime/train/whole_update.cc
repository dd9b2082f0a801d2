#include "runtime/train/internal/whole_update.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

namespace {

// Calls `change(part, rows)` for each part with its rows of `whole`.
void each_part(const WholeTensor& tensor, const at::Tensor& whole,
               const std::function<void(const at::Tensor& part, const at::Tensor& rows)>& change) {
  if (tensor.parts.size() == 1) return change(tensor.parts[0], whole);
  int64_t row = 0;
  for (const at::Tensor& part : tensor.parts) {
    change(part, whole.narrow(0, row, part.size(0)));
    row += part.size(0);
  }
}

// Newton-Schulz iteration towards the nearest orthogonal matrix, in bfloat16 (Jordan et al., 2024).
at::Tensor orthogonal(at::Tensor matrix) {
  constexpr double kEpsilon = 1e-7, kA = 3.4445, kB = -4.7750, kC = 2.0315;
  constexpr int kSteps = 5;
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = matrix.to(at::kBFloat16, /*non_blocking=*/false, /*copy=*/true);
  matrix.reset();
  if (tall) x = x.t();
  x.div_(x.norm().clamp_min_(kEpsilon));
  for (int step = 0; step < kSteps; ++step) {
    at::Tensor gram = at::matmul(x, x.t());
    gram = at::addmm(gram, gram, gram, /*beta=*/kB, /*alpha=*/kC);
    x = at::addmm(x, gram, x, /*beta=*/kA);
  }
  return tall ? x.t() : x;
}

// The average of the gradients, updated, or one step ahead of it. Takes the gradient.
at::Tensor momentum_of(const ir::UpdateRule& rule, WholeTensor& tensor) {
  at::Tensor gradient = std::move(tensor.gradient);
  const at::Tensor& kept = tensor.states[0];
  const bool narrow = kept.scalar_type() != gradient.scalar_type();
  const at::Tensor momentum = narrow ? kept.to(gradient.scalar_type()) : kept;
  momentum.lerp_(gradient, 1 - rule.momentum);
  if (narrow) kept.copy_(momentum);
  if (!rule.nesterov) return momentum;
  if (!tensor.may_overwrite) return at::lerp(gradient, momentum, rule.momentum);
  return gradient.lerp_(momentum, rule.momentum);
}

void muon(const ir::UpdateRule& rule, double rate, WholeTensor tensor) {
  const auto rows = static_cast<double>(tensor.gradient.size(0)),
             columns = static_cast<double>(tensor.gradient.size(1));
  const at::Tensor step = orthogonal(momentum_of(rule, tensor));
  const double scale =
      rule.match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
  each_part(tensor, step, [&](const at::Tensor& part, const at::Tensor& own) {
    part.mul_(1 - rate * rule.weight_decay);
    part.add_(own, -(rate * scale));
  });
}

double epsilon_of(at::ScalarType type) {
  if (type == at::kDouble) return std::numeric_limits<double>::epsilon();
  if (type == at::kBFloat16) return std::numeric_limits<c10::BFloat16>::epsilon();
  if (type == at::kHalf) return std::numeric_limits<c10::Half>::epsilon();
  return std::numeric_limits<float>::epsilon();
}

double norm_of(const at::Tensor& tensor) { return tensor.norm().item<double>(); }

// The norm of a tensor in parts.
double norm_of(const std::vector<at::Tensor>& parts) {
  if (parts.size() == 1) return norm_of(parts[0]);
  double squares = 0;
  for (const at::Tensor& part : parts) squares += norm_of(part) * norm_of(part);
  return std::sqrt(squares);
}

// An average of squares along an axis, and the state that it updates.
void average(const at::Tensor& kept, const at::Tensor& gradient, int64_t axis, double weight) {
  const at::Tensor mean =
      at::linalg_vector_norm(gradient, 2, at::IntArrayRef{axis}, /*keepdim=*/true).square_().div_(gradient.size(axis));
  if (kept.scalar_type() == mean.scalar_type()) {
    kept.lerp_(mean, weight);
  } else {
    kept.copy_(kept.to(mean.scalar_type()).lerp_(mean, weight));
  }
}

void adafactor(const ir::UpdateRule& rule, double rate, uint64_t updates, WholeTensor tensor) {
  constexpr double kBeta2Decay = -0.8, kLeastScale = 1e-3;
  at::Tensor gradient = std::move(tensor.gradient);
  const double least = epsilon_of(tensor.parts[0].scalar_type());
  const auto step = static_cast<double>(updates + 1), elements = static_cast<double>(gradient.numel());
  const double weight = std::pow(step, kBeta2Decay);
  const double relative = std::min(rate, 1 / std::sqrt(step));
  const double scale = std::max(kLeastScale, norm_of(tensor.parts) / std::sqrt(elements)) * relative;
  at::Tensor change;
  if (gradient.dim() > 1) {
    average(tensor.states[0], gradient, -1, weight);
    average(tensor.states[1], gradient, -2, weight);
    const at::Tensor rows = tensor.states[0].to(gradient.scalar_type());
    change = at::matmul(rows, tensor.states[1].to(gradient.scalar_type()));
    change.div_(rows.mean(-2, /*keepdim=*/true).clamp_min_(least));
  } else {
    change = tensor.states[0].to(gradient.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    change.lerp_(gradient * gradient, weight);
    tensor.states[0].copy_(change);
  }
  change.clamp_min_(least * least).rsqrt_().mul_(gradient);
  gradient.reset();
  const double excess = std::max(1.0, norm_of(change) / std::sqrt(elements));
  each_part(tensor, change, [&](const at::Tensor& part, const at::Tensor& own) {
    if (rule.weight_decay != 0) part.mul_(1 - rate * rule.weight_decay);
    part.add_(own, -scale / excess);
  });
}

}  // namespace

void update_whole(const ir::UpdateRule& rule, double rate, uint64_t updates, WholeTensor tensor) {
  if (rule.kind == ir::OptimizerKind::kMuon) return muon(rule, rate, std::move(tensor));
  RANNC_CHECK(rule.kind == ir::OptimizerKind::kAdafactor) << str(rule.kind) << " updates elements";
  adafactor(rule, rate, updates, std::move(tensor));
}

}  // namespace rannc::runtime
