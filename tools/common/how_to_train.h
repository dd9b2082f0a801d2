/// Advises users whose bundle has no loss.
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace rannc::tools {

/// Returns a sentence on how to compile for training, with an output of this model as the example.
std::string how_to_train(const ir::Plan& plan);

}  // namespace rannc::tools
