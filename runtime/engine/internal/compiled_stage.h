/// The shared library of a compiled stage.
#pragma once

#include <string>

#include "runtime/engine/compiled_stage_facts.h"
#include "runtime/flat/stage_programs.h"
#include "runtime/native/stage.h"

namespace rannc::runtime {

/// Opened once per process and never closed: its functions may be on the stack of a failing thread, and LibTorch keeps
/// pointers into it.
class CompiledStage {
 public:
  /// Loads the library and checks its interface and its LibTorch. [B10]
  static Result<CompiledStage> open(const std::string& path);
  /// Binds a function to each program of the stage. Errors: a program lacks a function, or its function was compiled
  /// from another one. [B10]
  Result<void> bind(StagePrograms& programs) const;
  CompiledStageFacts facts() const;
  /// Whether its programs have loops.
  bool has_loops() const { return stage_->loops; }

 private:
  CompiledStage(std::string path, const native::Stage& stage) : path_(std::move(path)), stage_(&stage) {}

  std::string path_;
  const native::Stage* stage_;
};

}  // namespace rannc::runtime
