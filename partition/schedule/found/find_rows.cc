#include "partition/schedule/found/find_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "partition/schedule/found/repeat_rows.h"
#include "partition/schedule/found/row_search.h"

namespace rannc::partition {
namespace {

using namespace found;

constexpr size_t kLonger = 6, kPatterns = 40;  ///< repetitions that are judged; periods that are examined

/// A problem with another number of equal micro-batches.
struct Resized {
  ir::PipelineShape shape;
  ScheduleCosts costs;

  Resized(const FoundProblem& given, uint32_t micro_batches) : shape(given.shape), costs(given.costs) {
    shape.micro_batches.resize(micro_batches, shape.micro_batches[0]);
    if (!costs.size_class.empty()) costs.size_class.resize(micro_batches, costs.size_class[0]);
  }
};

/// Micro-batches of which rows are searched to be repeated; 0: no fewer than here.
uint32_t fewer(const RowProblem& problem) {
  // Enough for a steady part between warm-up and drain.
  const auto enough = std::max<uint32_t>(8, 3 * static_cast<uint32_t>(problem.lanes.size()));
  return problem.classes == 1 && problem.micro_batches >= 2 * enough ? enough : 0;
}

/// The steps before moves.
void search(const FoundProblem& given, const FoundOptions& options, RowSearch& rows);

/// Searches rows for fewer micro-batches and repeats a period of the best ones.
void repeat_shorter(const FoundProblem& given, FoundOptions options, uint64_t actions, RowSearch& rows) {
  const uint32_t few = fewer(rows.problem());
  if (few == 0 || rows.done()) return;
  const Resized resized(given, few);
  const FoundProblem fewer_given{resized.shape, resized.costs, given.options};
  options.actions = actions;
  RowSearch shorter(fewer_given, options);
  search(fewer_given, options, shorter);
  rows.charge(shorter.spent());
  Repetitions longer(kLonger);
  for (const Candidate& candidate : shorter.pool()) {
    longer.add(shorter.problem(), shorter.model(), candidate.rows, rows.model(), rows.problem().micro_batches);
  }
  for (const Repeated& one : longer.best()) rows.judge(one.rows, "repeated");
}

void search(const FoundProblem& given, const FoundOptions& options, RowSearch& rows) {
  rows.try_named();
  // Where a try is dear, rows are searched for fewer micro-batches first.
  if (rows.is_dear()) repeat_shorter(given, options, options.actions * 2 / 3, rows);
  rows.try_policies();
  if (!rows.is_dear()) repeat_shorter(given, options, options.actions / 3, rows);
  rows.change_policies(options.actions / 5);
  rows.reorder(options.actions / 10);
  rows.improve();
}

/// Whether the pattern runs with none and with few of its periods.
bool runs_for_few(const FoundProblem& given, const SchedulePattern& pattern) {
  const PatternCounts counts = counts_of(pattern);
  for (uint32_t periods = 0; periods < 4; ++periods) {
    const uint32_t micro_batches = counts.fixed + periods * counts.period;
    if (micro_batches == 0) continue;
    const Resized resized(given, micro_batches);
    const auto rows = rows_of(pattern, resized.shape);
    if (!rows.ok() || !ir::lower_schedule(resized.shape, *rows).ok()) return false;
  }
  return true;
}

/// Finds the period of the best rows whose repetition is fastest for twice as many micro-batches.
void find_pattern(const FoundProblem& given, const FoundOptions& options, RowSearch& rows) {
  const uint32_t count = rows.problem().micro_batches;
  if (rows.best_rows().empty() || rows.problem().classes > 1) return;
  const Resized twice(given, 2 * count);
  const RowProblem problem =
      make_row_problem(twice.shape, twice.costs, options.parts, options.recomputed, given.options);
  OrderModel model(problem);
  Repetitions longer(kPatterns);
  longer.add(rows.problem(), rows.model(), rows.best_rows(), model, 2 * count);
  FoundSchedule& result = rows.result();
  for (const Repeated& one : longer.best()) {
    SchedulePattern pattern = pattern_with(rows.problem(), rows.best_rows(), one.period);
    const auto again = rows_of(pattern, given.shape);
    if (!again.ok() || again->rows != result.schedule->rows || !runs_for_few(given, pattern)) continue;
    result.pattern = std::move(pattern);
    result.pattern_period = (one.makespan - rows.model().run(rows.best_rows())) / count;
    return;
  }
}

}  // namespace

Result<FoundSchedule> find_schedule_rows(const FoundProblem& problem, const FoundOptions& options) {
  if (!problem.shape.training) return error("schedules are searched for training only");
  if (problem.shape.stages.empty() || problem.shape.micro_batches.empty()) {
    return error(fmt::format("nothing to schedule: {} stages, {} micro-batches", problem.shape.stages.size(),
                             problem.shape.micro_batches.size()));
  }
  RowSearch rows(problem, options);
  if (rows.result().bound.value >= options.beat) return std::move(rows.result());
  search(problem, options, rows);
  find_pattern(problem, options, rows);
  rows.result().actions = rows.spent();
  return std::move(rows.result());
}

}  // namespace rannc::partition
