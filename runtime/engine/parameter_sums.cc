#include "runtime/engine/internal/parameter_sums.h"

#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

at::Tensor zero_sum(const at::Tensor& parameter) {
  return at::zeros_like(parameter.detach(), sum_type(parameter.scalar_type()));
}

}  // namespace

void ParameterSums::create() {
  for (const Leaf& leaf : signature_) {
    const at::Tensor& parameter = to_tensor(parameters_[leaf.parameter]);
    leaves_.push_back(parameter.detach().requires_grad_(at::isFloatingType(parameter.scalar_type())));
    if (leaves_.back().requires_grad()) leaves_.back().set_grad_dtype(sum_type(parameter.scalar_type()));
  }
}

void ParameterSums::accept_rows(size_t leaf) {
  leaves_[leaf].register_hook([&leaf = leaves_[leaf]](const at::Tensor& rows) {
    if (!leaf.grad().defined()) leaf.mutable_grad() = zero_sum(leaf);
    return rows.coalesce();
  });
}

void ParameterSums::begin_step(const std::vector<bool>& carried) {
  const c10::NoGradGuard no_grad;
  std::vector<bool> seeded(parameters_.size());
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const uint32_t parameter = signature_[i].parameter;
    const bool kept = parameter < carried.size() && carried[parameter];
    if (kept && totals_[parameter] == nullptr) continue;  // the sum was not read: keep accumulating per leaf
    const bool first = kept && !seeded[parameter];
    leaves_[i].mutable_grad() = first ? to_tensor(totals_[parameter]).clone() : at::Tensor();  // may be shared
    seeded[parameter] = true;
  }
  totals_.assign(parameters_.size(), nullptr);
}

void ParameterSums::separate() const {
  for (const at::Tensor& leaf : leaves_) {
    const at::Tensor& sum = leaf.grad();
    if (!sum.defined() || sum.layout() != at::kStrided || !sum.has_storage()) continue;
    if (sum.storage().use_count() > 1) leaf.mutable_grad() = sum.clone();
  }
}

void ParameterSums::own() {
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& leaf : leaves_) {
    if (leaf.grad().defined()) leaf.mutable_grad() = leaf.grad().clone();
  }
  for (Value& total : totals_) {
    if (total != nullptr) total = to_value(to_tensor(total).clone());
  }
}

Values ParameterSums::totals(std::span<const uint32_t> parameters) {
  const c10::NoGradGuard no_grad;
  Values values;
  for (const uint32_t index : parameters) {
    if (totals_[index] == nullptr) totals_[index] = to_value(take_total(index));
    values.push_back(totals_[index]);
  }
  return values;
}

void ParameterSums::set_totals(std::span<const uint32_t> parameters, Values totals) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    totals_[parameters[i]] = std::move(totals[i]);
    for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
      if (signature_[leaf].parameter == parameters[i]) leaves_[leaf].mutable_grad().reset();
    }
  }
}

at::Tensor ParameterSums::take_total(uint32_t parameter) {
  at::Tensor sum;
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    if (signature_[leaf].parameter != parameter || !leaves_[leaf].grad().defined()) continue;
    if (!sum.defined()) {
      sum = leaves_[leaf].grad();
    } else {
      sum.add_(leaves_[leaf].grad());
    }
  }
  return sum.defined() ? sum : zero_sum(to_tensor(parameters_[parameter]));
}

}  // namespace rannc::runtime
