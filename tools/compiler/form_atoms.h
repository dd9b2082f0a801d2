/// Computes the atoms of a model whose graph has changed after the passes.
#pragma once

#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Replaces `model.atoms` by those of its graph. An error is a defect of rannc.
Result<void> form_atoms(PreparedModel& model);

}  // namespace rannc::tools
