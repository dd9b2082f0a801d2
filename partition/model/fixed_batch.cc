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

/// Whether one micro-batch is not among the demanded numbers.
bool demands_division(const PlanOptions& options) {
  const auto& counts = options.micro_batches;
  return !counts.empty() && std::find(counts.begin(), counts.end(), 1) == counts.end();
}

bool demands_replicas(const PlanOptions& options) {
  const auto& replicas = options.constraints.replicas;
  return std::any_of(replicas.begin(), replicas.end(), [](uint32_t count) { return count > 1; });
}

}  // namespace

Result<void> check_undivided(const ir::Graph& graph, const PlanOptions& options) {
  const auto& why = options.batching.reason;
  if (!why || !ir::fixed_samples(graph)) return {};
  const auto refused = [&](const std::string& demand) {
    return error(why->where,
                 fmt::format("{}, so its mini-batches cannot be divided, but {} are requested", why->message, demand),
                 "P15")
        .note(kDivisible);
  };
  if (demands_division(options))
    return refused(fmt::format("{} micro-batches", fmt::join(options.micro_batches, " or ")));
  if (demands_replicas(options))
    return refused(fmt::format("{} replicas", fmt::join(options.constraints.replicas, ", ")));
  return {};
}

Result<PlanOptions> with_fixed_batch(const ir::Graph& graph, PlanOptions options) {
  const auto samples = ir::fixed_samples(graph, options.assume);
  if (!samples) return options;
  RANNC_TRY(check_undivided(graph, options));
  const auto contradicts = [&](const std::string& demand) {
    return error(file_of(graph),
                 fmt::format("the model has a static batch: its mini-batch of {} cannot be split, but {} requested; "
                             "export the model with a dynamic batch axis",
                             *samples, demand),
                 "P15");
  };
  if (options.mini_batch != *samples) return contradicts(fmt::format("a mini-batch of {} was", options.mini_batch));
  if (demands_division(options))
    return contradicts(fmt::format("{} micro-batches were", fmt::join(options.micro_batches, " or ")));
  if (demands_replicas(options))
    return contradicts(fmt::format("replicas {} were", fmt::join(options.constraints.replicas, ",")));
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
