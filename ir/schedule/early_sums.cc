// Moves sums to where their gradients become final, as far as rule S6 permits.
#include "ir/schedule/early_sums.h"

#include <algorithm>
#include <deque>
#include <set>

#include "ir/schedule/internal/schedule_rules.h"
#include "ir/schedule/last_weight.h"

namespace rannc::ir {
namespace {

std::vector<Action> row_with_early_sums(const std::vector<Action>& row, const std::vector<bool>& early) {
  const std::map<StageId, size_t> last = last_weights(row);
  std::deque<Action> sums;  // that have not begun
  std::copy_if(row.begin(), row.end(), std::back_inserter(sums), [](const Action& a) { return is_reduction(a.kind); });
  std::set<StageId> final;
  std::vector<Action> begun;
  const auto begin_final = [&] {
    while (!sums.empty() && !is_of_group(sums.front().kind) && final.contains(sums.front().stage)) {
      begun.push_back(sums.front());
      sums.pop_front();
    }
  };
  for (size_t i = 0; i < row.size(); ++i) {
    if (!is_reduction(row[i].kind)) {
      begun.push_back(row[i]);
      const auto found = last.find(row[i].stage);
      if (is_compute(row[i].kind) && found != last.end() && found->second == i && early[row[i].stage.index()])
        final.insert(row[i].stage);
    } else if (!sums.empty() && sums.front() == row[i]) {
      begun.push_back(row[i]);
      sums.pop_front();
    }
    begin_final();
  }
  return begun;
}

}  // namespace

Schedule rows_with_early_sums(const PipelineShape& shape, const Schedule& schedule, const std::vector<bool>& early) {
  RANNC_CHECK(early.size() == shape.stages.size());
  Schedule begun = schedule;
  for (auto& row : begun.rows) row = row_with_early_sums(row, early);
  return begun;
}

std::vector<bool> early_sums(const PipelineShape& shape, const Schedule& schedule, const std::vector<bool>& joint) {
  const auto run = [&](const std::vector<bool>& early) {
    const Schedule begun = rows_with_early_sums(shape, schedule, early);
    ScheduleFacts facts(shape, begun, 1);
    check_progress(facts, joint);
    return facts.found.empty();
  };
  std::vector<bool> all(shape.stages.size(), true);
  if (run(all)) return all;
  std::vector<bool> some(shape.stages.size(), false);
  for (size_t stage = 0; stage < some.size(); ++stage) {
    some[stage] = true;
    if (!run(some)) some[stage] = false;
  }
  return some;
}

}  // namespace rannc::ir
