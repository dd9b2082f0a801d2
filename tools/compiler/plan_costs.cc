#include "tools/compiler/plan_costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "partition/cost/analytic.h"
#include "partition/cost/profile_database.h"
#include "partition/model/fixed_batch.h"
#include "tools/compiler/kept_runs.h"
#include "tools/compiler/kernel_choice.h"
#include "tools/measure/measure.h"

namespace rannc::tools {

namespace {

/// Options of estimates of what is not measured.
partition::AnalyticOptions estimates_of(const RequestedPlan& request) {
  partition::AnalyticOptions estimates;
  if (request.options.matmul_precision == compiler::MatmulPrecision::kHigh)
    estimates.products = partition::Tf32::kAllowed;
  return estimates;
}

/// Returns the environment of this machine's processor for the kinds that are this processor.
partition::KindEnvironments environments_of(const RequestedPlan& request) {
  partition::KindEnvironments environments;
  for (const std::string& kind : request.processor_kinds) environments[kind] = environment_name();
  return environments;
}

/// Measures the tasks of a model on this machine. If `chooses` is not null, also measures alternative kernels and gives
/// `chooses` those that are fastest at the number of samples that the plan computes at once. Counts what was measured.
Result<partition::ProfileDatabase> measured(const RequestedPlan& request, const PreparedModel& model,
                                            PreparedModel* chooses, const partition::PlanOptions& plan,
                                            const CompileProgress& progress, MeasureCount& count) {
  RANNC_ASSIGN(const partition::PlanOptions searched, partition::with_fixed_batch(model.graph, plan));
  MeasureOptions measure{.sizes = measured_sizes(searched.mini_batch), .assume = plan.assume, .step = progress.step};
  partition::ProfileDatabase database;
  if (keeps_costs(request)) {
    RANNC_ASSIGN(database, read_kept(request.options.cost_database));
  }
  RANNC_ASSIGN(count, measure_tasks(model.graph, measure, database));
  if (chooses == nullptr) return database;
  partition::PlanOptions first = plan;
  first.costs =
      partition::measured_costs(database, environments_of(request), partition::analytic_costs(estimates_of(request)));
  const uint64_t samples = samples_at_once(model, first);
  MeasureOptions alternatives = measure;
  alternatives.sizes = {samples};
  RANNC_ASSIGN(const MeasureCount others, measure_alternatives(model.graph, alternatives, database));
  count.measured += others.measured;
  RANNC_ASSIGN(const bool changed, choose_kernels(*chooses, database, environment_name(), samples));
  if (!changed) return database;
  if (progress.remark) progress.remark(chooses->remarks.back().message);
  RANNC_ASSIGN(const MeasureCount chosen, measure_tasks(chooses->graph, measure, database));
  count.measured += chosen.measured;
  return database;
}

/// Writes what was measured beside what was read, if costs are kept.
Result<void> keep(const RequestedPlan& request, const partition::ProfileDatabase& database, const MeasureCount& count,
                  const CompileProgress& progress) {
  if (!keeps_costs(request)) return {};
  const std::string& file = request.options.cost_database;
  if (progress.remark) {
    progress.remark(count.measured == 0
                        ? fmt::format("{} has the times of all {} tasks: none was measured", file, count.reused)
                        : fmt::format("{}: {} tasks were measured, {} were known", file, count.measured, count.reused));
  }
  return count.measured == 0 ? Result<void>() : database.write(file);
}

/// Prices the plan by a database. Unless `chooses` is null, gives it the kernels that are fastest by the database.
Result<void> price_by_database(const RequestedPlan& request, const PreparedModel& model, PreparedModel* chooses,
                               partition::PlanOptions& plan, const CompileProgress& progress) {
  RANNC_ASSIGN(partition::ProfileDatabase database, partition::ProfileDatabase::read(request.options.cost_database));
  const std::vector<std::string> kinds = plan.cluster.used_kinds();
  RANNC_ASSIGN(const auto environments, kind_environments(database, kinds, request.processor_kinds));
  if (request.on_this_machine) use_measured_links(database, plan.cluster);
  const DatabaseCosts costs{std::move(database), request.options.cost_database, environments, kinds,
                            estimates_of(request)};
  const bool on_processor = std::all_of(environments.begin(), environments.end(),
                                        [](const auto& entry) { return entry.second == environment_name(); });
  if (chooses != nullptr && request.on_processor() && on_processor) {
    partition::PlanOptions first = plan;
    first.costs = database_costs(model.graph, costs, {});
    const uint64_t samples = samples_at_once(model, first);
    RANNC_ASSIGN(const bool changed, choose_kernels(*chooses, costs.database, environment_name(), samples));
    if (changed && progress.remark) progress.remark(chooses->remarks.back().message);
  }
  plan.costs = database_costs(model.graph, costs, progress.remark);
  return {};
}

Diagnostic not_this_machine(const RequestedPlan& request) {
  const partition::Cluster& cluster = request.planning.cluster;
  return error(
      fmt::format("--costs measured measures the processor of this machine, but cluster '{}' has {}; use "
                  "--costs analytic, or --costs FILE with a database that rannc-profile --device cuda made on such a "
                  "device",
                  cluster.name, fmt::join(cluster.used_kinds(), ", ")));
}

}  // namespace

Result<void> add_costs(const RequestedPlan& request, const PreparedModel& model, PreparedModel* chooses,
                       partition::PlanOptions& plan, const CompileProgress& progress) {
  plan.costs = partition::analytic_costs(estimates_of(request));
  if (request.options.costs == compiler::Costs::kDatabase)
    return price_by_database(request, model, chooses, plan, progress);
  if (request.options.costs == compiler::Costs::kAnalytic) return {};
  if (!request.on_processor()) return not_this_machine(request);
  MeasureCount count;
  RANNC_ASSIGN(partition::ProfileDatabase database, measured(request, model, chooses, plan, progress, count));
  RANNC_TRY(keep(request, database, count, progress));
  plan.costs = partition::measured_costs(std::move(database), environments_of(request),
                                         partition::analytic_costs(estimates_of(request)));
  return {};
}

}  // namespace rannc::tools
