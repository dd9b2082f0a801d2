#include "runtime/train/internal/report_nonfinite.h"

#include "ir/gradient/gradient_reach.h"
#include "runtime/flat/nonfinite.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

/// Gradients under the names of their parameters.
CheckpointTensors gradients_on(TrainedDevice& device, const ir::Plan& plan) {
  const std::vector<bool> reached = ir::reached_by_gradient(plan.graph);
  CheckpointTensors found;
  for (const auto& program : device.programs) {
    if (!program) continue;
    const std::vector<Weight>& parameters = program->signature().parameters;
    for (uint32_t i = 0; i < parameters.size(); ++i) {
      if (reached[parameters[i].value.index()])
        found.emplace("gradient/" + parameters[i].name, program->gradients({&i, 1})[0]);
    }
  }
  return found;
}

}  // namespace

void report_nonfinite(TrainedDevice& device, const ir::Plan& plan, uint64_t step, NonfiniteObserver& observer) {
  for (const CheckpointTensors& tensors : {gradients_on(device, plan), checkpoint_tensors(device)}) {
    for (const auto& [name, value] : tensors) {
      const at::Tensor& tensor = to_tensor(value);
      const NonfiniteCounts counts = count_nonfinite(tensor);
      if (!counts.any()) continue;
      NonfiniteValue found{.phase = NonfiniteValue::Phase::kUpdate, .step = step, .name = name};
      found.shape = tensor.sizes().vec();
      found.elements = counts.elements, found.nan = counts.nan, found.infinite = counts.infinite;
      observer.found(found);
    }
  }
}

}  // namespace rannc::runtime
