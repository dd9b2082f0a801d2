#include "runtime/train/internal/step_losses.h"

#include <ATen/ops/zeros.h>

namespace rannc::runtime {

Result<std::vector<double>> denominators(const ir::Plan& plan, const Pipeline& pipeline, const DeviceSet& devices,
                                         const EvaluationBatch& bound) {
  std::vector<double> found(pipeline.losses.size(), 0);
  for (size_t t = 0; t < found.size() && bound.labelled; ++t) {
    if (!devices.has_stage(pipeline.losses[t].stage)) continue;
    RANNC_ASSIGN(found[t], loss_denominator(plan, plan.graph.losses()[t], bound.batch, bound.samples));
  }
  return found;
}

Result<std::vector<LossSum>> sum_losses(const ir::Plan& plan, const Pipeline& pipeline, DeviceSet& devices,
                                        const std::vector<StepOutcome>& outcomes,
                                        const std::vector<double>& denominators, bool labelled, uint64_t step) {
  const size_t terms = pipeline.losses.size();
  at::Tensor sums = at::zeros({static_cast<int64_t>(2 * terms + 1)}, at::kDouble);
  auto slots = sums.accessor<double, 1>();
  for (size_t t = 0; t < terms; ++t) {
    const auto slot = static_cast<int64_t>(2 * t);
    for (const StepOutcome& outcome : outcomes) {
      double own = 0;
      for (const OutputPart& part : outcome.numerators[t]) own += part.part->item();
      slots[slot] += own;
    }
    const StageId stage = pipeline.losses[t].stage;
    if (devices.contains(plan.stages[stage.index()].devices.front())) slots[slot + 1] = denominators[t];
  }
  slots[static_cast<int64_t>(2 * terms)] = labelled ? 0 : 1;
  RANNC_ASSIGN(const at::Tensor all, devices.sum_over_processes(sums, step));
  const auto total = all.accessor<double, 1>();
  std::vector<LossSum> losses;
  if (total[static_cast<int64_t>(2 * terms)] > 0) return losses;
  for (size_t t = 0; t < terms; ++t) {
    losses.push_back({total[static_cast<int64_t>(2 * t)], total[static_cast<int64_t>(2 * t + 1)]});
  }
  return losses;
}

}  // namespace rannc::runtime
