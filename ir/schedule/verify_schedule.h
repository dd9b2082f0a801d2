/// Verifier of lowered schedules: they run to their end and compute the gradient of their mini-batch.
#pragma once

#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/schedule.h"

namespace rannc::ir {

/// Violations of the rules S1…S13 (listed in the source and in `ir/rules.md`), most specific first, at most `limit`.
/// If there is none, then for every timing and under blocking sends, receives and collectives: each device reaches the
/// end of its row, every value is available when it is read, each gradient is counted once, and memory suffices.
/// The shape must come from a verified plan. O(n log n) in the number of actions.
std::vector<Diagnostic> verify_schedule(const PipelineShape& shape, const Schedule& schedule, size_t limit = 20);
/// The same if replicas of the stages in `joint` (by stage) also wait for each other in each of their computations.
std::vector<Diagnostic> verify_schedule(const PipelineShape& shape, const Schedule& schedule,
                                        const std::vector<bool>& joint, size_t limit = 20);

/// The first violation as an error.
Result<void> check_schedule(const PipelineShape& shape, const Schedule& schedule);

}  // namespace rannc::ir
