/// Accumulates the running statistics of batch normalization over the calls of a step.
#pragma once

#include <ATen/ATen.h>

#include "runtime/execute/program.h"

namespace rannc::runtime {

/// Sums in double precision: [count, sums of x per channel, sums of x² per channel]. They can be added over
/// micro-batches and replicas of any size, so the committed statistics are those of the mini-batch.
class RunningStatistics {
 public:
  void begin_step() { sums_ = at::Tensor(); }
  /// Adds a call over `count` elements per channel with this mean and unbiased variance (undefined for one element).
  void add(const at::Tensor& mean, const at::Tensor& variance, int64_t count);
  /// Returns the sums, or zeros for `channels` if there was no call.
  at::Tensor sums(int64_t channels) const;
  void set_sums(at::Tensor sums) { sums_ = std::move(sums); }
  /// Updates running = (1 - momentum) * running + momentum * mini-batch. The variance is unbiased, n / (n - 1).
  void commit(at::Tensor mean, at::Tensor variance, double momentum) const;

 private:
  at::Tensor sums_;
};

}  // namespace rannc::runtime
