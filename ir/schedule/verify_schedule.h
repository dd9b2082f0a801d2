/// Proves that a lowered schedule runs to its end and computes the gradient of its mini-batch.
#pragma once

#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/schedule.h"

namespace rannc::ir {

/// Every breach of the rules S1…S12 (listed at the head of the source and in `ir/rules.md`), most specific first, at
/// most `limit`; empty means: for every timing and under blocking sends, receives and collectives, each device reaches
/// the end of its row, every value is there when it is read, each gradient is counted once and memory suffices.
/// The shape must come from a verified plan. O(n log n) in the number of actions.
std::vector<Diagnostic> verify_schedule(const PipelineShape& shape, const Schedule& schedule, size_t limit = 20);
/// The same where replicas of the stages of `joint` (by stage) also wait for each other in each of their computations.
std::vector<Diagnostic> verify_schedule(const PipelineShape& shape, const Schedule& schedule,
                                        const std::vector<bool>& joint, size_t limit = 20);

/// The first breach as an error.
Result<void> check_schedule(const PipelineShape& shape, const Schedule& schedule);

}  // namespace rannc::ir
