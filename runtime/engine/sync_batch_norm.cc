// Exchanges moments and gradient sums between replicas around LibTorch's own kernels.
#include "runtime/engine/internal/sync_batch_norm.h"

#include <fmt/format.h>

#include "runtime/internal/torch_value.h"

namespace rannc::runtime {
namespace {

/// Reshapes one number per channel so that it broadcasts with x.
at::Tensor beside(const at::Tensor& x, const at::Tensor& numbers) {
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[1] = -1;
  return numbers.to(x.scalar_type()).view(sizes);
}

SyncBatchNorm::Moments moments_of(const at::Tensor& x) {
  const auto [mean, variance] = at::batch_norm_update_stats(x, {}, {}, 0);
  return {mean.to(at::kDouble), variance.to(at::kDouble),
          static_cast<double>(x.numel()) / static_cast<double>(mean.numel())};
}

}  // namespace

void SyncBatchNorm::begin_pass(ReplicaSums* replicas) {
  replicas_ = replicas;
  failure_.reset();
}

at::Tensor SyncBatchNorm::exchanged(at::Tensor own) {
  Result<Value> sum = replicas_->sum(to_value(std::move(own)));
  if (sum.ok()) return to_tensor(*sum);
  failure_ = sum.diagnostic();
  throw std::runtime_error(failure_->message);
}

void SyncBatchNorm::expect_same_call(size_t index, const at::Tensor& of_replicas) {
  if (of_replicas.eq(static_cast<double>(index)).all().item<bool>()) return;
  failure_ =
      error(fmt::format("replicas of the stage run different batch normalizations, this one number {}: a "
                        "data-dependent branch must not determine whether a gradient flows through one",
                        index));
  throw std::runtime_error(failure_->message);
}

SyncBatchNorm::Moments SyncBatchNorm::moments(size_t index, const Moments& own) {
  const int64_t channels = own.mean.numel();
  const auto options = own.mean.options();
  // One row per replica. All others are zero, so each row's sum is exact in any order.
  at::Tensor rows = at::zeros({replicas_->replicas(), 2 + 2 * channels}, options);
  const at::Tensor head = at::tensor({static_cast<double>(index), own.count}, options);
  rows[replicas_->replica()].copy_(at::cat({head, own.mean, own.variance}));
  rows = exchanged(std::move(rows));
  expect_same_call(index, rows.select(1, 0));
  const at::Tensor counts = rows.narrow(1, 1, 1), means = rows.narrow(1, 2, channels),
                   variances = rows.narrow(1, 2 + channels, channels);
  const at::Tensor count = counts.sum();
  const at::Tensor mean = (counts * means).sum(0) / count;
  const at::Tensor off = means - mean;
  return {mean, (counts * (variances + off * off)).sum(0) / count, count.item<double>()};
}

SyncBatchNorm::Normalised SyncBatchNorm::forward(size_t index, const at::Tensor& given_x, const at::Tensor& scale,
                                                 const at::Tensor& bias, double epsilon) {
  const at::ScalarType type = given_x.scalar_type(), wide = sum_type(type);
  const at::Tensor x = given_x.to(wide);
  const Moments own = moments_of(x);
  Moments all = moments(index, own);
  const auto made = at::native_batch_norm(x, scale.to(wide), bias.to(wide), all.mean.to(wide), all.variance.to(wide),
                                          /*training=*/false, 0, epsilon);
  const at::Tensor unbiased = own.count > 1 ? own.variance * (own.count / (own.count - 1)) : own.variance;
  return {std::get<0>(made).to(type), own.mean.to(type), unbiased.to(type), std::move(all)};
}

at::Tensor SyncBatchNorm::input_gradient(size_t index, const Backward& of) {
  const int64_t channels = of.mean.numel();
  const at::Tensor own_count = at::full({1}, static_cast<double>(of.x.numel() / channels), of.mean.options());
  const at::Tensor sums = sum(index, at::cat({of.of_scale.to(at::kDouble), of.of_bias.to(at::kDouble), own_count}));
  const at::Tensor count = sums.narrow(0, 2 * channels, 1);
  const at::Tensor slope = of.rstd * sums.narrow(0, 0, channels) / -count;
  const at::Tensor shift = sums.narrow(0, channels, channels) / count;
  at::Tensor dx = of.x - beside(of.x, of.mean);
  return dx.mul_(beside(of.x, slope))
      .add_(of.dy)
      .sub_(beside(of.x, shift))
      .mul_(beside(of.x, of.scale.to(at::kDouble) * of.rstd));
}

at::Tensor SyncBatchNorm::sum(size_t index, const at::Tensor& own) {
  RANNC_CHECK(replicas_ != nullptr) << "a backward pass is over the replicas of its forward pass";
  // Every normalization has its own index. If the indices differ, at least one replica's differs from their mean.
  const at::Tensor sums = exchanged(at::cat({at::full({1}, static_cast<double>(index), own.options()), own}));
  expect_same_call(index, sums.narrow(0, 0, 1) / static_cast<double>(replicas_->replicas()));
  return sums.narrow(0, 1, own.numel());
}

}  // namespace rannc::runtime
