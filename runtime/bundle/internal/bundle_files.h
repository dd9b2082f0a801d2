/// Lists the files of a bundle.
#pragma once

#include <string>
#include <vector>

#include "runtime/bundle/bundle.h"

namespace rannc::runtime {

/// Returns the files that every bundle of the form has for a stage.
std::vector<std::string> stage_files(StageId stage, BundleForm form);
/// Whether a file of a stage is a source, a compiled stage or an executable, which compiling the stages again writes.
bool is_compiled(const std::string& name, BundleForm form);
/// Returns the files that a bundle has for each of its stages or for none.
std::vector<std::string> optional_stage_files(StageId stage);
/// Returns the files that a bundle may have for a stage, whatever it has for others: `model_file` and its tensors.
std::vector<std::string> model_files(StageId stage);

}  // namespace rannc::runtime
