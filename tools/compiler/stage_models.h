/// Writes the stages of a plan as ONNX files.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Returns an error unless the model is an ONNX file.
Result<void> check_onnx(const std::string& model);

/// Report on stage files, in lines.
struct StageModelLines {
  std::vector<std::string> weights;  ///< what `--weights` replaced, with warnings
  std::vector<std::string> cut;      ///< values that the plan sends and the files do not, and what they send instead
};

/// Writes `stage<i>.onnx` into an existing folder for each stage of `plan`, with the weights of `options.weights` if it
/// names a file. `plan` must come from the model at `path`. See `frontend::cut_stages` and `copy_with_weights`.
Result<StageModelLines> write_stage_models(const std::string& path, const compiler::ReadOptions& options,
                                           const ir::Plan& plan, const std::string& folder);

/// Writes the stage files of the plan in the bundle at `bundle` to a new folder `to`. `replace` allows a folder that
/// contains nothing but stage files. Errors: the bundle is invalid or was compiled from another model.
Result<StageModelLines> write_stages_of_bundle(const std::string& path, const compiler::ReadOptions& options,
                                               const std::string& bundle, const std::string& to, bool replace);

}  // namespace rannc::tools
