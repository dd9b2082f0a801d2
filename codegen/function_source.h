/// Writes the functions of a stage as TorchScript methods.
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace rannc::codegen {

/// Returns a method for each function of the stage that has tasks: `P_load`, `P_step`, `F`, `R`, `I`, `W`, `B`, `E`
/// (`ir/plan/functions.h`). Variables are numbered by the values of the stage's joint graph. Arguments are the
/// function's, then the weights and results of P that it reads, then sizes, and `training` if a task depends on it.
/// Results are the function's results, what it keeps, and the values to be added to sums. Kernels are those of a CPU,
/// also in plans for GPUs, whose engine lowers the functions itself. TorchScript cannot pass a tape: `taped` tasks give
/// an empty one, and `vjp` tasks repeat the forward pass, whose operands are then further arguments. Errors: as
/// `torchscript_source`.
Result<std::string> function_source(const ir::Plan& plan, StageId stage);

}  // namespace rannc::codegen
