/// Accumulates the running statistics of batch normalization over the calls of a step.
#pragma once

#include <ATen/ATen.h>

#include <span>
#include <vector>

#include "runtime/execute/program.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// Sums in double precision: [count, sums of x per channel, sums of x² per channel]. They can be added over
/// micro-batches and replicas of any size, so the committed statistics are those of the mini-batch.
class RunningStatistics {
 public:
  void begin_step() { sums_ = at::Tensor(); }
  /// Adds a call over `count` elements per channel with this mean and unbiased variance (undefined for one element).
  void add(const at::Tensor& mean, const at::Tensor& variance, int64_t count);
  /// Returns the sums, or zeros for the channels of `mean` if there was no call.
  at::Tensor sums(const at::Tensor& mean) const;
  void set_sums(at::Tensor sums) { sums_ = std::move(sums); }
  at::Tensor& place() { return sums_; }
  /// Updates running = (1 - momentum) * running + momentum * mini-batch. The variance is unbiased, n / (n - 1).
  void commit(at::Tensor mean, at::Tensor variance, double momentum) const;

 private:
  at::Tensor sums_;
};

/// The running statistics of a stage.
class StageStatistics {
 public:
  /// `signature` and `buffers`, the values of its buffers, must outlive the object.
  StageStatistics(const Signature& signature, const Values& buffers)
      : entries_(signature.statistics), buffers_(buffers), running_(entries_.size()) {}

  bool empty() const { return entries_.empty(); }
  void begin_step();
  /// Adds the means and variances of one call, alternating in the signature's order. `sizes` binds the symbols.
  Result<void> add(std::span<const at::Tensor> moments, const ir::Bindings& sizes);
  /// The sums, which `add` replaces.
  std::vector<at::Tensor*> places();
  /// As `Program::statistics`, `set_statistics` and `commit_buffers`.
  Values sums() const;
  void set_sums(const Values& sums);
  void commit() const;

 private:
  const std::vector<Statistics>& entries_;
  const Values& buffers_;
  std::vector<RunningStatistics> running_;
};

}  // namespace rannc::runtime
