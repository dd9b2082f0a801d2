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
/// The warnings follow, under the file's name, and the conditions as notes. No fact is repeated.
std::string model_report(const PreparedModel& model, const std::string& file, Detail detail);

/// Returns only the lines of `not done`, such as why mini-batches cannot be divided.
std::vector<std::string> not_done(const PreparedModel& model, Detail detail);

/// The assumptions of a graph in the words of a note: `requires min(40, s) = s (node '/Add')`. Adds of which number the
/// sizes of a symbol are multiples, if its conditions hold for exactly these.
std::vector<std::string> conditions(const ir::Graph& graph);

}  // namespace rannc::tools
