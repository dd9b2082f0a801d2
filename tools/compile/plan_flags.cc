#include "tools/compile/plan_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "partition/schedule/family.h"
#include "partition/stages/registry.h"
#include "tools/common/machine.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

constexpr double kRecomputeBudget = 5;  // percent

Result<TaskPin> parse_pin(const std::string& text) {
  TaskPin pin{{}, 0, "--pin " + text};
  const Diagnostic wrong = error(pin.source + ": expected TASK=STAGE, with stages counted from 0");
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0) return wrong;
  const char* const last = text.data() + text.size();
  const auto [end, failed] = std::from_chars(text.data() + at + 1, last, pin.stage);
  if (failed != std::errc() || end != last) return wrong;
  pin.task = text.substr(0, at);
  return pin;
}

Result<TasksTogether> parse_together(const std::string& text) {
  const std::string source = "--together " + text;
  const size_t comma = text.find(',');
  if (comma == std::string::npos || comma == 0 || comma + 1 == text.size())
    return error(source + ": expected TASK,TASK");
  return TasksTogether{text.substr(0, comma), text.substr(comma + 1), source};
}

Result<void> check_schedules(const PlanFlags& flags) {
  using Needs = partition::ScheduleFamily::Needs;
  bool table = false;
  for (const std::string& schedule : flags.schedules) {
    if (partition::find_schedule(schedule) == nullptr) {
      return error(fmt::format("--schedule: unknown schedule '{}'; the schedules are {}", schedule,
                               fmt::join(partition::schedule_names(), ", ")));
    }
    table = table || partition::schedule_needs(schedule, Needs::kTable);
  }
  if (table && flags.schedules.size() > 1)
    return error("--schedule table cannot be combined with other schedules: it is a hand-written schedule");
  if (table && flags.schedule_file.empty()) return error("--schedule table needs --schedule-file FILE");
  if (!table && !flags.schedule_file.empty()) return error("--schedule-file needs --schedule table");
  if (flags.planner != "auto" && flags.schedules.size() > 1) {
    return error(fmt::format("--schedule {}: planner {} does not choose a schedule; name one, or use planner auto",
                             fmt::join(flags.schedules, ","), flags.planner));
  }
  return {};
}

bool is_allowed(const PlanFlags& flags, std::string_view schedule) {
  return std::find(flags.schedules.begin(), flags.schedules.end(), schedule) != flags.schedules.end();
}

Result<void> check_schedule_parameters(PlanFlags& flags) {
  if (flags.periods && !is_allowed(flags, "k-periodic")) return error("--periods needs --schedule k-periodic");
  const bool periodic =
      is_allowed(flags, "1f1b-star") || is_allowed(flags, "k-periodic") || is_allowed(flags, "periodic");
  if (flags.period_ns && !periodic) return error("--period needs --schedule 1f1b-star, k-periodic or periodic");
  if (flags.warm_up.empty()) return {};
  if (!is_allowed(flags, "warmup")) return error("--warm-up needs --schedule warmup");
  if (!flags.stages) flags.stages = static_cast<uint32_t>(flags.warm_up.size());
  if (*flags.stages != flags.warm_up.size())
    return error(fmt::format("--warm-up has {} depths for {} stages", flags.warm_up.size(), *flags.stages));
  if (std::is_sorted(flags.warm_up.rbegin(), flags.warm_up.rend())) return {};
  return error(fmt::format("--warm-up {}: a stage cannot be deeper than the stage before it, which would wait for ever",
                           fmt::join(flags.warm_up, ",")));
}

/// Checks that some allowed schedule places that many stages on a device.
Result<void> check_stages_per_device(const PlanFlags& flags) {
  using partition::StageLayout;
  if (!flags.stages_per_device) return {};
  const uint32_t wanted = *flags.stages_per_device;
  const auto places = [wanted](StageLayout layout) {
    if (layout == StageLayout::kOnePerRank) return wanted == 1;
    if (layout == StageLayout::kV) return wanted == 2;
    return layout == StageLayout::kAny || wanted >= 2;
  };
  std::vector<std::string_view> fitting;
  for (const partition::ScheduleFamily& family : partition::schedule_families()) {
    if (places(family.layout)) fitting.push_back(family.name);
  }
  const auto fits = [&](const std::string& name) { return places(partition::find_schedule(name)->layout); };
  if (flags.schedules.empty() || std::any_of(flags.schedules.begin(), flags.schedules.end(), fits)) return {};
  return error(
      fmt::format("--stages-per-device {}: needs --schedule with one of {}", wanted, fmt::join(fitting, ", ")));
}

Result<void> check_stages(PlanFlags& flags) {
  if (!flags.replicas.empty()) {
    if (!flags.stages) flags.stages = static_cast<uint32_t>(flags.replicas.size());
    if (*flags.stages != flags.replicas.size()) {
      return error(fmt::format("--replicas has {} counts for {} stages", flags.replicas.size(), *flags.stages));
    }
  }
  if (flags.stages && flags.max_stages && *flags.stages > *flags.max_stages) {
    return error(fmt::format("{} stages exceed --max-stages {}", *flags.stages, *flags.max_stages));
  }
  if (!flags.pins.empty() && !flags.stages) return error("--pin needs --stages");
  for (const std::string& pin : flags.pins) RANNC_TRY(parse_pin(pin));
  for (const std::string& pair : flags.together) RANNC_TRY(parse_together(pair));
  return {};
}

template <class Number>
CLI::Validator parsed_by(Result<Number> (*parse)(std::string_view), const char* form) {
  return CLI::Validator(
      [parse](std::string& text) {
        const Result<Number> value = parse(text);
        if (!value.ok()) return value.diagnostic().message;
        text = fmt::format("{}", *value);
        return std::string();
      },
      form);
}

}  // namespace

void add_plan_flags(CLI::App& app, PlanFlags& flags) {
  constexpr uint32_t kMost = 1U << 24;
  const CLI::Range positive(uint64_t{1}, uint64_t{kMost});
  app.option_defaults()->group("Cluster");
  app.add_option("--cluster", flags.cluster, "preset (--list cluster), such as local:2, or cluster file (TOML)")
      ->capture_default_str();
  app.add_option("--devices", flags.devices, "use only the first N devices of the cluster")->check(positive);
  app.add_option("--memory", flags.memory_bytes, "memory limit of every device, such as 16GiB")
      ->transform(parsed_by(&parse_bytes, "SIZE"));

  app.option_defaults()->group("Training step");
  app.add_option("--optimizer", flags.optimizer,
                 "optimizer, which determines the memory for its state: sgd, adam or adamw")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->capture_default_str();
  app.add_option("--momentum", flags.momentum, "momentum of sgd, which adds one copy of the parameters")
      ->check(CLI::Range(0.0, 0.999999))
      ->capture_default_str();
  app.add_option("--mini-batch", flags.mini_batch,
                 fmt::format("samples per step (default: {}, or the static batch size of the file if it is above 1)",
                             kMiniBatch))
      ->check(positive);
  app.add_option("--micro-batches", flags.micro_batches, "allowed numbers of micro-batches, such as 4,8")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive);

  app.option_defaults()->group("Demands on the plan");
  app.add_option("--stages", flags.stages, "number of stages")->check(positive);
  app.add_option("--max-stages", flags.max_stages, "largest number of stages")->check(positive);
  app.add_option("--stages-per-device", flags.stages_per_device,
                 "stages on each device: 2 for the schedules zb-v, v-half and v-min, 2 or more for interleaved")
      ->check(positive);
  app.add_option("--replicas", flags.replicas, "devices of each stage, such as 2,1,1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive);
  app.add_option("--pin", flags.pins, "TASK=STAGE: put a task, or all tasks that match a pattern, into a stage")
      ->allow_extra_args(false);
  app.add_option("--together", flags.together, "TASK,TASK: no cut between the two tasks")->allow_extra_args(false);
  app.add_option("--recompute", flags.recompute,
                 "recompute of forward passes: auto (what memory requires), never, always, except-last (all "
                 "micro-batches but the last) or selective (what is cheap)")
      ->check(CLI::IsMember({"auto", "never", "always", "except-last", "selective"}))
      ->capture_default_str();
  app.add_option("--recompute-budget", flags.recompute_budget,
                 fmt::format("largest recompute time of a stage, in percent of its forward and backward time, for "
                             "--recompute selective (default: {:.0f})",
                             kRecomputeBudget))
      ->check(CLI::Range(0.0, 100.0));
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
      ->check(positive);
  app.add_option("--period", flags.period_ns,
                 "time between micro-batches, such as 40ms, for --schedule 1f1b-star, k-periodic and periodic "
                 "(default: the time of the busiest device)")
      ->transform(parsed_by(&parse_duration, "TIME"));
  app.add_option("--periods", flags.periods,
                 "micro-batches per pattern, K, for --schedule k-periodic (default: one less than 1f1b-star holds)")
      ->check(positive);
  app.add_option("--step-limit", flags.step_limit_ns, "longest allowed step, such as 120ms")
      ->transform(parsed_by(&parse_duration, "TIME"));

  app.option_defaults()->group("Search");
  app.add_option("--planner", flags.planner, "stage planner (--list planner)")
      ->check(CLI::IsMember(partition::stage_planner_names()))
      ->capture_default_str();
  app.add_option("--objective", flags.objective, "objective of planner auto: step, period, load or memory")
      ->check(CLI::IsMember({"step", "period", "load", "memory"}))
      ->capture_default_str();
  app.add_option("--search-budget", flags.search_budget, "largest number of simulated actions of planner auto")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  app.add_option("--time-limit", flags.time_limit_ns,
                 "wall-clock limit of the search, such as 2s; plans then vary between runs")
      ->transform(parsed_by(&parse_duration, "TIME"));
}

Result<void> check_plan_flags(PlanFlags& flags) {
  if (flags.momentum != 0 && flags.optimizer != "sgd") return error("--momentum needs --optimizer sgd");
  if (flags.recompute_budget && flags.recompute != "selective")
    return error("--recompute-budget needs --recompute selective");
  RANNC_TRY(check_schedules(flags));
  RANNC_TRY(check_schedule_parameters(flags));
  RANNC_TRY(check_stages_per_device(flags));
  RANNC_TRY(check_stages(flags));
  const uint32_t samples = flags.mini_batch.value_or(kMiniBatch);
  for (const uint64_t count : flags.micro_batches) {
    if (count <= samples) continue;
    return error(fmt::format("--micro-batches {}: exceeds the {} samples of --mini-batch", count, samples));
  }
  const bool searches = flags.planner == "auto" || flags.planner == "exact";
  if (searches) return {};
  if (flags.objective != "step") {
    return error(fmt::format("--objective {}: planner {} has a fixed objective; use planner auto", flags.objective,
                             flags.planner));
  }
  if (flags.step_limit_ns) return error(fmt::format("--step-limit: planner {} does not support it", flags.planner));
  if (flags.search_budget) return error(fmt::format("--search-budget: planner {} does not support it", flags.planner));
  return {};
}

namespace {

constexpr std::string_view kLocalGpus = "local:cuda";

bool is_cluster_file(const std::string& cluster) {
  return std::filesystem::path(cluster).extension() == ".toml" || cluster.find('/') != std::string::npos;
}

bool has_local_workers(const PlanFlags& flags) {
  return flags.cluster.starts_with("local:") && flags.cluster != kLocalGpus && !is_cluster_file(flags.cluster);
}

Result<partition::Cluster> requested_cluster(const PlanFlags& flags) {
  const bool file = is_cluster_file(flags.cluster);
  const bool gpus = flags.cluster == kLocalGpus && flags.local_gpus != nullptr;
  RANNC_ASSIGN(partition::Cluster cluster, gpus   ? flags.local_gpus()
                                           : file ? partition::read_cluster(flags.cluster)
                                                  : partition::preset_cluster(flags.cluster));
  if (gpus && flags.memory_bytes) cluster.kinds.front().memory_bytes = *flags.memory_bytes;
  if (has_local_workers(flags)) {
    // The limit is part of the plan. With --memory it is the same on every machine.
    cluster.kinds.front().memory_bytes = flags.memory_bytes.value_or(worker_memory_bytes(cluster.size()));
  }
  if (!flags.devices) return cluster;
  if (*flags.devices > cluster.size()) {
    return error(fmt::format("--devices {}: cluster '{}' has {}", *flags.devices, flags.cluster, cluster.size()));
  }
  return cluster.first(*flags.devices);
}

/// Kinds that are this machine's processor. A preset other than `local:N` describes another machine. In a file, the
/// device type distinguishes the processor from GPUs.
std::set<std::string> processor_kinds(const PlanFlags& flags, const partition::Cluster& cluster) {
  std::set<std::string> names;
  if (!has_local_workers(flags) && !is_cluster_file(flags.cluster)) return names;
  for (const partition::DeviceKind& kind : cluster.kinds) {
    if (kind.type == ir::DeviceType::kCpu) names.insert(kind.name);
  }
  return names;
}

partition::Objective objective_of(const PlanFlags& flags) {
  if (flags.objective == "period") return partition::Objective::kPeriod;
  if (flags.objective == "load") return partition::Objective::kLargestLoad;
  if (flags.objective == "memory") return partition::Objective::kPeakMemory;
  return partition::Objective::kStepTime;
}

partition::RecomputeRule recompute_of(const PlanFlags& flags) {
  if (flags.recompute == "always" || flags.recompute == "except-last") return partition::RecomputeRule::kAlways;
  if (flags.recompute == "never") return partition::RecomputeRule::kNever;
  return partition::RecomputeRule::kChoose;
}

void add_recompute(const PlanFlags& flags, partition::PlanOptions& options) {
  options.recompute = recompute_of(flags);
  if (flags.recompute == "always") options.recomputed = ir::RecomputedMicroBatches::kAll;
  if (flags.recompute == "except-last") options.recomputed = ir::RecomputedMicroBatches::kAllButLast;
  if (flags.recompute == "selective")
    options.recompute_budget = flags.recompute_budget.value_or(kRecomputeBudget) / 100;
}

Result<std::string> schedule_table(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return error({path, 0, 0, {}}, "cannot be read");
  return text.str();
}

Result<void> add_schedules(const PlanFlags& flags, partition::PlanOptions& options) {
  if (flags.search_budget) options.search.simulated_actions = *flags.search_budget;
  if (flags.schedules.size() == 1) options.schedule = flags.schedules.front();
  if (!partition::schedule_needs(options.schedule, partition::ScheduleFamily::Needs::kTable)) {
    if (!flags.schedules.empty()) options.search.schedules = flags.schedules;
    return {};
  }
  options.schedule_file = flags.schedule_file;
  RANNC_ASSIGN(options.schedule_table, schedule_table(flags.schedule_file));
  return {};
}

Result<void> add_named_tasks(const PlanFlags& flags, PlanRequest& request) {
  for (const std::string& text : flags.pins) {
    RANNC_ASSIGN(TaskPin pin, parse_pin(text));
    request.pins.push_back(std::move(pin));
  }
  for (const std::string& text : flags.together) {
    RANNC_ASSIGN(TasksTogether pair, parse_together(text));
    request.together.push_back(std::move(pair));
  }
  return {};
}

}  // namespace

Result<PlanRequest> plan_request(const PlanFlags& flags) {
  PlanRequest request;
  partition::PlanOptions& options = request.options;
  RANNC_ASSIGN(options.cluster, requested_cluster(flags));
  request.on_this_machine = has_local_workers(flags);
  request.processor_kinds = processor_kinds(flags, options.cluster);
  request.mini_batch = flags.mini_batch;
  options.micro_batches = flags.micro_batches;
  options.planner = flags.planner;
  options.objective = objective_of(flags);
  options.time_limit_ns = flags.step_limit_ns;
  add_recompute(flags, options);
  options.constraints.stages = flags.stages;
  options.constraints.max_stages = flags.max_stages;
  options.constraints.stages_per_device = flags.stages_per_device;
  options.schedule_parameters = {flags.warm_up, flags.periods.value_or(0), flags.period_ns.value_or(0)};
  options.constraints.replicas = flags.replicas;
  options.constraints.memory_bytes = flags.memory_bytes;
  options.optimizer = {flags.optimizer, flags.momentum};
  options.optimizer_states = options.optimizer.states();
  RANNC_TRY(add_schedules(flags, options));
  RANNC_TRY(add_named_tasks(flags, request));
  return request;
}

}  // namespace rannc::tools
