#include "runtime/execute/internal/gradient_sums.h"

#include <algorithm>
#include <utility>

namespace rannc::runtime {

using ir::Action;

GradientSums::GradientSums(const Pipeline& pipeline, const ir::Dependencies& dependencies,
                           const std::vector<Program*>& programs, Transport& transport, Router& router)
    : pipeline_(pipeline), dependencies_(dependencies), programs_(programs), transport_(transport), router_(router) {
  for (StageId stage : dependencies_.stages_on(device())) {
    const ir::StageShape& shape = pipeline_.shape.stages[stage.index()];
    if (pipeline_.shape.training && shape.sharded)
      shares_.try_emplace(stage, stage, shape.devices, pipeline_.shares[stage.index()], program(stage), transport_);
  }
}

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

const std::vector<std::vector<uint32_t>>& GradientSums::buckets(StageId stage, uint64_t bucket_bytes) {
  const auto [known, is_new] = buckets_.try_emplace({stage, bucket_bytes});
  if (is_new) known->second = make_buckets(stage, bucket_bytes);
  return known->second;
}

std::vector<std::vector<uint32_t>> GradientSums::make_buckets(StageId stage, uint64_t bucket_bytes) const {
  const std::set<uint32_t> shared = in_groups(stage);
  const Values& parameters = program(stage).parameters();
  std::vector<std::pair<uint32_t, uint64_t>> summed;  // parameter and bytes
  uint64_t largest = 0;
  for (uint32_t i = 0; i < parameters.size(); ++i) {
    if (shared.contains(i)) continue;
    TensorSpec sum = parameters[i]->spec();
    sum.dtype = ir::sum_dtype(sum.dtype);
    summed.emplace_back(i, sum.bytes());
    largest = std::max(largest, sum.bytes());
  }
  const uint64_t limit = std::min(largest, bucket_bytes);
  std::vector<std::vector<uint32_t>> found;
  std::vector<uint64_t> filled;
  for (const auto& [parameter, bytes] : summed) {
    const auto fits = [&, size = bytes](uint64_t before) { return before + size <= limit; };
    const auto first = std::find_if(filled.begin(), filled.end(), fits);
    const auto at = static_cast<size_t>(first - filled.begin());
    if (first == filled.end()) {
      found.emplace_back();
      filled.push_back(0);
    }
    found[at].push_back(parameter);
    filled[at] += bytes;
  }
  return found;
}

// The program releases its terms first, so that only one bucket at a time exists twice.
Result<void> GradientSums::sum_bucket(const CollectiveKey& key, const Action& action,
                                      const std::vector<uint32_t>& parameters) {
  Values values = program(action.stage).gradients(parameters);
  program(action.stage).set_gradients(parameters, Values(parameters.size()));
  RANNC_ASSIGN(Values sums, summed(key, action, std::move(values)));
  program(action.stage).set_gradients(parameters, std::move(sums));
  return {};
}

Result<void> GradientSums::sum_statistics(const CollectiveKey& key, const Action& action) {
  Values statistics = program(action.stage).statistics();
  if (statistics.empty()) return {};
  RANNC_ASSIGN(statistics, summed(key, action, std::move(statistics)));
  program(action.stage).set_statistics(std::move(statistics));
  return {};
}

Result<void> GradientSums::all_reduce(const Action& action, uint64_t step, uint64_t bucket_bytes) {
  CollectiveKey key{step, CollectiveKey::Kind::kAllReduce, action.stage.index()};
  for (const std::vector<uint32_t>& bucket : buckets(action.stage, bucket_bytes)) {
    RANNC_TRY(sum_bucket(key, action, bucket));
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

Result<void> GradientSums::reduce_scatter(const Action& action, uint64_t step) {
  const int64_t start = now_ns();
  const Result<void> reduced = shares_.at(action.stage).reduce_scatter(step, in_groups(action.stage));
  router_.add_wait(now_ns() - start);
  RANNC_TRY(reduced);
  return sum_statistics({step, CollectiveKey::Kind::kAllReduce, action.stage.index()}, action);
}

Result<void> GradientSums::all_gather(StageId stage, uint64_t step) {
  const int64_t start = now_ns();
  const Result<void> gathered = shares_.at(stage).all_gather(step);
  router_.add_wait(now_ns() - start);
  return gathered;
}

}  // namespace rannc::runtime
