/// Assembles a mini-batch's outputs from the parts on this process's devices.
#pragma once

#include <vector>

#include "runtime/train/trainer.h"

namespace rannc::runtime {

/// Fills `outputs` and `output_samples` of `result` in sample order.
void gather_outputs(const ir::Plan& plan, const std::vector<StepOutcome>& outcomes, const ir::Bindings& symbols,
                    StepResult& result);

}  // namespace rannc::runtime
