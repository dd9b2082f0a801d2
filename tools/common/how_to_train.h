/// What to say to somebody who has a bundle without a loss.
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace rannc::tools {

/// How to ask rannc-compile for training, with an output of this very model.
std::string how_to_train(const ir::Plan& plan);

}  // namespace rannc::tools
