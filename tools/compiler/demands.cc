#include "tools/compiler/demands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "partition/schedule/family.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/registry.h"
#include "tools/common/machine.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

/// Whether `text` is `pattern`, in which * stands for any text and ? for one character.
bool matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

/// Atoms of that very name; where there is none, of the pattern. Ascending, distinct.
Result<std::vector<uint32_t>> atoms_named(const std::string& wanted, const std::string& flag,
                                          const std::vector<AtomName>& names) {
  std::set<uint32_t> found;
  for (const AtomName& name : names) {
    if (name.name == wanted) found.insert(name.atom);
  }
  if (found.empty() && wanted.find_first_of("*?") != std::string::npos) {
    for (const AtomName& name : names) {
      if (matches(wanted, name.name)) found.insert(name.atom);
    }
  }
  if (!found.empty()) return std::vector<uint32_t>(found.begin(), found.end());
  Diagnostic none = error(fmt::format("{}: no task is called '{}'", flag, wanted));
  if (!names.empty()) none.notes.push_back({{}, fmt::format("tasks are called as '{}'", names.front().name)});
  return none;
}

std::string name_of(uint32_t atom, const std::vector<AtomName>& names) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const AtomName& name) { return name.atom == atom; });
  return found == names.end() ? std::to_string(atom) : found->name;
}

Result<void> add_pin(const PlanDemands& demands, const std::string& pin, const std::vector<AtomName>& names,
                     std::map<uint32_t, uint32_t>& stage_of) {
  const std::string flag = "--pin " + pin;
  const size_t at = pin.rfind('=');
  uint32_t stage = 0;
  std::from_chars(pin.data() + at + 1, pin.data() + pin.size(), stage);
  if (stage >= *demands.stages) {
    return error(fmt::format("{}: stage {} of {}; stages are counted from 0", flag, stage, *demands.stages));
  }
  RANNC_ASSIGN(const std::vector<uint32_t> atoms, atoms_named(pin.substr(0, at), flag, names));
  for (const uint32_t atom : atoms) {
    const auto [known, fresh] = stage_of.emplace(atom, stage);
    if (!fresh && known->second != stage) {
      return error(fmt::format("{}: '{}' is pinned to stage {} already", flag, name_of(atom, names), known->second));
    }
  }
  return {};
}

/// Whether `pin` reads NAME=STAGE.
bool is_pin(const std::string& pin) {
  const size_t at = pin.rfind('=');
  uint32_t stage = 0;
  if (at == std::string::npos || at == 0 || at + 1 == pin.size()) return false;
  const auto [end, failed] = std::from_chars(pin.data() + at + 1, pin.data() + pin.size(), stage);
  return failed == std::errc() && end == pin.data() + pin.size();
}

Result<void> check_schedules(const PlanDemands& demands) {
  using Needs = partition::ScheduleFamily::Needs;
  bool table = false;
  for (const std::string& schedule : demands.schedules) {
    if (partition::find_schedule(schedule) == nullptr) {
      return error(fmt::format("--schedule: '{}' is no schedule; there are {}", schedule,
                               fmt::join(partition::schedule_names(), ", ")));
    }
    table = table || partition::schedule_needs(schedule, Needs::kTable);
  }
  if (table && demands.schedules.size() > 1) return error("--schedule table stands alone: it is a schedule by hand");
  if (table && demands.schedule_file.empty()) return error("--schedule table needs --schedule-file FILE");
  if (!table && !demands.schedule_file.empty()) return error("--schedule-file needs --schedule table");
  for (const std::string& schedule : demands.schedules) {
    if (table || demands.planner != "auto" || partition::find_schedule(schedule)->chosen_by_auto) continue;
    return error(fmt::format("--schedule {}: planner auto lays out stages for {} alone", schedule,
                             fmt::join(partition::schedules_of_auto(), ", ")));
  }
  if (demands.planner == "auto" && demands.schedules.size() == 1 &&
      partition::schedule_needs(demands.schedules.front(), Needs::kWarmUp)) {
    return error(
        "--schedule warmup: planner auto deepens the warm-up of another schedule; name that too, as 1f1b,warmup");
  }
  if (demands.planner != "auto" && demands.schedules.size() > 1) {
    return error(fmt::format("--schedule {}: planner {} chooses none; name one, or take planner auto",
                             fmt::join(demands.schedules, ","), demands.planner));
  }
  return {};
}

Result<void> check_stages(PlanDemands& demands) {
  if (!demands.replicas.empty()) {
    if (!demands.stages) demands.stages = static_cast<uint32_t>(demands.replicas.size());
    if (*demands.stages != demands.replicas.size()) {
      return error(fmt::format("--replicas gives {} counts for the {} stages of --stages", demands.replicas.size(),
                               *demands.stages));
    }
  }
  if (demands.stages && demands.max_stages && *demands.stages > *demands.max_stages) {
    return error(fmt::format("{} stages contradict --max-stages {}", *demands.stages, *demands.max_stages));
  }
  if (!demands.pins.empty() && !demands.stages)
    return error("--pin needs --stages: which stages there are to choose from");
  for (const std::string& pin : demands.pins) {
    if (!is_pin(pin)) return error(fmt::format("--pin {}: expected TASK=STAGE, stages counted from 0", pin));
  }
  for (const std::string& pair : demands.together) {
    const size_t comma = pair.find(',');
    if (comma == std::string::npos || comma == 0 || comma + 1 == pair.size()) {
      return error(fmt::format("--together {}: expected TASK,TASK", pair));
    }
  }
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

void add_demand_flags(CLI::App& app, PlanDemands& demands) {
  constexpr uint32_t kMost = 1U << 24;
  const CLI::Range positive(uint64_t{1}, uint64_t{kMost});
  app.option_defaults()->group("Cluster");
  app.add_option("--cluster", demands.cluster, "cluster file (TOML) or preset: local:2, dapple-a, rannc-4x8 …")
      ->capture_default_str();
  app.add_option("--devices", demands.devices, "only the first N devices of the cluster")->check(positive);
  app.add_option("--memory", demands.memory_bytes, "limit of every device, such as 16GiB")
      ->transform(parsed_by(&parse_bytes, "SIZE"));

  app.option_defaults()->group("Training step");
  app.add_option("--optimizer", demands.optimizer, "sgd, adam or adamw: how much state it keeps")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->capture_default_str();
  app.add_option("--momentum", demands.momentum, "of sgd, which keeps a state for it")
      ->check(CLI::Range(0.0, 0.999999))
      ->capture_default_str();
  app.add_option("--mini-batch", demands.mini_batch,
                 fmt::format("samples of a step (default: {}, or as many as the file has if none of its dimensions is "
                             "open)",
                             kMiniBatch))
      ->check(positive);
  app.add_option("--micro-batches", demands.micro_batches, "numbers of micro-batches that may be chosen, such as 4,8")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive);

  app.option_defaults()->group("Demands on the plan");
  app.add_option("--stages", demands.stages, "exactly so many stages")->check(positive);
  app.add_option("--max-stages", demands.max_stages, "at most so many stages")->check(positive);
  app.add_option("--replicas", demands.replicas, "devices of each stage, such as 2,1,1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive);
  app.add_option("--pin", demands.pins, "TASK=STAGE: the task lies in that stage; a pattern pins all it matches")
      ->allow_extra_args(false);
  app.add_option("--together", demands.together, "TASK,TASK: no cut between the two")->allow_extra_args(false);
  app.add_option("--recompute", demands.recompute, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  app.add_option("--schedule", demands.schedules,
                 "those that may be chosen, such as gpipe,1f1b (--list schedule); table: one by hand")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--schedule-file", demands.schedule_file, "the schedule by hand");
  app.add_option("--step-limit", demands.step_limit_ns, "a step may not take longer, such as 120ms")
      ->transform(parsed_by(&parse_duration, "TIME"));

  app.option_defaults()->group("Search");
  app.add_option("--planner", demands.planner, "stage planner (--list planner)")
      ->check(CLI::IsMember(partition::stage_planner_names()))
      ->capture_default_str();
  app.add_option("--objective", demands.objective, "of planner auto: step, period, load or memory")
      ->check(CLI::IsMember({"step", "period", "load", "memory"}))
      ->capture_default_str();
  app.add_option("--search-budget", demands.search_budget, "simulated actions that planner auto may spend")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  app.add_option("--time-limit", demands.time_limit_ns,
                 "wall-clock time of the search, such as 2s: the best plan until then, not the same on every run")
      ->transform(parsed_by(&parse_duration, "TIME"));
}

Result<void> check_demands(PlanDemands& demands) {
  if (demands.momentum != 0 && demands.optimizer != "sgd") return error("--momentum is of --optimizer sgd");
  RANNC_TRY(check_schedules(demands));
  RANNC_TRY(check_stages(demands));
  const uint32_t samples = demands.mini_batch.value_or(kMiniBatch);
  for (const uint64_t count : demands.micro_batches) {
    if (count <= samples) continue;
    return error(fmt::format("--micro-batches {}: more than the {} samples of --mini-batch", count, samples));
  }
  const bool searches = demands.planner == "auto" || demands.planner == "exact";
  if (searches) return {};
  if (demands.objective != "step") {
    return error(fmt::format("--objective {}: planner {} has an objective of its own; planner auto uses it",
                             demands.objective, demands.planner));
  }
  if (demands.step_limit_ns) return error(fmt::format("--step-limit: planner {} uses none", demands.planner));
  if (demands.search_budget) return error(fmt::format("--search-budget: planner {} has none", demands.planner));
  return {};
}

Result<partition::Cluster> demanded_cluster(const PlanDemands& demands) {
  const std::string extension = std::filesystem::path(demands.cluster).extension();
  const bool file = extension == ".toml" || demands.cluster.find('/') != std::string::npos;
  RANNC_ASSIGN(partition::Cluster cluster,
               file ? partition::read_cluster(demands.cluster) : partition::preset_cluster(demands.cluster));
  if (!file && demands.cluster.starts_with("local:")) {
    // The limit is part of the plan: given by hand, it is the same on every machine.
    cluster.kinds.front().memory_bytes = demands.memory_bytes.value_or(worker_memory_bytes(cluster.size()));
  }
  if (!demands.devices) return cluster;
  if (*demands.devices > cluster.size()) {
    return error(fmt::format("--devices {}: cluster '{}' has {}", *demands.devices, demands.cluster, cluster.size()));
  }
  return cluster.first(*demands.devices);
}

partition::Objective demanded_objective(const PlanDemands& demands) {
  if (demands.objective == "period") return partition::Objective::kPeriod;
  if (demands.objective == "load") return partition::Objective::kLargestLoad;
  if (demands.objective == "memory") return partition::Objective::kPeakMemory;
  return partition::Objective::kStepTime;
}

partition::RecomputeRule demanded_recompute(const PlanDemands& demands) {
  if (demands.recompute == "always") return partition::RecomputeRule::kAlways;
  if (demands.recompute == "never") return partition::RecomputeRule::kNever;
  return partition::RecomputeRule::kChoose;
}

partition::StageConstraints demanded_constraints(const PlanDemands& demands) {
  partition::StageConstraints constraints;
  constraints.stages = demands.stages;
  constraints.max_stages = demands.max_stages;
  constraints.replicas = demands.replicas;
  constraints.memory_bytes = demands.memory_bytes;
  return constraints;
}

partition::AutoOptions demanded_search(const PlanDemands& demands) {
  partition::AutoOptions options;
  const bool by_hand = !demands.schedules.empty() &&
                       partition::schedule_needs(demands.schedules.front(), partition::ScheduleFamily::Needs::kTable);
  if (!demands.schedules.empty() && !by_hand) options.schedules = demands.schedules;
  if (demands.search_budget) options.simulated_actions = *demands.search_budget;
  return options;
}

ir::PlanOptimizer demanded_optimizer(const PlanDemands& demands) { return {demands.optimizer, demands.momentum}; }

Result<std::string> schedule_table(const PlanDemands& demands) {
  std::ifstream file(demands.schedule_file);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return error({demands.schedule_file, 0, 0, {}}, "cannot be read");
  return text.str();
}

Result<partition::AtomDemands> named_demands(const PlanDemands& demands, const std::vector<AtomName>& names) {
  partition::AtomDemands found;
  std::map<uint32_t, uint32_t> stage_of;
  for (const std::string& pin : demands.pins) RANNC_TRY(add_pin(demands, pin, names, stage_of));
  for (const auto& [atom, stage] : stage_of) found.pins.push_back({atom, stage});
  for (const std::string& pair : demands.together) {
    const std::string flag = "--together " + pair;
    const size_t comma = pair.find(',');
    RANNC_ASSIGN(const std::vector<uint32_t> first, atoms_named(pair.substr(0, comma), flag, names));
    RANNC_ASSIGN(const std::vector<uint32_t> second, atoms_named(pair.substr(comma + 1), flag, names));
    for (const uint32_t atom : first) found.together.push_back({first.front(), atom});
    for (const uint32_t atom : second) found.together.push_back({first.front(), atom});
  }
  return found;
}

}  // namespace rannc::tools
