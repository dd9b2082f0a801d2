/// Describes a stage of a bundle in JSON and text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/bundle/bundle.h"

namespace rannc::tools {

/// Returns devices, tasks, arguments and results with types and bytes, weights, form, and files with digests. Bytes of
/// arguments and results are those of the largest micro-batch. Of form `native`: how the stage was compiled, and the
/// instruction set of its loops on this machine, or why it cannot be loaded. `bundle` hosts the stage.
nlohmann::ordered_json stage_json(const runtime::Bundle& bundle, StageId stage);

/// Returns the same for people.
std::string stage_text(const nlohmann::ordered_json& stage);

}  // namespace rannc::tools
