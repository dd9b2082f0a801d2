/// Facts about a compiled stage for programs that do not run it.
#pragma once

#include <map>
#include <string>

#include "ir/base/diagnostic.h"

namespace rannc::runtime {

struct CompiledStageFacts {
  std::map<std::string, std::string> fingerprints;  ///< of its functions, by name
  std::string instruction_set;                      ///< of its loops on this machine; empty if it has none
};

/// Loads the shared library of a stage, which stays loaded. Errors: it cannot be loaded, or it was compiled for another
/// interface or another LibTorch. [B10]
Result<CompiledStageFacts> compiled_stage_facts(const std::string& path);

}  // namespace rannc::runtime
