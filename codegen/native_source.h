/// Writes the functions of a stage as C++.
#pragma once

#include <map>
#include <string>

#include "ir/plan/plan.h"

namespace rannc::codegen {

struct NativeOptions {
  /// Compute tasks that have a loop rule (`ir/op/loop.h`) by loops of our own, several tasks in one where possible.
  /// Else all tasks are computed by LibTorch.
  bool loops = true;
};

/// Returns a source file with a function per function of the stage (`ir/plan/functions.h`) and a table of all of them,
/// which `rannc_stage` returns (`runtime/native/stage.h`). It calls LibTorch's operators by their typed interface. It
/// includes `codegen/native/calls.h` and one header per operator. Variables are numbered by the values of the stage's
/// joint graph. A comment per task names its place in the model. Kernels are those of a CPU. Errors: the plan has no
/// functions; an operator has no lowering, or no header in LibTorch.
Result<std::string> native_source(const ir::Plan& plan, StageId stage, NativeOptions options = {});

/// Returns the fingerprints of the functions by name, as in the table of `native_source`. Errors: the same.
Result<std::map<std::string, std::string>> native_fingerprints(const ir::Plan& plan, StageId stage,
                                                               NativeOptions options = {});

/// Returns the text of a stage's programs (`ir/program/program_text.h`), without the first line and empty programs: for
/// the device type of the plan, GPUs with flash attention, and with loops if `options` has them. Errors: the same.
Result<std::string> program_text(const ir::Plan& plan, StageId stage, NativeOptions options);

}  // namespace rannc::codegen
