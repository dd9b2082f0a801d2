/// Puts together what the devices of this process made of a mini-batch's outputs.
#pragma once

#include <vector>

#include "runtime/train/trainer.h"

namespace rannc::runtime {

/// Fills `outputs` and `output_samples`, samples in order.
void gather_outputs(const ir::Plan& plan, const std::vector<StepOutcome>& outcomes, const ir::Bindings& symbols,
                    StepResult& result);

}  // namespace rannc::runtime
