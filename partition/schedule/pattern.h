/// Rows of a schedule for any number of micro-batches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/schedule.h"

namespace rannc::partition {

/// A computation of a pattern. Its micro-batch follows from its position (`rows_of`).
struct PatternAction {
  ir::ActionKind kind = ir::ActionKind::kForward;  ///< F, B, I, W or R
  StageId stage;
  bool operator==(const PatternAction&) const = default;
};

/// The row of all devices that hold the same stages.
struct PatternRow {
  std::vector<PatternAction> warm_up, period, drain;
  bool operator==(const PatternRow&) const = default;
};

/// A schedule as (warm-up, period, drain), the period being repeated as often as the micro-batches need. Rows do not
/// name devices: a device has the row of its stages.
///
/// In a row, the k-th F of a stage is that of micro-batch k. The k-th B or I is that of micro-batch k, and the k-th W
/// completes the k-th I. The k-th R is that of the k-th micro-batch whose B or I does not directly follow its F.
struct SchedulePattern {
  std::vector<PatternRow> rows;  ///< in the order of their first stages
  bool empty() const { return rows.empty(); }
  bool operator==(const SchedulePattern&) const = default;
};

/// Prints one line, such as `F0 F0 [F0 B0]* B0 B0; F1 [B1 F1]* B1`. Numbers are stages.
std::string to_string(const SchedulePattern& pattern);

/// Parses the output of `to_string`. A row also ends at a newline, and `#` begins a comment. All periods have the same
/// number of F of each stage, k, and as many B or I. A warm-up with its drain has as many F as B or I; the numbers of
/// different rows differ by multiples of k. `line`: number of the first line, for messages.
Result<SchedulePattern> parse_pattern(std::string_view text, const std::string& file = {}, uint32_t line = 1);

/// Whether a text of rows is a pattern rather than a table of `ir::parse_schedule`: only patterns have a `[`.
bool is_pattern(std::string_view text);

/// Number of micro-batches of the longest warm-up with its drain, and of one period.
struct PatternCounts {
  uint32_t fixed = 0, period = 0;
};
/// Counts them. The pattern must be one of `parse_pattern` or `pattern_of`.
PatternCounts counts_of(const SchedulePattern& pattern);

/// Whether some stage has an I.
bool parts_backward(const SchedulePattern& pattern);

/// Returns compute-only rows for the micro-batches of `shape`: the period is repeated until no micro-batch is missing,
/// then the computations of any further ones are left out. That keeps the order of the others, so it adds no deadlock
/// and no memory. Fails if a row does not have all stages of a device, or if its R do not match its stages.
/// `ir::lower_schedule` refuses a pattern that deadlocks.
Result<ir::Schedule> rows_of(const SchedulePattern& pattern, const ir::PipelineShape& shape);

/// Returns the rows with the micro-batches of each stage numbered as in a pattern: those that come first, first. That
/// adds no deadlock and no memory if micro-batches are equal. Errors: those of `pattern_of`, but for the order.
Result<ir::Schedule> in_ascending_order(const ir::Schedule& rows, const ir::PipelineShape& shape);

/// Finds the period of compute-only rows: of the periods that occur twice or more in every row, and that run for fewer
/// and for twice the micro-batches, the shortest that covers half of the micro-batches, or else most of them. If there
/// is none, the whole rows are the period. `rows_of` returns the given rows for the same shape. Fails if rows of
/// replicas differ, or if the micro-batches of a stage do not ascend.
Result<SchedulePattern> pattern_of(const ir::Schedule& rows, const ir::PipelineShape& shape);

}  // namespace rannc::partition
