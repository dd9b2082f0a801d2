#include "partition/schedule/found/row_judge.h"

#include <algorithm>

#include "ir/schedule/dependencies.h"
#include "ir/schedule/schedule_memory.h"

namespace rannc::partition::found {
namespace {

constexpr uint64_t kActionsPerAction = 20;  ///< lowering, memory and simulation of an action, measured by bench-found

}  // namespace

RowJudge::RowJudge(const ir::PipelineShape& shape, const ScheduleCosts& costs, SimulationOptions options)
    : shape_(shape), costs_(costs), options_(options) {
  options_.spans = options_.memory = false;
}

Verdict RowJudge::judge(const ir::Schedule& rows) {
  Verdict verdict;
  for (const auto& row : rows.rows) actions_ += kActionsPerAction * row.size();
  const auto lowered = ir::lower_schedule(shape_, rows);
  if (!lowered.ok()) return verdict;
  verdict.fits = true;
  if (!shape_.memory_bytes.empty()) {
    const ir::Dependencies dependencies(shape_);
    for (uint32_t d = 0; d < shape_.devices; ++d) {
      const int64_t limit = shape_.memory_bytes[d];
      const int64_t excess = limit > 0 ? ir::row_peak(dependencies, *lowered, DeviceId(d)) - limit : 0;
      verdict.excess.push_back(std::max<int64_t>(0, excess));
      verdict.fits &= excess <= 0;
    }
  }
  if (!verdict.fits) return verdict;
  const auto timeline = simulate(shape_, *lowered, costs_, options_);
  if (timeline.ok()) verdict.makespan = timeline->makespan;
  return verdict;
}

}  // namespace rannc::partition::found
