/// Runs a stage's TorchScript program under LibTorch's autograd.
#pragma once

#include <memory>

#include "runtime/bundle/bundle.h"
#include "runtime/engine/operator_origin.h"
#include "runtime/execute/program.h"

namespace rannc::runtime {

/// Loads program and weights of a stage of an open bundle. Errors: rule B8 where the program does not take and return
/// what the plan says; whatever LibTorch says of a file it cannot load.
Result<std::unique_ptr<Program>> load_autograd_program(const Bundle& bundle, StageId stage,
                                                       Origins origins = Origins::kForgotten);

}  // namespace rannc::runtime
