/// Runs the functions of a stage, cut from its joint graph, below LibTorch's autograd.
#pragma once

#include <memory>

#include "runtime/bundle/bundle.h"
#include "runtime/device/device.h"
#include "runtime/engine/load_options.h"
#include "runtime/execute/program.h"

namespace rannc::runtime {

/// Builds the programs of a stage from `Plan::functions` and loads its weights. Errors: the plan has no functions, or
/// an operator has no lowering.
Result<std::unique_ptr<Program>> load_explicit_program(const Bundle& bundle, StageId stage,
                                                       const LoadOptions& options = {}, Device& device = cpu());

/// The same by the compiled functions of a bundle of form `native`, on the processor. [B10]
Result<std::unique_ptr<Program>> load_native_program(const Bundle& bundle, StageId stage,
                                                     const LoadOptions& options = {}, Device& device = cpu());

}  // namespace rannc::runtime
