#include "runtime/engine/internal/parameter_sums.h"

#include <ATen/ops/zeros_like.h>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

void ParameterSums::begin_step(const std::vector<bool>& carried) {
  std::vector<bool> seeded(parameters_.size());
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const uint32_t parameter = leaves_[i].parameter;
    const bool kept = parameter < carried.size() && carried[parameter];
    if (kept && totals_[parameter] == nullptr) continue;  // the sum was not read: keep accumulating per leaf
    const bool first = kept && !seeded[parameter];
    sums_[i] = first ? to_tensor(totals_[parameter]).clone() : at::Tensor();  // may be shared
    seeded[parameter] = true;
  }
  totals_.assign(parameters_.size(), nullptr);
}

void ParameterSums::own() {
  for (at::Tensor& sum : sums_) {
    if (sum.defined()) sum = sum.clone();
  }
  for (Value& total : totals_) {
    if (total != nullptr) total = to_value(to_tensor(total).clone());
  }
}

Values ParameterSums::totals(std::span<const uint32_t> parameters) {
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
      if (leaves_[leaf].parameter == parameters[i]) sums_[leaf].reset();
    }
  }
}

at::Tensor ParameterSums::take_total(uint32_t parameter) {
  at::Tensor total;
  for (size_t leaf = 0; leaf < leaves_.size(); ++leaf) {
    if (leaves_[leaf].parameter != parameter || !sums_[leaf].defined()) continue;
    if (!total.defined()) {
      total = sums_[leaf];
    } else {
      total.add_(sums_[leaf]);
    }
  }
  if (total.defined()) return total;
  const at::Tensor& stored = to_tensor(parameters_[parameter]);
  return at::zeros_like(stored, sum_type(stored.scalar_type()));
}

}  // namespace rannc::runtime
