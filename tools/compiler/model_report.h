/// What a user reads of a model before its plan.
#pragma once

#include <string>

#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// How much is said of a model.
enum class Detail {
  kBrief,  ///< remarks that say the same of several names are one, with their number
  kAll,    ///< each on a line of its own, with its place
};

/// A few lines: `read`, what the file holds; `changed`, what passes and importer made of it; `trains`, by
/// which samples it normalises batches, where it does; `not done`, what could not be done, or may be meant otherwise.
/// Then the warnings, under the file's name. No fact stands there twice.
std::string model_report(const PreparedModel& model, const std::string& file, Detail detail);

/// The lines of `not done` alone: why a file stays whole, and what else could not be done.
std::vector<std::string> not_done(const PreparedModel& model, Detail detail);

}  // namespace rannc::tools
