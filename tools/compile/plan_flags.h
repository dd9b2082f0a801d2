/// Flags of `rannc-compile` for plans of models and of published profiles.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rannc/compiler/plan_options.h"
#include "tools/compiler/plan_request.h"

namespace rannc::tools {

struct PlanFlags {
  std::string cluster = "local:2";  ///< preset or TOML file
  std::optional<uint32_t> devices;  ///< use only the first devices of the cluster
  std::string optimizer = "adam";
  double momentum = 0;                   ///< of SGD; not 0: one optimizer state
  std::string shard_optimizer = "auto";  ///< `auto`, `on`, `off`
  std::optional<uint32_t> mini_batch;
  std::vector<uint64_t> micro_batches;
  std::optional<uint32_t> stages, max_stages, stages_per_device;
  std::vector<uint32_t> replicas;  ///< per stage
  std::optional<uint64_t> memory_bytes;
  std::vector<std::string> pins;      ///< `NAME=STAGE`
  std::vector<std::string> together;  ///< `NAME,NAME`
  std::string objective = "step";     ///< `step`, `period`, `load`, `memory`
  std::optional<double> step_limit_ns;
  std::string recompute = "auto";          ///< `auto`, `never`, `always`, `except-last`, `selective`
  std::optional<double> recompute_budget;  ///< percent of a stage's forward and backward time, for `selective`
  std::string planner = "auto";
  std::vector<std::string> schedules;     ///< allowed schedules; empty: those of the planner
  std::string schedule_file;              ///< for the schedule `table`
  std::vector<uint32_t> warm_up;          ///< depths by stage, for the schedule `warmup`
  std::optional<uint32_t> periods;        ///< batches per pattern, for the schedule `k-periodic`
  std::optional<double> period_ns;        ///< for periodic schedules
  std::optional<uint64_t> search_budget;  ///< simulated actions
  std::optional<double> time_limit_ns;    ///< wall-clock limit of the search
};

/// Adds one flag per field of `flags`.
void add_plan_flags(CLI::App& app, PlanFlags& flags);

/// Converts the flags. Errors name the flag.
Result<compiler::PlanOptions> plan_options(const PlanFlags& flags);

/// Returns a usage error if flags contradict each other. Reads no file. Derives `stages` from `replicas`.
Result<void> check_plan_flags(PlanFlags& flags);

/// Converts the flags to what the compiler library makes of these options. Reads cluster and schedule files.
Result<PlanRequest> plan_request(const PlanFlags& flags);

}  // namespace rannc::tools
