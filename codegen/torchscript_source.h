/// Writes the program of one stage as TorchScript source.
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace rannc::codegen {

/// `def forward(self, …) -> Tuple[Tensor, …]:` with arguments and results as `runtime::signature` lists them; one
/// statement or more per task, in the plan's order, each under a comment with the task's place in the model.
/// Errors: operators that cannot be lowered, all of them, with their places; symbols that are no names of TorchScript.
Result<std::string> torchscript_source(const ir::Plan& plan, StageId stage);

}  // namespace rannc::codegen
