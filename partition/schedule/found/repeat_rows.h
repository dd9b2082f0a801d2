/// Longer rows from shorter ones, by repetition of a period.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partition/schedule/found/order_model.h"
#include "partition/schedule/found/row_words.h"
#include "partition/schedule/pattern.h"

namespace rannc::partition::found {

/// Part of each row that is repeated: letters `[begin, end)` have all passes of `micro_batches` micro-batches.
struct RowPeriod {
  std::vector<uint32_t> begin, end;  ///< by lane
  uint32_t micro_batches = 0;
};

/// Finds a period of that many micro-batches that starts near `time` of the model's last run, of these rows. None if a
/// row has no such part near it. The repetition may deadlock: the caller runs it.
std::optional<RowPeriod> period_near(const RowProblem& problem, const OrderModel& model, const LaneRows& rows,
                                     double time, uint32_t micro_batches);

/// Repeats the period until there are at least `wanted` micro-batches, and leaves out later ones. `rows` are of a
/// problem with fewer.
LaneRows repeated(const LaneRows& rows, const RowPeriod& period, uint32_t given, uint32_t wanted);

/// Rows that repeat a period.
struct Repeated {
  LaneRows rows;
  double makespan = kNever;  ///< by the model
  RowPeriod period;
};

/// The fastest repetitions of rows.
class Repetitions {
 public:
  /// Keeps at most `most`.
  explicit Repetitions(size_t most) : most_(most) {}

  /// Repeats periods of different lengths and beginnings for `wanted` micro-batches, which `longer` models.
  void add(const RowProblem& problem, OrderModel& model, const LaneRows& rows, OrderModel& longer, uint32_t wanted);
  const std::vector<Repeated>& best() const { return best_; }  ///< best first; of equal ones the shorter period

 private:
  size_t most_;
  std::vector<Repeated> best_;
};

/// The same for any number of micro-batches.
SchedulePattern pattern_with(const RowProblem& problem, const LaneRows& rows, const RowPeriod& period);

}  // namespace rannc::partition::found
