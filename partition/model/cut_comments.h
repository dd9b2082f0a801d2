/// Writes into a plan's text why each cut is where it is.
#pragma once

#include <string>

#include "partition/model/plan_model.h"

namespace rannc::partition {

/// Returns the text of `planned.plan` with a comment before each stage but the first: the values that cross, and what
/// moving the cut by a block would change (`cut_reasons`). Parsers drop comments, so the plan stays the same.
std::string with_cut_reasons(const std::string& text, const PlannedModel& planned);

}  // namespace rannc::partition
