#include "partition/model/plan_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "ir/verify.h"
#include "partition/stages/auto.h"
#include "partition/stages/registry.h"

namespace rannc::partition {

namespace {

constexpr const char* kDefaultSchedule = "1f1b";

// What the schedule holds in flight, as the planners model it.
InFlight in_flight_of(const std::string& schedule) {
  if (schedule == "gpipe") return InFlight::kAll;
  return schedule == "dapple-b" ? InFlight::kTwice : InFlight::kOneFOneB;
}

PlanFacts plan_facts(const PlanOptions& options, const Cluster& cluster, const ModelCosts& costs) {
  PlanFacts facts;
  facts.cluster = &cluster;
  facts.costs = &costs;
  facts.assume = options.assume;
  facts.mini_batch = options.mini_batch;
  facts.optimizer_states = options.optimizer_states;
  facts.training = options.training;
  facts.schedule = options.schedule;
  facts.seed = options.seed;
  facts.model_digest = options.model_digest;
  facts.profile_digest = options.costs->fingerprint();
  return facts;
}

/// The parts that all candidates of one model share.
struct Model {
  const ir::Graph& graph;
  const ir::Atoms& atoms;
  const PlanOptions& options;
  ModelCosts costs;
  BlockedModel blocks;
  StageProblem problem;
};

// One more plan of the same model under other constraints, on the first `devices` devices.
Alternative alternative(const Model& model, const StagePlanner& planner, const std::string& what, uint32_t devices) {
  StageProblem problem = model.problem;
  problem.cluster = model.options.cluster.first(devices);
  problem.constraints = {};
  problem.constraints.stages = 1;
  problem.constraints.replicas = {devices};
  auto outcome = planner.plan(problem);
  Alternative entry{what, 0, {}};
  if (!outcome.ok()) {
    entry.remark = outcome.diagnostic().message;
  } else if (const auto* infeasible = std::get_if<Infeasible>(&*outcome)) {
    entry.remark = infeasible->reason;
  } else {
    PlanFacts facts = plan_facts(model.options, problem.cluster, model.costs);
    facts.schedule = "gpipe";
    auto plan = finish_plan(model.graph.clone(), model.atoms, model.blocks.partition.block_of,
                            std::get<StagePlan>(*outcome), facts);
    if (!plan.ok()) {
      entry.remark = plan.diagnostic().message;
    } else if (const auto timeline = predict(*plan, problem.cluster); !timeline.ok()) {
      entry.remark = timeline.diagnostic().message;
    } else {
      entry.step_ns = plan->step_ns;
      entry.remark = fmt::format("{} micro-batches", plan->micro_batches.size());
    }
  }
  return entry;
}

// No plan can beat all devices working without pause at each sample's cheapest price, nor one micro-batch's way
// through the heaviest task.
int64_t lower_bound_ns(const Model& model) {
  double cheapest = 0;
  double heaviest = 0;
  for (const TaskId task : model.graph.tasks()) {
    double per_sample = std::numeric_limits<double>::infinity();
    double shortest = std::numeric_limits<double>::infinity();
    for (size_t kind = 0; kind < model.costs.costs.size(); ++kind) {
      for (size_t size = 0; size < model.costs.sizes.size(); ++size) {
        const TaskCost& cost = model.costs.of(static_cast<uint32_t>(kind), size, task);
        const double time = cost.forward_ns + (model.options.training ? cost.backward_ns() : 0);
        per_sample = std::min(per_sample, time / static_cast<double>(model.costs.sizes[size]));
        shortest = std::min(shortest, time);
      }
    }
    if (!model.atoms.constant[task.index()]) cheapest += per_sample;
    heaviest = std::max(heaviest, shortest);
  }
  const double shared = cheapest * model.options.mini_batch / model.options.cluster.size();
  return static_cast<int64_t>(std::floor(std::max(shared, heaviest)));
}

}  // namespace

Result<std::variant<PlannedModel, Infeasible>> plan_model(const ir::Graph& graph, const ir::Atoms& atoms,
                                                          const PlanOptions& options) {
  using Outcome = std::variant<PlannedModel, Infeasible>;
  auto planner = make_planner(options.planner);
  if (options.planner == "auto" && !options.schedule.empty()) {
    AutoOptions searched;
    searched.schedules = {options.schedule};
    planner = auto_planner(std::move(searched));
  }
  if (planner == nullptr) {
    return error(fmt::format("planner '{}' is not one of {}", options.planner, fmt::join(stage_planner_names(), ", ")));
  }
  RANNC_ASSIGN(ModelCosts costs,
               price_model(graph, options.cluster, *options.costs, sample_sizes(options.mini_batch), options.assume));

  BlockModelOptions block_options;
  block_options.blocks = options.blocks;
  block_options.partitioner = options.block_partitioner;
  block_options.reference_samples = std::max<uint64_t>(1, options.mini_batch / 8);
  block_options.optimizer_factor = options.optimizer_states;
  RANNC_ASSIGN(auto blocked, block_model(graph, atoms, costs, options.cluster, options.assume, block_options));
  if (auto* infeasible = std::get_if<Infeasible>(&blocked)) return Outcome(std::move(*infeasible));
  BlockedModel blocks = std::get<BlockedModel>(std::move(blocked));

  RANNC_ASSIGN(StageProblem problem, stage_problem(graph, atoms, costs, blocks.partition, options.assume));
  problem.cluster = options.cluster;
  problem.mini_batch = options.mini_batch;
  problem.micro_batches = options.micro_batches;
  problem.optimizer_factor = options.optimizer_states;
  problem.in_flight = in_flight_of(options.schedule);
  problem.recompute = options.recompute;
  problem.constraints = options.constraints;
  RANNC_ASSIGN(StageOutcome chosen, planner->plan(problem));
  if (auto* infeasible = std::get_if<Infeasible>(&chosen)) return Outcome(std::move(*infeasible));

  const Model model{graph, atoms, options, std::move(costs), std::move(blocks), std::move(problem)};
  PlannedModel planned;
  planned.stages = std::get<StagePlan>(std::move(chosen));
  PlanFacts facts = plan_facts(options, options.cluster, model.costs);
  if (facts.schedule.empty())
    facts.schedule = planned.stages.planner == "auto" ? planned.stages.schedule : kDefaultSchedule;
  RANNC_ASSIGN(planned.plan, finish_plan(graph.clone(), atoms, model.blocks.partition.block_of, planned.stages, facts));
  RANNC_ASSIGN(planned.timeline, predict(planned.plan, options.cluster));
  planned.plan.lower_bound_ns = lower_bound_ns(model);
  RANNC_CHECK(planned.plan.lower_bound_ns <= planned.plan.step_ns)
      << "bound " << planned.plan.lower_bound_ns << " ns above the simulated " << planned.plan.step_ns << " ns";
  planned.alternatives.push_back(alternative(model, *planner, "one device", 1));
  if (options.cluster.size() > 1) {
    planned.alternatives.push_back(alternative(
        model, *planner, fmt::format("data parallel on {} devices", options.cluster.size()), options.cluster.size()));
  }
  planned.blocks = model.blocks;
  planned.problem = model.problem;
  RANNC_TRY(ir::as_result(ir::verify(planned.plan)));
  return Outcome(std::move(planned));
}

}  // namespace rannc::partition
