#include "tools/compile/plan_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "partition/stages/registry.h"
#include "tools/common/number_checks.h"
#include "tools/common/units.h"
#include "tools/compiler/check_plan_options.h"
#include "tools/compiler/requested_plan.h"

namespace rannc::tools {

namespace {

constexpr WholeRange kStageNumbers{0, UINT32_MAX};

Result<compiler::Pin> parse_pin(const std::string& text) {
  const Diagnostic wrong = error(fmt::format("--pin {}: expected TASK=STAGE, with stages counted from 0", text));
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0) return wrong;
  const auto stage = parse_number(std::string_view(text).substr(at + 1), kStageNumbers);
  if (!stage) return wrong;
  return compiler::Pin{.task = text.substr(0, at), .stage = static_cast<uint32_t>(*stage)};
}

Result<compiler::Together> parse_together(const std::string& text) {
  const size_t comma = text.find(',');
  if (comma == std::string::npos || comma == 0 || comma + 1 == text.size())
    return error(fmt::format("--together {}: expected TASK,TASK", text));
  return compiler::Together{text.substr(0, comma), text.substr(comma + 1)};
}

/// Returns the enumerator that a flag's value names.
template <class Enum, size_t kCount>
Result<Enum> named(const char* flag, const std::string& value, const char* const (&names)[kCount]) {
  const auto* const found = std::find(std::begin(names), std::end(names), value);
  if (found != std::end(names)) return static_cast<Enum>(found - std::begin(names));
  return error(fmt::format("{} {}: expected one of {}", flag, value, fmt::join(names, ", ")));
}

constexpr const char* kOptimizerNames[] = {"sgd", "adam", "adamw"};
constexpr const char* kShardingNames[] = {"auto", "on", "off"};
constexpr const char* kObjectiveNames[] = {"step", "period", "load", "memory"};
constexpr const char* kRecomputeNames[] = {"auto", "never", "always", "except-last", "selective"};

std::vector<std::string> values(std::span<const char* const> names) { return {names.begin(), names.end()}; }

}  // namespace

void add_plan_flags(CLI::App& app, PlanFlags& flags) {
  constexpr uint32_t kMost = 1U << 24;
  const CLI::Validator positive = whole_number(1, kMost);
  app.option_defaults()->group("Cluster");
  app.add_option("--cluster", flags.cluster, "preset (--list cluster), such as local:2, or cluster file (TOML)")
      ->capture_default_str();
  app.add_option("--devices", flags.devices, "use only the first N devices of the cluster")->transform(positive);
  app.add_option("--memory", flags.memory_bytes, "memory limit of every device, such as 16GiB")
      ->transform(parsed_by(&parse_bytes, "SIZE"));

  app.option_defaults()->group("Training step");
  app.add_option("--optimizer", flags.optimizer,
                 "optimizer, which determines the memory for its state: sgd, adam or adamw")
      ->check(CLI::IsMember(values(kOptimizerNames)))
      ->capture_default_str();
  app.add_option("--momentum", flags.momentum, "momentum of sgd, which adds one copy of the parameters")
      ->transform(in_range(NumberRange{0, 0.999999}))
      ->capture_default_str();
  app.add_option("--shard-optimizer", flags.shard_optimizer,
                 "whether the replicas of a stage divide its optimizer state: auto (where no plan fits the memory "
                 "otherwise), on or off")
      ->check(CLI::IsMember(values(kShardingNames)))
      ->capture_default_str();
  app.add_option("--mini-batch", flags.mini_batch,
                 fmt::format("samples per step (default: {}, or the static batch size of the file if it is above 1)",
                             kMiniBatch))
      ->transform(positive);
  app.add_option("--micro-batches", flags.micro_batches, "allowed numbers of micro-batches, such as 4,8")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(positive);

  app.option_defaults()->group("Demands on the plan");
  app.add_option("--stages", flags.stages, "number of stages")->transform(positive);
  app.add_option("--max-stages", flags.max_stages, "largest number of stages")->transform(positive);
  app.add_option("--stages-per-device", flags.stages_per_device,
                 "stages on each device: 2 for the schedules zb-v, v-half and v-min, 2 or more for interleaved")
      ->transform(positive);
  app.add_option("--replicas", flags.replicas, "devices of each stage, such as 2,1,1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(positive);
  app.add_option("--pin", flags.pins, "TASK=STAGE: put a task, or all tasks that match a pattern, into a stage")
      ->allow_extra_args(false)
      ->check(named_number("TASK=STAGE", kStageNumbers));
  app.add_option("--together", flags.together, "TASK,TASK: no cut between the two tasks")->allow_extra_args(false);
  app.add_option("--recompute", flags.recompute,
                 "recompute of forward passes: auto (what memory requires), never, always, except-last (all "
                 "micro-batches but the last) or selective (what is cheap)")
      ->check(CLI::IsMember(values(kRecomputeNames)))
      ->capture_default_str();
  app.add_option("--recompute-budget", flags.recompute_budget,
                 fmt::format("largest recompute time of a stage, in percent of its forward and backward time, for "
                             "--recompute selective (default: {:.0f})",
                             kRecomputeBudget))
      ->transform(in_range(NumberRange{0, 100}));
  app.add_option("--schedule", flags.schedules,
                 "allowed schedules (--list schedule), such as gpipe,1f1b; table: a hand-written schedule")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--schedule-file", flags.schedule_file, "file of the hand-written schedule, for --schedule table");
  app.add_option("--warm-up", flags.warm_up,
                 "forward passes of each stage before its first backward pass, such as 3,2,1, for --schedule warmup "
                 "(default: by the latency behind the stage)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(positive);
  app.add_option("--period", flags.period_ns,
                 "time between micro-batches, such as 40ms, for --schedule 1f1b-star, k-periodic and periodic "
                 "(default: the time of the busiest device)")
      ->transform(parsed_by(&parse_duration, "TIME"));
  app.add_option("--periods", flags.periods,
                 "micro-batches per pattern, K, for --schedule k-periodic (default: one less than 1f1b-star holds)")
      ->transform(positive);
  app.add_option("--step-limit", flags.step_limit_ns, "longest allowed step, such as 120ms")
      ->transform(parsed_by(&parse_duration, "TIME"));

  app.option_defaults()->group("Search");
  app.add_option("--planner", flags.planner, "stage planner (--list planner)")
      ->check(CLI::IsMember(partition::stage_planner_names()))
      ->capture_default_str();
  app.add_option("--objective", flags.objective, "objective of planner auto: step, period, load or memory")
      ->check(CLI::IsMember(values(kObjectiveNames)))
      ->capture_default_str();
  app.add_option("--search-budget", flags.search_budget, "largest number of simulated actions of planner auto")
      ->transform(whole_number(1, uint64_t{1} << 40));
  app.add_option("--time-limit", flags.time_limit_ns,
                 "wall-clock limit of the search, such as 2s; plans then vary between runs")
      ->transform(parsed_by(&parse_duration, "TIME"));
}

Result<compiler::PlanOptions> plan_options(const PlanFlags& flags) {
  compiler::PlanOptions options;
  options.cluster = flags.cluster;
  options.devices = flags.devices;
  options.memory_bytes = flags.memory_bytes;
  RANNC_ASSIGN(options.optimizer, named<compiler::Optimizer>("--optimizer", flags.optimizer, kOptimizerNames));
  options.momentum = flags.momentum;
  options.mini_batch = flags.mini_batch;
  options.micro_batches = flags.micro_batches;
  options.stages = flags.stages;
  options.max_stages = flags.max_stages;
  options.stages_per_device = flags.stages_per_device;
  options.replicas = flags.replicas;
  for (const std::string& text : flags.pins) {
    RANNC_ASSIGN(options.pins.emplace_back(), parse_pin(text));
  }
  for (const std::string& text : flags.together) {
    RANNC_ASSIGN(options.together.emplace_back(), parse_together(text));
  }
  RANNC_ASSIGN(options.shard_optimizer,
               named<compiler::ShardOptimizer>("--shard-optimizer", flags.shard_optimizer, kShardingNames));
  RANNC_ASSIGN(options.recompute, named<compiler::Recompute>("--recompute", flags.recompute, kRecomputeNames));
  options.recompute_budget = flags.recompute_budget;
  options.schedules = flags.schedules;
  options.schedule_file = flags.schedule_file;
  options.warm_up = flags.warm_up;
  options.period_ns = flags.period_ns;
  options.periods = flags.periods;
  options.step_limit_ns = flags.step_limit_ns;
  options.planner = flags.planner;
  RANNC_ASSIGN(options.objective, named<compiler::Objective>("--objective", flags.objective, kObjectiveNames));
  options.search_budget = flags.search_budget;
  options.time_limit_ns = flags.time_limit_ns;
  return options;
}

Result<void> check_plan_flags(PlanFlags& flags) {
  RANNC_ASSIGN(const compiler::PlanOptions options, plan_options(flags));
  RANNC_ASSIGN(const compiler::PlanOptions complete, checked(options));
  flags.stages = complete.stages;
  return {};
}

Result<PlanRequest> plan_request(const PlanFlags& flags) {
  RANNC_ASSIGN(const compiler::PlanOptions options, plan_options(flags));
  return plan_request(options);
}

}  // namespace rannc::tools
