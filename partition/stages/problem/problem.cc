// Validates a stage problem and derives simple quantities from it.
//
// Rules: C1 sizes match; C2 costs lie between 0 and 1e60; C3 values run forward; C4 the cluster has devices;
// C5 constraints are in range; C6 sizes of a time table ascend; C7 the mini-batch has samples.
#include "partition/stages/problem/problem.h"

#include <fmt/format.h>

#include <algorithm>

namespace rannc::partition {
namespace {

bool sane(double cost) { return cost >= 0 && cost <= kMostCost; }

Diagnostic broken(const char* rule, std::string message) { return error({}, std::move(message), rule); }

Result<void> costs_are_sane(const std::vector<double>& costs, uint32_t blocks, const char* what, bool may_be_empty) {
  if (may_be_empty && costs.empty()) return {};
  if (costs.size() != blocks) {
    return broken("C1", fmt::format("{} has {} entries, the problem has {} blocks", what, costs.size(), blocks));
  }
  for (size_t b = 0; b < costs.size(); ++b) {
    if (!sane(costs[b])) {
      return broken("C2", fmt::format("{} of block {} is {}, it must be from 0 to 1e60", what, b, costs[b]));
    }
  }
  return {};
}

Result<void> table_is_sane(const TimeTable& table, uint32_t blocks) {
  if (!table.weight_gradient.empty() && table.weight_gradient.size() != table.sizes.size()) {
    return broken("C1", fmt::format("a time table has {} sizes and {} rows of weight gradients", table.sizes.size(),
                                    table.weight_gradient.size()));
  }
  if (table.sizes.empty() || table.forward.size() != table.sizes.size() ||
      table.backward.size() != table.sizes.size()) {
    return broken("C1", fmt::format("a time table has {} sizes, {} forward rows and {} backward rows",
                                    table.sizes.size(), table.forward.size(), table.backward.size()));
  }
  for (const auto* once : {&table.begin, &table.gradients}) {
    if (!once->empty()) RANNC_TRY(costs_are_sane(*once, blocks, "the time once per step", false));
  }
  for (size_t i = 0; i < table.sizes.size(); ++i) {
    if (table.sizes[i] < 1 || (i > 0 && table.sizes[i] <= table.sizes[i - 1])) {
      return broken("C6", fmt::format("size {} of a time table is {}: sizes ascend from 1", i, table.sizes[i]));
    }
    RANNC_TRY(costs_are_sane(table.forward[i], blocks, "the forward time", false));
    RANNC_TRY(costs_are_sane(table.backward[i], blocks, "the backward time", false));
    if (table.weight_gradient.empty()) continue;
    RANNC_TRY(costs_are_sane(table.weight_gradient[i], blocks, "the weight gradient's time", false));
    for (uint32_t b = 0; b < blocks; ++b) {
      if (table.weight_gradient[i][b] <= table.backward[i][b]) continue;
      return broken("C2", fmt::format("the weight gradient of block {} takes {} ns of a backward pass of {} ns", b,
                                      table.weight_gradient[i][b], table.backward[i][b]));
    }
  }
  return {};
}

Result<void> values_are_sane(const StageProblem& problem) {
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const BlockValue& value = problem.values[v];
    uint32_t before = value.producer;
    for (const uint32_t reader : value.readers) {
      if (reader <= before || reader >= problem.blocks) {
        return broken("C3", fmt::format("value {} of block {} is read by block {}: readers ascend, above the producer "
                                        "and below {}",
                                        v, value.producer, reader, problem.blocks));
      }
      before = reader;
    }
    for (const double bytes : {value.bytes, value.bytes_per_sample}) {
      if (!sane(bytes)) {
        return broken("C2", fmt::format("value {} has {} bytes, it must be from 0 to 1e60", v, bytes));
      }
    }
  }
  return {};
}

Result<void> holdings_are_sane(const StageProblem& problem) {
  for (size_t h = 0; h < problem.shared.size(); ++h) {
    const SharedHolding& holding = problem.shared[h];
    for (size_t i = 0; i < holding.blocks.size(); ++i) {
      if (holding.blocks[i] < problem.blocks && (i == 0 || holding.blocks[i - 1] < holding.blocks[i])) continue;
      return broken("C3", fmt::format("shared holding {} is needed by block {}: blocks ascend, below {}", h,
                                      holding.blocks[i], problem.blocks));
    }
    if (holding.blocks.empty()) return broken("C3", fmt::format("shared holding {} is needed by no block", h));
    for (const double bytes : {holding.bytes, holding.bytes_per_sample, holding.gradient_bytes()}) {
      if (!sane(bytes)) {
        return broken("C2", fmt::format("shared holding {} has {} bytes, it must be from 0 to 1e60", h, bytes));
      }
    }
  }
  return {};
}

Result<void> hulls_are_sane(const StageProblem& problem) {
  const auto& hulls = problem.rebuild_hulls;
  if (hulls.empty()) return {};
  if (hulls.size() != problem.blocks) {
    return broken("C1", fmt::format("{} rebuild hulls are given for {} blocks", hulls.size(), problem.blocks));
  }
  for (size_t b = 0; b < hulls.size(); ++b) {
    if (hulls[b].empty()) return broken("C1", fmt::format("the rebuild hull of block {} has no points", b));
    for (size_t i = 0; i < hulls[b].size(); ++i) {
      const RebuildPoint& point = hulls[b][i];
      if (!sane(point.bytes_per_sample) || !(point.share >= 0 && point.share <= 1)) {
        return broken("C2", fmt::format("a rebuild of block {} keeps {} bytes and repeats a share of {}: bytes are "
                                        "from 0 to 1e60, shares from 0 to 1",
                                        b, point.bytes_per_sample, point.share));
      }
      if (i == 0) continue;
      const RebuildPoint& before = hulls[b][i - 1];
      if (before.bytes_per_sample < point.bytes_per_sample && before.share > point.share) continue;
      return broken("C3",
                    fmt::format("point {} of the rebuild hull of block {}: bytes ascend and shares descend", i, b));
    }
  }
  return {};
}

Result<void> measured_stages_are_sane(const StageProblem& problem) {
  for (const auto& [run, times] : problem.measured) {
    if (run.first >= run.end || run.end > problem.blocks || run.kind >= problem.times.size() || run.samples == 0) {
      return broken("C1", fmt::format("a stage of the blocks from {} to {} was measured on kind {} with {} samples, of "
                                      "{} blocks and {} kinds",
                                      run.first, run.end, run.kind, run.samples, problem.blocks, problem.times.size()));
    }
    for (const double time : {times.forward_ns, times.backward_ns, times.weight_ns}) {
      if (!sane(time) || times.weight_ns > times.backward_ns) {
        return broken("C2", fmt::format("the stage of the blocks from {} to {} was measured with {} ns: times are from "
                                        "0 to 1e60, and W is a part of the backward pass",
                                        run.first, run.end, time));
      }
    }
  }
  return {};
}

Result<void> constraints_are_sane(const StageProblem& problem) {
  const StageConstraints& given = problem.constraints;
  if (given.stages && *given.stages == 0) return broken("C5", "0 stages were requested, at least 1 is needed");
  if (given.max_stages && *given.max_stages == 0)
    return broken("C5", "at most 0 stages were requested, at least 1 is needed");
  if (given.stages_per_device && *given.stages_per_device == 0)
    return broken("C5", "0 stages per device were requested, at least 1 is needed");
  for (const uint32_t cut : given.forbidden_cuts) {
    if (cut == 0 || cut >= problem.blocks) {
      return broken("C5", fmt::format("cut {} is forbidden; cuts lie between 1 and {}", cut, problem.blocks - 1));
    }
  }
  if (!std::is_sorted(given.forbidden_cuts.begin(), given.forbidden_cuts.end())) {
    return broken("C5", "forbidden cuts must ascend");
  }
  if (!given.replicas.empty() && (!given.stages || *given.stages != given.replicas.size())) {
    return broken("C5", fmt::format("{} replica counts are fixed; the number of stages must be fixed to the same",
                                    given.replicas.size()));
  }
  for (const uint32_t count : given.replicas) {
    if (count == 0) return broken("C5", "a stage is given 0 replicas");
  }
  if (!given.pins.empty() && !given.stages)
    return broken("C5", "a block is pinned to a stage; the number of stages must be fixed");
  for (size_t i = 0; i < given.pins.size(); ++i) {
    const auto& [block, stage] = given.pins[i];
    if (block >= problem.blocks || stage >= *given.stages) {
      return broken("C5", fmt::format("block {} is pinned to stage {} of {} blocks and {} stages", block, stage,
                                      problem.blocks, *given.stages));
    }
    if (i == 0) continue;
    const auto& [before, earlier] = given.pins[i - 1];
    if (before >= block || earlier > stage) {
      return broken(
          "C5", fmt::format("block {} is pinned to stage {} and block {} to stage {}: stages follow the blocks", before,
                            earlier, block, stage));
    }
  }
  return {};
}

}  // namespace

void TimeTable::make_monotone() {
  for (auto* rows : {&forward, &backward, &weight_gradient}) {
    for (size_t i = 1; i < rows->size(); ++i) {
      for (size_t b = 0; b < (*rows)[i].size(); ++b) (*rows)[i][b] = std::max((*rows)[i][b], (*rows)[i - 1][b]);
    }
  }
}

TimeTable::Blend TimeTable::blend(uint64_t samples) const {
  const double n = static_cast<double>(samples);
  if (sizes.size() == 1) return {0, 0, n / static_cast<double>(sizes[0]), 0};
  if (samples >= sizes.back()) return {sizes.size() - 1, sizes.size() - 1, n / static_cast<double>(sizes.back()), 0};
  if (samples <= sizes.front()) return {0, 0, samples == sizes.front() ? 1 : n / static_cast<double>(sizes[0]), 0};
  const size_t high = static_cast<size_t>(std::upper_bound(sizes.begin(), sizes.end(), samples) - sizes.begin());
  const double from = static_cast<double>(sizes[high - 1]), to = static_cast<double>(sizes[high]);
  const double share = (n - from) / (to - from);
  return {high - 1, high, 1 - share, share};
}

Result<void> validate(const StageProblem& problem) {
  if (problem.blocks == 0) return broken("C1", "the problem has no blocks");
  if (problem.cluster.size() == 0) return broken("C4", "the cluster has no devices");
  if (problem.mini_batch == 0) return broken("C7", "the mini-batch has no samples");
  if (problem.times.size() != problem.cluster.kinds.size()) {
    return broken("C1", fmt::format("times are given for {} kinds of device, the cluster has {}", problem.times.size(),
                                    problem.cluster.kinds.size()));
  }
  for (const TimeTable& table : problem.times) RANNC_TRY(table_is_sane(table, problem.blocks));
  RANNC_TRY(costs_are_sane(problem.parameter_bytes, problem.blocks, "the parameter size", false));
  RANNC_TRY(costs_are_sane(problem.gradient_bytes, problem.blocks, "the gradient size", true));
  RANNC_TRY(costs_are_sane(problem.largest_gradients, problem.blocks, "the largest gradient", true));
  RANNC_TRY(costs_are_sane(problem.state_bytes, problem.blocks, "the size of optimizer state", true));
  RANNC_TRY(costs_are_sane(problem.buffer_bytes, problem.blocks, "the buffer size", true));
  RANNC_TRY(costs_are_sane(problem.stashed_bytes_per_sample, problem.blocks, "the stash", false));
  RANNC_TRY(costs_are_sane(problem.temporary_bytes_per_sample, problem.blocks, "the temporary size", true));
  RANNC_TRY(costs_are_sane(problem.temporary_bytes, problem.blocks, "the fixed temporary size", true));
  RANNC_TRY(costs_are_sane(problem.pending_bytes_per_sample, problem.blocks, "the pending size", true));
  if (!sane(problem.optimizer_factor)) {
    return broken("C2", fmt::format("the optimizer factor is {}", problem.optimizer_factor));
  }
  if (problem.step_limit_ns && !(*problem.step_limit_ns > 0)) {
    return broken("C2", fmt::format("the time limit of a step is {} ns", *problem.step_limit_ns));
  }
  RANNC_TRY(values_are_sane(problem));
  RANNC_TRY(holdings_are_sane(problem));
  RANNC_TRY(hulls_are_sane(problem));
  RANNC_TRY(measured_stages_are_sane(problem));
  return constraints_are_sane(problem);
}

std::vector<uint64_t> micro_batch_candidates(const PlanDemands& demands) {
  std::vector<uint64_t> counts;
  for (const uint64_t count : demands.micro_batches) {
    if (count >= 1 && count <= demands.mini_batch) counts.push_back(count);
  }
  if (demands.micro_batches.empty()) {
    for (uint64_t count = 1; count <= demands.mini_batch; count *= 2) counts.push_back(count);
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

}  // namespace rannc::partition
