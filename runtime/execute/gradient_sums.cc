#include <algorithm>
#include <utility>

#include "runtime/execute/internal/gradient_sums.h"

namespace rannc::runtime {

using ir::Action;

Carried GradientSums::carried(StageId stage) const {
  const bool first = dependencies_.replica(stage, device()) == 0;
  Carried kept{std::vector<bool>(pipeline_.stages[stage.index()].parameters.size(), first), first};
  for (uint32_t group : dependencies_.groups_of(stage)) {
    if (pipeline_.shape.shared[group].stages.front() != stage) kept.gradients[slot(group, stage)] = false;
  }
  return kept;
}

uint32_t GradientSums::slot(uint32_t group, StageId stage) const {
  const auto& stages = pipeline_.shape.shared[group].stages;
  const auto it = std::find(stages.begin(), stages.end(), stage);
  return pipeline_.shared[group][static_cast<size_t>(it - stages.begin())];
}

std::set<uint32_t> GradientSums::in_groups(StageId stage) const {
  std::set<uint32_t> shared;
  for (uint32_t group : dependencies_.groups_of(stage)) shared.insert(slot(group, stage));
  return shared;
}

Result<Values> GradientSums::summed(const CollectiveKey& key, const Action& action, Values values) {
  const std::vector<DeviceId> members = dependencies_.members(action);
  if (members.size() < 2) return values;
  const int64_t start = now_ns();
  auto result = transport_.all_reduce(key, members, std::move(values));
  router_.add_wait(now_ns() - start);
  return result;
}

// The program releases its term first, so that only one term at a time exists twice.
Result<void> GradientSums::sum_gradient(const CollectiveKey& key, const Action& action, uint32_t parameter) {
  Values values = program(action.stage).gradients({&parameter, 1});
  program(action.stage).set_gradients({&parameter, 1}, {nullptr});
  RANNC_ASSIGN(Values sums, summed(key, action, std::move(values)));
  program(action.stage).set_gradients({&parameter, 1}, std::move(sums));
  return {};
}

Result<void> GradientSums::sum_statistics(const CollectiveKey& key, const Action& action) {
  Values statistics = program(action.stage).statistics();
  if (statistics.empty()) return {};
  RANNC_ASSIGN(statistics, summed(key, action, std::move(statistics)));
  program(action.stage).set_statistics(std::move(statistics));
  return {};
}

Result<void> GradientSums::all_reduce(const Action& action, uint64_t step) {
  const std::set<uint32_t> shared = in_groups(action.stage);
  CollectiveKey key{step, CollectiveKey::Kind::kAllReduce, action.stage.index()};
  for (uint32_t i = 0; i < pipeline_.stages[action.stage.index()].parameters.size(); ++i) {
    if (shared.contains(i)) continue;
    RANNC_TRY(sum_gradient(key, action, i));
    ++key.part;
  }
  return sum_statistics(key, action);
}

Result<void> GradientSums::reduce_shared(const Action& action, uint64_t step) {
  const uint32_t group = action.route;
  std::vector<StageId> here;
  for (StageId stage : pipeline_.shape.shared[group].stages) {
    if (dependencies_.replica(stage, device()) >= 0) here.push_back(stage);
  }
  Value total;
  for (StageId stage : here) {
    const uint32_t index = slot(group, stage);
    const Value own = program(stage).gradients({&index, 1}).front();
    program(stage).set_gradients({&index, 1}, {nullptr});
    total = total == nullptr ? own : total->plus(*own);
  }
  const CollectiveKey key{step, CollectiveKey::Kind::kReduceShared, group};
  Values terms;
  terms.push_back(std::move(total));
  RANNC_ASSIGN(const Values sums, summed(key, action, std::move(terms)));
  for (StageId stage : here) {
    const uint32_t index = slot(group, stage);
    program(stage).set_gradients({&index, 1}, sums);
  }
  return {};
}

}  // namespace rannc::runtime
