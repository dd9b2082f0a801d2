#include "partition/model/fixed_batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/plan/fixed_samples.h"

namespace rannc::partition {

namespace {

/// Returns the model's file, as recorded in its tasks.
Location file_of(const ir::Graph& graph) {
  return {graph.task_count() > 0 ? graph.location(TaskId(0)).file : std::string(), 0, 0, {}};
}

Diagnostic contradicts(const ir::Graph& graph, uint32_t samples, const std::string& demand) {
  return error(file_of(graph),
               fmt::format("the model has a static batch: its mini-batch of {} cannot be split, "
                           "{}; export the model with a dynamic batch axis",
                           samples, demand),
               "P15");
}

}  // namespace

Result<PlanOptions> with_fixed_batch(const ir::Graph& graph, PlanOptions options) {
  const auto samples = ir::fixed_samples(graph, options.assume);
  if (!samples) return options;
  if (options.mini_batch != *samples) {
    return contradicts(graph, *samples, fmt::format("but a mini-batch of {} was requested", options.mini_batch));
  }
  const auto& counts = options.micro_batches;
  if (!counts.empty() && std::find(counts.begin(), counts.end(), 1) == counts.end()) {
    return contradicts(graph, *samples, fmt::format("but {} micro-batches were requested", fmt::join(counts, " or ")));
  }
  const auto& replicas = options.constraints.replicas;
  if (std::any_of(replicas.begin(), replicas.end(), [](uint32_t count) { return count > 1; })) {
    return contradicts(graph, *samples, fmt::format("but replicas {} were requested", fmt::join(replicas, ",")));
  }
  options.mini_batch = 1;
  options.micro_batches = {1};
  return options;
}

void count_fixed_samples(ir::Plan& plan) {
  const auto samples = ir::fixed_samples(plan.graph, plan.sizes);
  if (!samples) return;
  plan.mini_batch = *samples;
  plan.micro_batches = {*samples};
  for (ir::StageTime& time : plan.stage_times) time.samples = *samples;
}

}  // namespace rannc::partition
