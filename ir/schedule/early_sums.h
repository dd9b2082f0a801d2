/// Sums over replicas that begin before their place in the row.
#pragma once

#include <vector>

#include "ir/schedule/schedule.h"

namespace rannc::ir {

/// Returns the rows of a lowered schedule in the order in which devices begin their actions if the sums of stages with
/// `early` begin as soon as their gradients are final: an AR or SC directly behind the stage's last B or W on its
/// device, but not before any other AR, SC or RS that precedes it in the row.
Schedule rows_with_early_sums(const PipelineShape& shape, const Schedule& schedule, const std::vector<bool>& early);

/// By stage: whether its sums may begin early. The rows then still satisfy S6, so that one order of messages and sums
/// holds on all devices, and a device may run them one after another. `joint` is that of `verify_schedule`. Greedy, by
/// stage, where not all may.
std::vector<bool> early_sums(const PipelineShape& shape, const Schedule& schedule, const std::vector<bool>& joint);

}  // namespace rannc::ir
