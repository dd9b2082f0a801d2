/// Runs a stage's TorchScript program under LibTorch's autograd.
#pragma once

#include <memory>

#include "runtime/bundle.h"
#include "runtime/program.h"

namespace rannc::runtime {

struct AutogradOptions {
  /// Keep only a stage's inputs from forward to backward; by default what the plan says of the stage.
  enum class Recompute : uint8_t { kAsPlanned, kNever, kAlways } recompute = Recompute::kAsPlanned;
};

/// Loads program and weights of a stage of an open bundle. Errors: rule B8 where the program does not take and return
/// what the plan says; whatever LibTorch says of a file it cannot load.
Result<std::unique_ptr<Program>> load_autograd_program(const Bundle& bundle, StageId stage,
                                                       const AutogradOptions& options = {});

}  // namespace rannc::runtime
