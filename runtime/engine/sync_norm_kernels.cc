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

/// Results: y, this replica's mean and unbiased variance, the mean and inverse deviation over all replicas.
TensorList together(SyncBatchNorm& norms, size_t index, Operands operands, double epsilon) {
  SyncBatchNorm::Normalised made = norms.forward(index, operands[0], operands[1], operands[2], epsilon);
  const at::ScalarType wide = sum_type(operands[0].scalar_type());
  return {made.y, made.mean, made.variance, made.all.mean.to(wide), (made.all.variance + epsilon).rsqrt().to(wide)};
}

/// Operands: dy, x, scale, mean, rstd.
TensorList gradient_together(SyncBatchNorm& norms, size_t index, Operands operands) {
  const at::ScalarType type = operands[1].scalar_type(), wide = sum_type(type);
  const at::Tensor dy = operands[0].to(wide), x = operands[1].to(wide);
  // The scale has no influence on these gradients, but CUDA's kernel returns none without it if channels come last.
  const auto [none, of_scale, of_bias] =
      at::native_batch_norm_backward(dy, x, operands[2].to(wide), {}, {}, operands[3].to(wide), operands[4].to(wide),
                                     /*train=*/true, 0, {false, true, true});
  const at::Tensor mean = operands[3].to(at::kDouble), rstd = operands[4].to(at::kDouble);
  return {norms.input_gradient(index, {dy, x, operands[2].to(wide), mean, rstd, of_scale, of_bias}).to(type)};
}

}  // namespace

TaskKernel sync_norm_kernel(SyncBatchNorm& norms, const ir::Graph& graph, TaskId task, size_t index) {
  const double epsilon = ir::OpAttributes(graph.op(task), graph.attributes(task)).number("epsilon");
  return [&norms, &graph, task, index, epsilon](Operands operands, bool training) {
    if (!training || !norms.joins()) return alone(graph, task, operands, training);
    TensorList results = together(norms, index, operands, epsilon);
    results.resize(graph.outputs(task).size());
    return results;
  };
}

TaskKernel sync_norm_gradient_kernel(SyncBatchNorm& norms, const ir::Graph& graph, TaskId task, size_t index) {
  return [&norms, &graph, task, index](Operands operands, bool training) {
    return norms.joins() ? gradient_together(norms, index, operands) : alone(graph, task, operands, training);
  };
}

}  // namespace rannc::runtime
