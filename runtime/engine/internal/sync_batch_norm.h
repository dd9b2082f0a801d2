/// Batch normalization across the replicas of a stage.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "runtime/execute/program.h"

namespace rannc::runtime {

/// Computes the mean and variance of a micro-batch over all replicas and differentiates through them, with the numbers
/// of torch.nn.SyncBatchNorm. Each normalization makes one exchange per pass:
/// - forward: each replica's count, mean and variance, combined in double precision (Chan et al., 1979);
/// - backward: the two sums per channel that the gradient of x needs.
/// All replicas add in the same order, so that recomputed forward passes are bit-identical over any transport. With one
/// replica the result is bit-identical to LibTorch's batch normalization.
class SyncBatchNorm {
 public:
  /// Sets the replicas for the calls of this pass; null if there is only one.
  void begin_pass(ReplicaSums* replicas);
  /// Whether this pass is one of several replicas.
  bool joins() const { return replicas_ != nullptr; }
  /// Reason why an exchange of this pass failed, with more detail than the exception that ends the pass.
  const std::optional<Diagnostic>& failure() const { return failure_; }

  /// Statistics that normalize x, per channel in double precision. The variance is biased.
  struct Moments {
    at::Tensor mean, variance;
    double count = 0;  ///< elements of each
  };
  /// Returns the moments over all replicas, given this replica's own.
  Moments moments(size_t index, const Moments& own);
  /// Returns the sum over all replicas in double precision.
  at::Tensor sum(size_t index, const at::Tensor& own);

  /// A normalized tensor, this replica's mean and unbiased variance, which update the running statistics, and the
  /// moments over all replicas. All but `all` have the type of x.
  struct Normalised {
    at::Tensor y, mean, variance;
    Moments all;
  };
  /// Normalizes x by the moments over all replicas.
  Normalised forward(size_t index, const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                     double epsilon);

  /// What the gradient of x reads. `dy`, `x` and `scale` are in the type of sums; `mean` and `rstd`, over all replicas,
  /// in double precision. `of_scale` and `of_bias` are this replica's gradients of scale and bias.
  struct Backward {
    at::Tensor dy, x, scale, mean, rstd, of_scale, of_bias;
  };
  /// Returns the gradient of x through moments over all replicas:
  ///   dx = scale * rstd * (dy - sum(dy) / n - (x - mean) * rstd * sum(dy * (x - mean) * rstd) / n)
  /// with sums and n over all replicas.
  at::Tensor input_gradient(size_t index, const Backward& of);

 private:
  at::Tensor exchanged(at::Tensor own);
  void expect_same_call(size_t index, const at::Tensor& of_replicas);

  ReplicaSums* replicas_ = nullptr;
  std::optional<Diagnostic> failure_;
};

}  // namespace rannc::runtime
