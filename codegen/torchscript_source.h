/// Writes the program of one stage as TorchScript source.
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace rannc::codegen {

/// Returns `def forward(self, …) -> Tuple[Tensor, …]:` with the arguments and results of `runtime::signature`. Tasks
/// follow in the plan's order, each as one or more statements under a comment with the task's location in the model.
/// Errors: operators that cannot be lowered (all of them, with their locations), or symbols that are reserved names.
Result<std::string> torchscript_source(const ir::Plan& plan, StageId stage);

}  // namespace rannc::codegen
