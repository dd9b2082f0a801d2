/// Formats the report about a model that precedes its plan.
#pragma once

#include <string>

#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Level of detail of a report.
enum class Detail {
  kBrief,  ///< merges equal remarks about several names, with their number
  kAll,    ///< one line per remark, with its location
};

/// Returns a few lines: `read`, the contents of the file; `changed`, the changes by importer and passes; `trains`, the
/// samples over which batches are normalized, if any are; `not done`, what could not be done or may not be intended.
/// The warnings follow, under the file's name. No fact is repeated.
std::string model_report(const PreparedModel& model, const std::string& file, Detail detail);

/// Returns only the lines of `not done`, such as why mini-batches cannot be divided.
std::vector<std::string> not_done(const PreparedModel& model, Detail detail);

}  // namespace rannc::tools
