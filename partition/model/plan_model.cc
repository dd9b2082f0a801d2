#include "partition/model/plan_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ir/verify.h"
#include "partition/model/block_hulls.h"
#include "partition/model/choose_stages.h"
#include "partition/model/finer_blocks.h"
#include "partition/model/finish_plan.h"
#include "partition/model/fixed_batch.h"
#include "partition/model/joint_batch.h"
#include "partition/model/lap.h"
#include "partition/model/loop_prices.h"
#include "partition/model/measured_search.h"
#include "partition/model/plan_from_last.h"
#include "partition/model/plan_given.h"
#include "partition/model/planning_steps.h"
#include "partition/model/sharded_stages.h"
#include "partition/model/value_bytes.h"
#include "partition/schedule/family.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/pricing/prices.h"
#include "partition/stages/registry.h"
#include "partition/stages/search/given_stages.h"

namespace rannc::partition {

namespace {

constexpr double kSafe = 1 - 1e-9;  // against rounding of sums

// No plan can beat all devices working without pause at each sample's cheapest price, nor one execution of the heaviest
// task.
int64_t lower_bound_ns(const PlanOptions& options, const ModelFacts& facts) {
  double cheapest = 0;
  double heaviest = 0;
  for (const TaskId task : facts.graph.tasks()) {
    if (!facts.costs.per_micro_batch(task) && !facts.costs.per_step(task)) continue;
    double per_sample = std::numeric_limits<double>::infinity();
    double shortest = std::numeric_limits<double>::infinity();
    for (size_t kind = 0; kind < facts.costs.costs.size(); ++kind) {
      for (size_t size = 0; size < facts.costs.sizes.size(); ++size) {
        const TaskCost& cost = facts.costs.of(static_cast<uint32_t>(kind), size, task);
        const double time = cost.forward_ns + (facts.training ? cost.backward_ns() : 0);
        per_sample = std::min(per_sample, time / static_cast<double>(facts.costs.sizes[size]));
        shortest = std::min(shortest, time);
      }
    }
    if (facts.costs.per_micro_batch(task) && !facts.atoms.constant[task.index()]) cheapest += per_sample;
    heaviest = std::max(heaviest, shortest);
  }
  const double shared = cheapest * options.mini_batch / options.cluster.size();
  return static_cast<int64_t>(std::floor(std::max(shared, heaviest) * kSafe));
}

// Lower bound on memory that no cut can change: every parameter with its copies resides on some device.
std::optional<Infeasible> exceeds_all_memory(const PlanOptions& options, const ModelFacts& facts) {
  double needed = 0, offered = 0;
  for (const ValueId value : facts.graph.values()) {
    if (facts.graph.value(value).kind != ir::ValueKind::kParameter) continue;
    const auto line = byte_line(facts.graph, value, facts.assume);
    needed += line.ok() ? line->fixed * facts.copies(value) : 0;
  }
  for (uint32_t d = 0; d < options.cluster.size(); ++d) {
    const uint64_t own = options.cluster.kind_of(DeviceId(d)).memory_bytes;
    offered += static_cast<double>(std::min(own, options.constraints.memory_bytes.value_or(own)));
  }
  if (needed <= offered) return std::nullopt;
  return Infeasible{fmt::format("parameters{} take {:.1f} GB, the {} devices together hold {:.1f} GB",
                                facts.training ? ", gradients and optimizer state" : "", needed / 1e9,
                                options.cluster.size(), offered / 1e9),
                    needed - offered, "more devices, devices with more memory, an optimizer with less state"};
}

std::unique_ptr<StagePlanner> planner_of(const PlanOptions& options) {
  return options.planner == "auto" ? auto_planner(search_of(options)) : make_planner(options.planner);
}

constexpr uint32_t kMostFineBlocks = 128;  // largest number after splitting beside the cuts
constexpr uint32_t kPieces = 8;            // of a block beside a cut
constexpr size_t kMostAtoms = 200'000;     // of a model whose blocks are split; more would take seconds
constexpr uint64_t kSharpenShare = 8;      // part of the search's budget for the search over finer blocks
constexpr double kTight = 0.75;            // part of a device's memory from which memory may have decided a plan
constexpr double kWorthwhile = 1e-3;       // gain over the first plan for which a second one is finished

using Outcome = std::variant<PlannedModel, Infeasible>;

// Returns the samples that a replica of the plan computes at once, on the stage with most replicas.
uint64_t samples_at_once(const StagePlan& plan, const PlanOptions& options) {
  size_t replicas = 1;
  for (const PlannedStage& stage : plan.stages) replicas = std::max(replicas, stage.devices.size());
  return std::max<uint64_t>(1, options.mini_batch / (plan.micro_batches * replicas));
}

// Whether the memory of devices may have decided the plan.
bool is_tight(const StageProblem& problem, const StagePlan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const PlannedStage& stage) {
    return stage.recompute || std::any_of(stage.devices.begin(), stage.devices.end(), [&](DeviceId device) {
             return stage.peak_bytes > kTight * memory_of(problem, device);
           });
  });
}

// Searches again, from the plan, with stages that recompute only as much as their memory requires. Returns nothing if
// no stage of the result recomputes, or if the first plan is as fast once its stages do so. Lowers the plan's bound to
// that of the second search.
Result<std::optional<PlannedModel>> search_with_hulls(const PlanOptions& options, const ModelFacts& facts,
                                                      PlannedModel& planned) {
  using Second = std::optional<PlannedModel>;
  if (options.planner != "auto" || options.objective != Objective::kStepTime || options.stop.stop_requested() ||
      !may_recompute_in_part(options) || !is_tight(planned.problem, planned.stages)) {
    return Second();
  }
  Lap lap;
  PlannedModel found;
  found.problem = planned.problem;
  const uint64_t samples = samples_at_once(planned.stages, options);
  found.problem.rebuild_hulls = block_hulls(facts, planned.blocks.partition, samples, options);
  if (found.problem.rebuild_hulls.empty()) return Second();
  AutoOptions search = search_of(options);
  search.rivals = AutoOptions::Rivals::kExcluded;
  search.starts.assign(2, planned.stages);
  for (StagePlan& start : search.starts) start.notes.clear();
  for (PlannedStage& stage : search.starts.back().stages) stage.recompute = true;
  RANNC_ASSIGN(StageOutcome outcome, auto_planner(search)->plan(found.problem, options.stop));
  planned.times.stages += lap.ns();
  auto* plan = std::get_if<StagePlan>(&outcome);
  if (plan == nullptr) return Second();
  if (plan->lower_bound < planned.stages.lower_bound) {
    planned.stages.lower_bound = plan->lower_bound;
    planned.stages.bound_name = plan->bound_name;
  }
  const bool recomputes =
      std::any_of(plan->stages.begin(), plan->stages.end(), [](const PlannedStage& stage) { return stage.recompute; });
  const JudgedPlan first = PlanJudge(found.problem).judge(search.starts.back());
  const double known = first ? first->objective : kInfinity;
  if (!recomputes || plan->objective > known * (1 - kWorthwhile)) return Second();
  plan->runners_up = planned.stages.runners_up;
  found.stages = std::move(*plan);
  found.blocks = planned.blocks;
  found.remarks = planned.remarks;
  return Second(std::move(found));
}

// Splits the blocks beside the plan's cuts and continues the search from it, to balance stages more finely than blocks.
Result<void> sharpen(const PlanOptions& options, const ModelFacts& facts, const KindMemory& memory,
                     PlannedModel& planned) {
  const uint32_t count = planned.blocks.partition.count;
  if (planned.stages.stages.size() < 2 || facts.atoms.tasks.size() > kMostAtoms || options.stop.stop_requested())
    return {};
  const auto beside = static_cast<uint32_t>(2 * (planned.stages.stages.size() - 1));
  const uint32_t room = kMostFineBlocks > count ? (kMostFineBlocks - count) / beside : 0;
  const uint32_t pieces = std::min(kPieces, room + 1);
  if (pieces < 2) return {};
  Lap lap;
  RANNC_ASSIGN(const FinerBlocks finer, split_blocks(planned.blocks.atoms, planned.blocks.partition,
                                                     pieces_at_cuts(planned.stages, count, pieces)));
  if (finer.partition.count == count) return {};
  RANNC_ASSIGN(StageProblem problem, problem_of(options, facts, finer.partition, memory));
  if (!planned.problem.rebuild_hulls.empty()) {
    problem.rebuild_hulls = block_hulls(facts, finer.partition, samples_at_once(planned.stages, options), options);
  }
  planned.times.blocks += lap.ns();
  AutoOptions search = search_of(options);
  search.rivals = AutoOptions::Rivals::kExcluded;
  search.seeds = AutoOptions::Seeds::kGiven;
  search.simulated_actions /= kSharpenShare;
  search.starts = {over_finer_blocks(planned.stages, finer)};
  RANNC_ASSIGN(StageOutcome outcome, auto_planner(search)->plan(problem, options.stop));
  planned.times.stages += lap.ns();
  auto* plan = std::get_if<StagePlan>(&outcome);
  if (plan == nullptr || !better(*plan, planned.stages)) return {};
  plan->runners_up.swap(planned.stages.runners_up);
  plan->notes.push_back(fmt::format("splitting the blocks beside the cuts, from {} to {} blocks, gained {:.1f} %",
                                    count, finer.partition.count,
                                    100 * (1 - plan->objective / planned.stages.objective)));
  planned.stages = std::move(*plan);
  planned.problem = std::move(problem);
  planned.blocks.metrics = measure(planned.blocks.atoms, finer.partition.block_of, finer.partition.count);
  planned.blocks.partition = finer.partition;
  return {};
}

// Sharpens the plan, then finishes it.
Result<void> complete(const PlanOptions& options, const ModelFacts& facts, const KindMemory& memory,
                      PlannedModel& planned) {
  if (options.planner == "auto") RANNC_TRY(sharpen(options, facts, memory, planned));
  mark_sharded(options, planned.stages);
  return finish(options, facts, planned);
}

// Chooses stages, completes the plan and simulates it. Of the plans with and without rebuild hulls, the one that fits
// and has the shorter predicted step is chosen.
Result<Outcome> plan_once(const StagePlanner& planner, const PlanOptions& options, const ModelFacts& facts,
                          const KindMemory& memory) {
  if (options.last) return plan_from_last(options, facts, memory);
  RANNC_ASSIGN(Outcome chosen, choose_stages(planner, options, facts, memory));
  if (std::holds_alternative<Infeasible>(chosen)) return chosen;
  PlannedModel planned = std::get<PlannedModel>(std::move(chosen));
  RANNC_ASSIGN(std::optional<PlannedModel> in_part, search_with_hulls(options, facts, planned));
  RANNC_TRY(complete(options, facts, memory, planned));
  if (!in_part) return Outcome(std::move(planned));
  in_part->times = planned.times;
  RANNC_TRY(complete(options, facts, memory, *in_part));
  planned.times = in_part->times;
  const bool fits = overfull(planned.plan, options).empty(), in_part_fits = overfull(in_part->plan, options).empty();
  const bool wins = in_part_fits && (!fits || in_part->plan.step_ns < planned.plan.step_ns);
  if (!wins) return Outcome(std::move(planned));
  if (fits) {
    in_part->stages.notes.push_back(fmt::format(
        "choosing stages by what their memory lets them keep gained {:.1f} %",
        100 * (1 - static_cast<double>(in_part->plan.step_ns) / static_cast<double>(planned.plan.step_ns))));
  }
  return Outcome(*std::move(in_part));
}

constexpr int kMostTries = 8;

// Returns a limit under which the plan, which exceeds a kind's memory once finished, is not chosen again.
uint64_t lowered(uint64_t limit, const Overfull& over, const PlannedModel& planned) {
  const Cluster& cluster = planned.problem.cluster;
  double peak = 0;  // as the search counts it
  for (const PlannedStage& stage : planned.stages.stages) {
    for (const DeviceId device : stage.devices) {
      if (cluster.devices[device.index()].kind == over.kind) peak = std::max(peak, stage.peak_bytes);
    }
  }
  peak += static_cast<double>(cluster.kinds[over.kind].workspace_bytes);
  return static_cast<uint64_t>(std::max(1.0, std::min(static_cast<double>(limit) / over.excess(), peak - 1)));
}

// Blocks predict a stage's memory approximately; the finished plan computes it task by task. If that exceeds a device,
// stages are chosen again with a lower limit of its kind. `closest` becomes the plan that misses the memory by least.
Result<Outcome> plan_in_blocks(const StagePlanner& planner, const PlanOptions& options, const ModelFacts& facts,
                               std::optional<Infeasible>& closest) {
  KindMemory memory = memory_of_kinds(options);
  for (int left = kMostTries;; --left) {
    RANNC_ASSIGN(Outcome outcome, plan_once(planner, options, facts, memory));
    auto* planned = std::get_if<PlannedModel>(&outcome);
    if (planned == nullptr) return outcome;
    const std::vector<Overfull> over = overfull(planned->plan, options);
    if (over.empty()) return outcome;
    const Overfull& worst = *std::max_element(
        over.begin(), over.end(), [](const Overfull& a, const Overfull& b) { return a.excess() < b.excess(); });
    if (const double missing = worst.needed - worst.offered; !closest || missing < closest->missing_bytes) {
      closest = Infeasible{
          fmt::format("the closest plan needs {:.0f} bytes on a device that holds {:.0f}", worst.needed, worst.offered),
          missing, "devices with more memory, more blocks"};
    }
    if (left == 1) return Outcome(*closest);
    for (const Overfull& one : over) memory[one.kind] = lowered(memory[one.kind], one, *planned);
  }
}

// The same over twice as many blocks while plans are found, but exceed a device. Where none is found, `choose_stages`
// has tried more blocks itself.
Result<Outcome> plan_within_memory(const StagePlanner& planner, const PlanOptions& requested, const ModelFacts& facts) {
  PlanOptions options = requested;
  const size_t atoms = facts.atoms.tasks.size();
  std::optional<Infeasible> closest;
  for (;; options.blocks *= 2) {
    std::optional<Infeasible> exceeds;
    RANNC_ASSIGN(Outcome outcome, plan_in_blocks(planner, options, facts, exceeds));
    if (auto* planned = std::get_if<PlannedModel>(&outcome)) {
      if (options.blocks != requested.blocks)
        planned->remarks.push_back(finer_remark(requested.blocks, planned->blocks.partition.count));
      return outcome;
    }
    if (exceeds && (!closest || exceeds->missing_bytes < closest->missing_bytes)) closest = exceeds;
    const bool finer = exceeds && !options.last && options.blocks <= kMostBlocks / 2 && options.blocks < atoms &&
                       atoms <= kMostAtoms && !options.stop.stop_requested();
    if (!finer && closest) return Outcome(*std::move(closest));
    if (!finer) return outcome;
  }
}

// Plans with whole optimizer state, and with sharded state if that does not fit.
Result<Outcome> plan_sharding_where_needed(const StagePlanner& planner, const PlanOptions& requested,
                                           const ModelFacts& facts) {
  PlanOptions options = requested;
  options.shard_optimizer = ShardOptimizer::kNever;
  RANNC_ASSIGN(Outcome outcome, plan_within_memory(planner, options, facts));
  const auto* infeasible = std::get_if<Infeasible>(&outcome);
  if (infeasible == nullptr || infeasible->missing_bytes <= 0 || !options.training ||
      facts.updates.state_elements() == 0)
    return outcome;
  options.shard_optimizer = ShardOptimizer::kAlways;
  RANNC_ASSIGN(Outcome sharded, plan_within_memory(planner, options, facts));
  auto* planned = std::get_if<PlannedModel>(&sharded);
  if (planned == nullptr) return sharded;
  const StagePlan all_sharded = planned->stages;
  if (keep_whole_where_possible(options, planned->plan, planned->stages)) {
    RANNC_TRY(finish(options, facts, *planned));
    if (!overfull(planned->plan, options).empty()) {
      planned->stages = all_sharded;
      RANNC_TRY(finish(options, facts, *planned));
    }
  }
  planned->remarks.push_back(sharding_remark(planned->stages));
  return sharded;
}

// Plans near the last plan, if there is one; if nothing near it fits, as without it.
Result<Outcome> searched(const StagePlanner& planner, const PlanOptions& options, const ModelFacts& facts) {
  const auto search =
      options.shard_optimizer == ShardOptimizer::kWhereNeeded ? plan_sharding_where_needed : plan_within_memory;
  RANNC_ASSIGN(Outcome outcome, search(planner, options, facts));
  if (!options.last || std::holds_alternative<PlannedModel>(outcome)) return outcome;
  PlanOptions whole = options;
  whole.last.reset();
  RANNC_ASSIGN(outcome, search(planner, whole, facts));
  if (auto* planned = std::get_if<PlannedModel>(&outcome))
    planned->remarks.push_back("no plan near the last one fits: the whole search was needed");
  return outcome;
}

}  // namespace

Result<std::variant<PlannedModel, Infeasible>> plan_model(const ir::Graph& graph, const ir::Atoms& atoms,
                                                          const PlanOptions& requested) {
  RANNC_ASSIGN(PlanOptions fixed, with_fixed_batch(graph, requested));
  const PlanOptions options = with_joint_batch(graph, std::move(fixed));
  const auto planner = planner_of(options);
  if (planner == nullptr) {
    return error(fmt::format("planner '{}' is not one of {}", options.planner, fmt::join(stage_planner_names(), ", ")));
  }
  Lap lap;
  RANNC_ASSIGN(ModelCosts costs,
               price_model(graph, options.cluster, *options.costs, sample_sizes(options.mini_batch), options.assume));
  RANNC_CHECK(options.joint != nullptr && options.cut_functions) << "planning needs a joint graph and functions";
  RANNC_ASSIGN(const TaskMemory memory,
               TaskMemory::of(graph, *options.joint, options.assume, options.cluster, options.loops));
  price_loops(memory, options.cluster, costs.sizes.back(), costs);
  RANNC_ASSIGN(const ir::ParameterUpdates updates,
               ir::ParameterUpdates::of(graph, options.training ? options.optimizer : ir::PlanOptimizer()));
  const ModelFacts facts{graph, atoms, costs, memory, options.assume, options.training, updates};
  const int64_t price = lap.ns();
  if (auto infeasible = exceeds_all_memory(options, facts)) return Outcome(std::move(*infeasible));
  RANNC_ASSIGN(Outcome outcome, options.given ? plan_given(options, facts) : searched(*planner, options, facts));
  if (std::holds_alternative<Infeasible>(outcome)) return outcome;
  PlannedModel planned = std::get<PlannedModel>(std::move(outcome));
  RANNC_TRY(search_with_measured_stages(options, facts, planned));
  planned.times.price = price;
  planned.plan.lower_bound_ns = lower_bound_ns(options, facts);
  RANNC_CHECK(planned.plan.lower_bound_ns <= planned.plan.step_ns)
      << "bound " << planned.plan.lower_bound_ns << " ns above the simulated " << planned.plan.step_ns << " ns";
  lap.ns();
  RANNC_TRY(ir::as_result(ir::verify(planned.plan)));
  planned.times.verify = lap.ns();
  return Outcome(std::move(planned));
}

}  // namespace rannc::partition
