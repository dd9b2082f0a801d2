/// Determines which stage of which bundle a program runs.
#pragma once

#include <string>

#include "ir/base/diagnostic.h"
#include "ir/base/ids.h"

namespace rannc::tools {

struct OwnStage {
  std::string bundle;  ///< the folder that contains the program
  StageId stage;
};

/// Returns the stage whose executable has this path (`runtime::executable_file`).
Result<OwnStage> own_stage(const std::string& program);

}  // namespace rannc::tools
