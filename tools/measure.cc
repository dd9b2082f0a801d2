#include "tools/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "codegen/measure.h"
#include "ir/plan.h"
#include "partition/cost/analytic.h"
#include "partition/cost/profile_database.h"

namespace rannc::tools {

namespace {

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "unknown processor";
}

// Every other power of two: curves are smooth enough to be read between.
std::vector<uint64_t> measured_sizes(uint64_t mini_batch) {
  std::vector<uint64_t> sizes = partition::sample_sizes(mini_batch);
  if (sizes.size() <= 4) return sizes;
  std::vector<uint64_t> chosen;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if ((sizes.size() - 1 - i) % 2 == 0 || i == 0) chosen.push_back(sizes[i]);
  }
  return chosen;
}

}  // namespace

std::string environment_name() { return fmt::format("{}, {}, 1 thread", processor(), codegen::library_version()); }

Result<std::shared_ptr<const partition::CostModel>> measure_model(const ir::Graph& graph,
                                                                  const partition::PlanOptions& plan,
                                                                  const std::function<void(const std::string&)>& step) {
  const std::vector<bool> gradient = ir::needs_gradient(graph);
  const std::vector<uint64_t> sizes = measured_sizes(plan.mini_batch);
  std::map<std::string, TaskId> distinct;
  for (const TaskId task : graph.tasks()) distinct.emplace(partition::structural_key(graph, task, gradient), task);
  partition::ProfileDatabase database;
  const std::string environment = environment_name();
  database.describe(environment, {{"device", processor()}, {"library", codegen::library_version()}, {"threads", "1"}});
  size_t done = 0;
  for (const auto& [key, task] : distinct) {
    if (step) step(fmt::format("measuring {} of {} tasks", ++done, distinct.size()));
    for (const uint64_t samples : sizes) {
      ir::Bindings bindings = plan.assume;
      if (!graph.batch_symbol().empty()) bindings[graph.batch_symbol()] = static_cast<int64_t>(samples);
      RANNC_ASSIGN(const codegen::TaskTimes times, codegen::measure_task(graph, task, gradient, bindings));
      RANNC_ASSIGN(const partition::TaskFacts facts,
                   partition::task_facts(graph, task, gradient, samples, plan.assume));
      partition::TaskCost cost;
      cost.forward_ns = cost.recompute_ns = times.forward_ns;
      // The tape takes both gradients at once; parted here by what has to be computed.
      const bool both = facts.parameter_bytes > 0 && facts.needs_input_gradient;
      cost.weight_gradient_ns = facts.parameter_bytes > 0 ? times.backward_ns * (both ? 0.5 : 1) : 0;
      cost.input_gradient_ns = times.backward_ns - cost.weight_gradient_ns;
      // Adding to the accumulators, once a micro-batch: reads the gradient and the sum, writes the sum.
      cost.weight_gradient_ns += 3 * facts.parameter_bytes * 1e9 / plan.cluster.kinds.front().bytes_per_second;
      cost.saved_bytes = facts.saved_bytes;
      database.add(environment, key, samples, cost);
    }
  }
  return std::shared_ptr<const partition::CostModel>(
      partition::measured_costs(std::move(database), environment, partition::analytic_costs()));
}

}  // namespace rannc::tools
