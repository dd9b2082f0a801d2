/// Running statistics of batch normalizations, put together over the calls of a step.
#pragma once

#include <ATen/ATen.h>

#include "runtime/execute/program.h"

namespace rannc::runtime {

/// Sums in double precision: [count, sums of x per channel, sums of x² per channel]. They add up over micro-batches and
/// replicas of any size, so what is committed is that of the mini-batch.
class RunningStatistics {
 public:
  void begin_step() { sums_ = at::Tensor(); }
  /// Adds a call over `count` elements per channel with this mean and unbiased variance (undefined for one element).
  void add(const at::Tensor& mean, const at::Tensor& variance, int64_t count);
  /// The sums; zeros for `channels` where there was no call.
  at::Tensor sums(int64_t channels) const;
  void set_sums(at::Tensor sums) { sums_ = std::move(sums); }
  /// running = (1 - momentum) * running + momentum * of the mini-batch; the variance unbiased, n / (n - 1).
  void commit(at::Tensor mean, at::Tensor variance, double momentum) const;

 private:
  at::Tensor sums_;
};

}  // namespace rannc::runtime
