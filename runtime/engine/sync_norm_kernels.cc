// Normalizes by moments over all replicas and differentiates through them.
#include "runtime/engine/internal/sync_norm_kernels.h"

#include "ir/op/op.h"
#include "runtime/aten/graph_run.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

using Operands = std::span<const at::Tensor>;
using TensorList = std::vector<at::Tensor>;

/// Runs the task as a single replica does.
TensorList alone(const ir::Graph& graph, TaskId task, Operands operands, bool training) {
  std::vector<std::optional<at::Tensor>> given;
  for (const at::Tensor& each : operands) given.push_back(each.defined() ? std::optional(each) : std::nullopt);
  return run_on(graph, task, {.training = training}, given).value();
}

at::Tensor over_axes(const at::Tensor& x, const at::Tensor& numbers) {
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[1] = -1;
  return numbers.to(x.scalar_type()).view(sizes);
}

struct SyncNorm {
  SyncBatchNorm& norms;
  size_t index;
  double epsilon;

  /// Results: y, this replica's mean and unbiased variance, the mean and inverse deviation over all replicas.
  TensorList forward(Operands operands) const {
    const at::ScalarType type = operands[0].scalar_type(), wide = sum_type(type);
    const at::Tensor x = operands[0].to(wide);
    const auto [mean, variance] = at::batch_norm_update_stats(x, {}, {}, 0);
    const SyncBatchNorm::Moments own{mean.to(at::kDouble), variance.to(at::kDouble),
                                     static_cast<double>(x.numel()) / static_cast<double>(mean.numel())};
    const SyncBatchNorm::Moments all = norms.moments(index, own);
    const at::Tensor y = std::get<0>(at::native_batch_norm(
        x, operands[1].to(wide), operands[2].to(wide), all.mean.to(wide), all.variance.to(wide), false, 0, epsilon));
    const at::Tensor unbiased = own.count > 1 ? own.variance * (own.count / (own.count - 1)) : own.variance;
    return {y.to(type), own.mean.to(type), unbiased.to(type), all.mean.to(wide),
            (all.variance + epsilon).rsqrt().to(wide)};
  }

  /// dx = scale * rstd * (dy - sum(dy) / n - (x - mean) * rstd * sum(dy * (x - mean) * rstd) / n), with sums over all
  /// replicas. Operands: dy, x, scale, mean, rstd.
  TensorList gradient(Operands operands) const {
    const at::ScalarType type = operands[1].scalar_type(), wide = sum_type(type);
    const at::Tensor dy = operands[0].to(wide), x = operands[1].to(wide), scale = operands[2].to(at::kDouble);
    const at::Tensor mean = operands[3].to(at::kDouble), rstd = operands[4].to(at::kDouble);
    const auto [none, of_scale, of_bias] = at::native_batch_norm_backward(
        dy, x, {}, {}, {}, operands[3].to(wide), operands[4].to(wide), /*train=*/true, 0, {false, true, true});
    const int64_t channels = mean.numel();
    const at::Tensor count = at::full({1}, static_cast<double>(x.numel() / channels), mean.options());
    const at::Tensor sums = norms.sum(index, at::cat({of_scale.to(at::kDouble), of_bias.to(at::kDouble), count}));
    const at::Tensor all = sums.narrow(0, 2 * channels, 1);
    const at::Tensor slope = rstd * sums.narrow(0, 0, channels) / -all;
    const at::Tensor shift = sums.narrow(0, channels, channels) / all;
    at::Tensor dx = x - over_axes(x, mean);
    dx.mul_(over_axes(x, slope)).add_(dy).sub_(over_axes(x, shift)).mul_(over_axes(x, scale * rstd));
    return {dx.to(type)};
  }
};

SyncNorm sync_norm(SyncBatchNorm& norms, const ir::Graph& graph, TaskId task, size_t index) {
  const ir::OpAttributes attributes(graph.op(task), graph.attributes(task));
  const bool has = graph.op(task).attribute("epsilon") != nullptr;
  return {norms, index, has ? attributes.number("epsilon") : 0};
}

}  // namespace

TaskKernel sync_norm_kernel(SyncBatchNorm& norms, const ir::Graph& graph, TaskId task, size_t index) {
  const SyncNorm norm = sync_norm(norms, graph, task, index);
  return [norm, &graph, task](Operands operands, bool training) {
    if (!training || !norm.norms.joins()) return alone(graph, task, operands, training);
    TensorList results = norm.forward(operands);
    results.resize(graph.outputs(task).size());
    return results;
  };
}

bool sums_over_replicas(const ir::Graph& graph, TaskId gradient_task) {
  static const ir::OpInfo& of_input = ir::core("batch_norm_grad_input");
  return &graph.op(gradient_task) == &of_input;
}

TaskKernel sync_norm_gradient_kernel(SyncBatchNorm& norms, const ir::Graph& graph, TaskId task, size_t index) {
  const SyncNorm norm = sync_norm(norms, graph, task, index);
  return [norm, &graph, task](Operands operands, bool training) {
    return norm.norms.joins() ? norm.gradient(operands) : alone(graph, task, operands, training);
  };
}

}  // namespace rannc::runtime
