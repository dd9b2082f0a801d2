// Converts between sums and mean and variance.
#include "runtime/engine/internal/running_statistics.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

using Tensors = std::vector<at::Tensor>;

/// Numbers of the host as a tensor of a device, without waiting for it.
at::Tensor numbers_on_device(const std::vector<at::Scalar>& numbers, const at::TensorOptions& options) {
  at::Tensor made = at::zeros({static_cast<int64_t>(numbers.size())}, options);
  at::_foreach_add_(made.split(1), numbers);
  return made;
}

}  // namespace

void StageStatistics::prepare() {
  if (empty()) return;
  Tensors entries;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const int64_t channels = to_tensor(buffers_[entries_[i].mean]).numel();
    entries.push_back(at::full({channels}, static_cast<int64_t>(i), at::kLong));
    channels_ += channels;
  }
  entry_of_channel_ = at::cat(entries).to(to_tensor(buffers_[entries_[0].mean]).device());
  for (const bool variance : {false, true}) {
    int64_t first = variance ? channels_ : 0;
    for (const Statistics& entry : entries_) {
      const at::Tensor& running = to_tensor(buffers_[variance ? entry.variance : entry.mean]);
      add_target({running, first}, entry.momentum);
      first += running.numel();
    }
  }
}

// A buffer of several entries is updated by one after the other.
void StageStatistics::add_target(const Target& target, double momentum) {
  const auto same = [&](const Target& other) { return other.running.is_same(target.running); };
  auto after = groups_.begin();
  for (auto group = groups_.begin(); group != groups_.end(); ++group) {
    if (std::any_of(group->targets.begin(), group->targets.end(), same)) after = group + 1;
  }
  const auto fits = [&](const Group& group) {
    return group.momentum == momentum && group.targets[0].running.scalar_type() == target.running.scalar_type();
  };
  auto place = std::find_if(after, groups_.end(), fits);
  if (place == groups_.end()) place = groups_.insert(place, {momentum, {}});
  place->targets.push_back(target);
}

Result<void> StageStatistics::add(std::span<const at::Tensor> moments, const ir::Bindings& sizes) {
  if (empty()) return {};
  const c10::NoGradGuard no_grad;
  std::vector<at::Scalar> counts;
  Tensors means, variances;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto count = entries_[i].count.evaluate(sizes);
    if (!count) return error("`" + entries_[i].count.str() + "` has no value in this step");
    counts.emplace_back(static_cast<double>(*count));
    means.push_back(moments[2 * i]);
    variances.push_back(*count > 1 ? moments[2 * i + 1] : at::zeros_like(moments[2 * i + 1]));
  }
  const at::Tensor mean = at::cat(means).to(at::kDouble), variance = at::cat(variances).to(at::kDouble);
  const at::Tensor by_entry = numbers_on_device(counts, mean.options());
  const at::Tensor n = by_entry.index_select(0, entry_of_channel_);
  const at::Tensor squares = (mean * mean).mul_(n).add_(variance * (n - 1));
  const at::Tensor call = at::cat({by_entry, mean * n, squares});
  sums_ = sums_.defined() ? sums_ + call : call;
  return {};
}

Values StageStatistics::sums() const {
  if (empty()) return {};
  const auto count = static_cast<int64_t>(entries_.size());
  const at::TensorOptions options = entry_of_channel_.options().dtype(at::kDouble);
  Values sums;
  sums.push_back(to_value(sums_.defined() ? sums_ : at::zeros({count + 2 * channels_}, options)));
  return sums;
}

void StageStatistics::set_sums(const Values& sums) {
  if (!sums.empty()) sums_ = to_tensor(sums.front());
}

void StageStatistics::commit(const at::Tensor& sums) const {
  const c10::NoGradGuard no_grad;
  const auto count = static_cast<int64_t>(entries_.size());
  const at::Tensor n = sums.narrow(0, 0, count).index_select(0, entry_of_channel_);
  const at::Tensor mean = sums.narrow(0, count, channels_) / n;
  const at::Tensor deviations = (sums.narrow(0, count + channels_, channels_) - (mean * mean).mul_(n)).clamp_min_(0);
  const at::Tensor values = at::cat({mean, deviations.div_(n - 1)}), holds = at::cat({n.ge(1), n.ge(2)});
  for (const Group& group : groups_) mix(group, values, holds);
}

// Buffer by buffer, kernels of a processor round the last channels of a tensor in another way than those before.
void StageStatistics::mix(const Group& group, const at::Tensor& values, const at::Tensor& holds) const {
  Tensors running, own_values, own_holds;
  std::vector<int64_t> sizes;
  for (const Target& target : group.targets) {
    sizes.push_back(target.running.numel());
    running.push_back(target.running);
    own_values.push_back(values.narrow(0, target.first, sizes.back()));
    own_holds.push_back(holds.narrow(0, target.first, sizes.back()));
  }
  const at::Tensor before = at::cat(running), value = at::cat(own_values).to(before.scalar_type());
  const at::Tensor mixed = before * (1 - group.momentum);
  at::_foreach_add_(mixed.split_with_sizes(sizes), value.split_with_sizes(sizes), group.momentum);
  at::_foreach_copy_(running, at::where(at::cat(own_holds), mixed, before).split_with_sizes(sizes));
}

}  // namespace rannc::runtime
