#include "tools/measure/measured_cluster.h"

#include <algorithm>
#include <set>

#include "ir/plan/plan.h"
#include "partition/model/model_costs.h"
#include "tools/common/machine.h"

namespace rannc::tools {

namespace {

constexpr double kComputesMuch = 8;         // floating-point operations per byte from which a task is compute-bound
constexpr double kLeastTraffic = 64 << 10;  // bytes; below, the launch overhead dominates

}  // namespace

Result<partition::DeviceKind> measured_kind(const ir::Graph& graph, const MeasureOptions& options,
                                            const partition::ProfileDatabase& database, partition::DeviceKind kind) {
  const auto roles = ir::gradient_roles(graph, ir::needs_gradient(graph));
  const std::string environment = environment_name(options);
  double flops = 0, flops_ns = 0, bytes = 0, bytes_ns = 0, shortest = 0;
  std::set<std::string> seen;
  for (const TaskId task : graph.tasks()) {
    const std::string key = partition::structural_key(graph, task, roles);
    const partition::SizeCurve* curve = database.find(environment, key);
    if (curve == nullptr || !seen.insert(key).second) continue;
    for (const auto& [samples, cost] : *curve) {
      RANNC_ASSIGN(const partition::TaskFacts facts,
                   partition::task_facts(graph, task, roles, samples, options.assume));
      shortest = shortest > 0 ? std::min(shortest, cost.forward_ns) : cost.forward_ns;
      if (facts.traffic_bytes < kLeastTraffic) continue;
      const bool computes = facts.flops >= kComputesMuch * facts.traffic_bytes;
      (computes ? flops : bytes) += computes ? facts.flops : facts.traffic_bytes;
      (computes ? flops_ns : bytes_ns) += cost.forward_ns;
    }
  }
  if (flops_ns > 0) kind.flops_per_second = 1e9 * flops / flops_ns;
  if (bytes_ns > 0) kind.bytes_per_second = 1e9 * bytes / bytes_ns;
  if (shortest > 0) kind.launch_ns = shortest;
  return kind;
}

partition::Cluster measured_cluster(const partition::ProfileDatabase& database, partition::DeviceKind kind,
                                    uint32_t workers) {
  partition::Cluster cluster = partition::preset_cluster("local:" + std::to_string(workers)).value();
  kind.memory_bytes = worker_memory_bytes(workers);
  kind.instructions = machine_instructions();
  cluster.kinds.front() = std::move(kind);
  use_measured_links(database, cluster);
  return cluster;
}

}  // namespace rannc::tools
