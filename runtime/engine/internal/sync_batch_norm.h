/// Batch normalisation over the replicas of a stage.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/builtin_function.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <optional>
#include <vector>

#include "runtime/execute/program.h"

namespace rannc::runtime {

/// Takes mean and variance of a micro-batch over all replicas, and lets the gradient flow through them: numbers of
/// torch.nn.SyncBatchNorm. One exchange a pass and normalisation: forward, each replica's count, mean and variance, put
/// together in double precision (Chan et al., 1979); backward, the two sums per channel that the gradient of x needs.
/// All replicas add in one order, so that forward passes that are recomputed give the same bits, over any transport.
/// Alone it is LibTorch's own batch normalisation, bit for bit.
///
/// The program's file keeps plain calls, which any LibTorch runs. Those of one program run in one order on all
/// replicas, and so do their gradients: LibTorch's tape goes backwards through what a thread has recorded. Where a
/// branch that depends on data decides whether a gradient comes, replicas may differ; then the pass is an error.
class SyncBatchNorm {
 public:
  /// Takes over those calls of an inlined program that `synchronised` marks among all that normalise by their batch in
  /// training. An error where these are not as many, or a call also returns what x is normalised by. The object must
  /// outlive the program, and stay where it is.
  Result<void> take_over(torch::jit::Graph& graph, const std::vector<bool>& synchronised);

  /// With whom the calls until the next pass are; null: alone.
  void begin_pass(ReplicaSums* replicas);
  /// Why an exchange of this pass failed: the exception that ends the pass says less.
  const std::optional<Diagnostic>& failure() const { return failure_; }

  /// What x is normalised by, per channel and in double precision; the variance is biased.
  struct Moments {
    at::Tensor mean, variance;
    double count = 0;  ///< elements of each
  };
  /// Of all replicas, where this one has these.
  Moments moments(size_t index, const Moments& own);
  /// Sums over all replicas; in double precision.
  at::Tensor sum(size_t index, const at::Tensor& own);

 private:
  void run(size_t index, torch::jit::Stack& stack);
  at::Tensor exchanged(at::Tensor own);
  void expect_same_call(size_t index, const at::Tensor& of_replicas);

  std::vector<std::unique_ptr<torch::jit::BuiltinOpFunction>> functions_;
  ReplicaSums* replicas_ = nullptr;
  std::optional<Diagnostic> failure_;
};

}  // namespace rannc::runtime
