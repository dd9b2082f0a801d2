/// Accumulates the running statistics of batch normalization over the calls of a step.
#pragma once

#include <ATen/ATen.h>

#include <span>
#include <vector>

#include "runtime/execute/program.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// The running statistics of a stage. Their sums over the calls of a step are one tensor in double precision: counts by
/// entry of the signature, then sums of x and sums of x² by channel of all entries. They can be added over
/// micro-batches and replicas of any size, so the committed statistics are those of the mini-batch. The number of
/// operators does not depend on the number of entries.
class StageStatistics {
 public:
  /// `signature` and `buffers`, the values of its buffers, must outlive the object.
  StageStatistics(const Signature& signature, const Values& buffers)
      : entries_(signature.statistics), buffers_(buffers) {}

  /// Call it once, when the buffers have their values.
  void prepare();
  bool empty() const { return entries_.empty(); }
  void begin_step() { sums_ = at::Tensor(); }
  /// Adds the means and unbiased variances of one call, alternating in the signature's order. `sizes` binds the
  /// symbols. The variance of one element may be any number.
  Result<void> add(std::span<const at::Tensor> moments, const ir::Bindings& sizes);
  /// The sums, which `add` replaces; undefined if there was no call.
  at::Tensor& place() { return sums_; }
  /// As `Program::statistics` and `set_statistics`: one value, zeros if there was no call, or none for a stage without
  /// statistics.
  Values sums() const;
  void set_sums(const Values& sums);
  /// Updates running = (1 - momentum) * running + momentum * mini-batch. The variance is unbiased, n / (n - 1). Does
  /// not wait for the device.
  void commit(const at::Tensor& sums) const;

 private:
  /// A running mean or variance.
  struct Target {
    at::Tensor running;
    int64_t first = 0;  ///< of its channels, in the means of all entries followed by their variances
  };
  /// Different buffers of one type and momentum.
  struct Group {
    double momentum = 0;
    std::vector<Target> targets;
  };

  void add_target(const Target& target, double momentum);
  void mix(const Group& group, const at::Tensor& values, const at::Tensor& holds) const;

  const std::vector<Statistics>& entries_;
  const Values& buffers_;
  int64_t channels_ = 0;         ///< of all entries
  at::Tensor entry_of_channel_;  ///< [channels]
  std::vector<Group> groups_;    ///< in the order in which they are updated
  at::Tensor sums_;
};

}  // namespace rannc::runtime
