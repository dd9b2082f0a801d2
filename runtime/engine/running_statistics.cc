// Converts between sums and mean and variance.
#include "runtime/engine/internal/running_statistics.h"

#include <c10/core/GradMode.h>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

void RunningStatistics::add(const at::Tensor& mean, const at::Tensor& variance, int64_t count) {
  const c10::NoGradGuard no_grad;
  const auto n = static_cast<double>(count);
  const at::Tensor m = mean.detach().to(at::kDouble);
  at::Tensor squares = m * m * n;
  if (count > 1) squares = squares + variance.detach().to(at::kDouble) * (n - 1);
  const at::Tensor call = at::cat({at::full({1}, n, m.options()), m * n, squares});
  sums_ = sums_.defined() ? sums_ + call : call;
}

at::Tensor RunningStatistics::sums(const at::Tensor& mean) const {
  return sums_.defined() ? sums_ : at::zeros({1 + 2 * mean.numel()}, mean.options().dtype(at::kDouble));
}

namespace {

/// Replaces `running` by its mixture with `value` where `holds`, without waiting for the device.
void mix(const at::Tensor& running, const at::Tensor& value, double momentum, const at::Tensor& holds) {
  const at::Tensor mixed = (running * (1 - momentum)).add_(value.to(running.scalar_type()), momentum);
  running.copy_(at::where(holds, mixed, running));
}

}  // namespace

void RunningStatistics::commit(at::Tensor mean, at::Tensor variance, double momentum) const {
  const c10::NoGradGuard no_grad;
  if (!sums_.defined()) return;
  const at::Tensor count = sums_.narrow(0, 0, 1);
  const int64_t channels = mean.numel();
  const at::Tensor m = sums_.narrow(0, 1, channels) / count;
  mix(mean, m, momentum, count.ge(1));
  const at::Tensor v = (sums_.narrow(0, 1 + channels, channels) - m * m * count).clamp_min(0) / (count - 1);
  mix(variance, v, momentum, count.ge(2));
}

void StageStatistics::begin_step() {
  for (RunningStatistics& each : running_) each.begin_step();
}

Result<void> StageStatistics::add(std::span<const at::Tensor> moments, const ir::Bindings& sizes) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto count = entries_[i].count.evaluate(sizes);
    if (!count) return error("`" + entries_[i].count.str() + "` has no value in this step");
    running_[i].add(moments[2 * i], moments[2 * i + 1], *count);
  }
  return {};
}

std::vector<at::Tensor*> StageStatistics::places() {
  std::vector<at::Tensor*> found;
  for (RunningStatistics& each : running_) found.push_back(&each.place());
  return found;
}

Values StageStatistics::sums() const {
  Values sums;
  for (size_t i = 0; i < entries_.size(); ++i) {
    sums.push_back(to_value(running_[i].sums(to_tensor(buffers_[entries_[i].mean]))));
  }
  return sums;
}

void StageStatistics::set_sums(const Values& sums) {
  for (size_t i = 0; i < sums.size(); ++i) running_[i].set_sums(to_tensor(sums[i]));
}

void StageStatistics::commit() const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Statistics& entry = entries_[i];
    running_[i].commit(to_tensor(buffers_[entry.mean]), to_tensor(buffers_[entry.variance]), entry.momentum);
  }
}

}  // namespace rannc::runtime
