/// Names actions of a schedule for people.
#pragma once

#include <string_view>

#include "ir/schedule/schedule.h"

namespace rannc::runtime {

/// `forward`, `receive of a gradient` …
std::string_view action_words(ir::ActionKind kind);
/// Whether `Action::micro_batch` names a micro-batch.
bool has_micro_batch(ir::ActionKind kind);

}  // namespace rannc::runtime
