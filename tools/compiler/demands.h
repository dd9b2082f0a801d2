/// What a user demands of a plan on the command line: of a model, or of a published profile.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "partition/model/block_demands.h"
#include "partition/stages/problem/problem.h"
#include "partition/stages/search/auto.h"

namespace rannc::tools {

/// Samples of a step where neither the user nor the model's file says otherwise.
constexpr uint32_t kMiniBatch = 32;

/// Flags in the spelling of `rannc-compile`.
struct PlanDemands {
  std::string cluster = "local:2";  ///< preset or TOML file
  std::optional<uint32_t> devices;  ///< only the first so many of the cluster
  std::string optimizer = "adam";
  double momentum = 0;  ///< of SGD, which keeps a state for it
  std::optional<uint32_t> mini_batch;
  std::vector<uint64_t> micro_batches;
  std::optional<uint32_t> stages, max_stages;
  std::vector<uint32_t> replicas;  ///< per stage
  std::optional<uint64_t> memory_bytes;
  std::vector<std::string> pins;      ///< `NAME=STAGE`
  std::vector<std::string> together;  ///< `NAME,NAME`
  std::string objective = "step";     ///< `step`, `period`, `load`, `memory`
  std::optional<double> step_limit_ns;
  std::string recompute = "auto";  ///< `auto`, `always`, `never`
  std::string planner = "auto";
  std::vector<std::string> schedules;     ///< that may be chosen; empty: the planner's own
  std::string schedule_file;              ///< of the schedule `table`
  std::optional<uint64_t> search_budget;  ///< simulated actions
  std::optional<double> time_limit_ns;    ///< wall clock of the search
};

/// Adds the flags of all these fields but the model's own.
void add_demand_flags(CLI::App& app, PlanDemands& demands);

/// What contradicts itself without a look at any file: a usage error. Fills in what follows (`stages` from `replicas`).
Result<void> check_demands(PlanDemands& demands);

/// The cluster, or the part of it that `devices` leaves. Workers of `local:N` have `memory_bytes` or, where that is not
/// given, their part of this machine's memory (`worker_memory_bytes`).
Result<partition::Cluster> demanded_cluster(const PlanDemands& demands);

partition::Objective demanded_objective(const PlanDemands& demands);
partition::RecomputeRule demanded_recompute(const PlanDemands& demands);
partition::StageConstraints demanded_constraints(const PlanDemands& demands);  ///< without pins and forbidden cuts
partition::AutoOptions demanded_search(const PlanDemands& demands);
ir::PlanOptimizer demanded_optimizer(const PlanDemands& demands);

/// Text of `schedule_file`.
Result<std::string> schedule_table(const PlanDemands& demands);

/// A name by which an atom may be called; several atoms may bear it, and an atom several.
struct AtomName {
  std::string name;
  uint32_t atom = 0;
};

/// The atoms that `--pin` and `--together` name: exactly, or by a pattern with `*` and `?`. Fails on names that no atom
/// bears, on a stage that does not exist, and on one atom pinned twice.
Result<partition::AtomDemands> named_demands(const PlanDemands& demands, const std::vector<AtomName>& names);

}  // namespace rannc::tools
