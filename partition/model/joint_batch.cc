#include "partition/model/joint_batch.h"

#include <algorithm>

#include "ir/state/statistics.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

namespace {

bool normalises_together(const ir::Graph& graph) {
  for (const TaskId task : graph.tasks()) {
    if (ir::synchronised(graph, task).value_or(false)) return true;
  }
  return false;
}

}  // namespace

PlanOptions with_joint_batch(const ir::Graph& graph, PlanOptions options) {
  if (!options.training || options.cluster.size() < 2 || !normalises_together(graph)) return options;
  const auto& replicas = options.constraints.replicas;
  const uint64_t most = replicas.empty() ? 0 : *std::max_element(replicas.begin(), replicas.end());
  const auto leaves_none_out = [&](uint64_t count) {
    return most > 0 ? options.mini_batch / count >= most : options.mini_batch % count == 0;
  };
  std::vector<uint64_t> counts = micro_batch_candidates(options);
  std::erase_if(counts, [&](uint64_t count) { return !leaves_none_out(count); });
  if (!counts.empty()) options.micro_batches = std::move(counts);
  return options;
}

}  // namespace rannc::partition
