/// Runs a stage's TorchScript program under LibTorch's autograd.
#pragma once

#include <memory>

#include "runtime/bundle/bundle.h"
#include "runtime/device/device.h"
#include "runtime/engine/load_options.h"
#include "runtime/execute/program.h"

namespace rannc::runtime {

/// Loads the program and weights of a stage. Errors: the program's arguments or results do not match the plan (rule
/// B8), or LibTorch cannot load the file.
Result<std::unique_ptr<Program>> load_autograd_program(const Bundle& bundle, StageId stage,
                                                       const LoadOptions& options = {}, Device& device = cpu());

}  // namespace rannc::runtime
