/// Options of planning a model. Each has the meaning and the default of a flag of `rannc-compile`, which errors name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rannc/compiler/option_row.h"

namespace rannc::compiler {

/// Determines the memory of an optimizer's state.
enum class Optimizer : uint8_t { kSgd, kAdam, kAdamW, kLion, kMuon, kAdafactor };

/// What the planner `auto` minimizes: time of a step, time between micro-batches, load of the busiest device, memory.
enum class Objective : uint8_t { kStep, kPeriod, kLoad, kMemory };

/// Recompute of forward passes: what memory requires, none, all, all but the last micro-batch's, what is cheap.
enum class Recompute : uint8_t { kAuto, kNever, kAlways, kExceptLast, kSelective };

/// Whether the replicas of a stage divide its optimizer state: where no plan fits the memory otherwise, always, never.
enum class ShardOptimizer : uint8_t { kAuto, kOn, kOff };

/// Source of the times of tasks.
enum class Costs : uint8_t {
  kOfCluster,  ///< `kMeasured` if the cluster consists of this machine's processor, else `kAnalytic`
  kMeasured,   ///< measured on this machine's processor
  kAnalytic,   ///< estimated from the rates of the cluster's devices
  kDatabase,   ///< read from `PlanOptions::cost_database`
};

/// Kernels and memory formats of convolutions, pooling and batch normalization: the fastest by measured times, for
/// clusters of CUDA devices the memory formats that move the fewest bytes; or LibTorch's choice, channels first.
enum class Kernels : uint8_t { kMeasured, kDefault };

/// Products of float32 matrices on GPUs: IEEE, or TF32.
enum class MatmulPrecision : uint8_t { kHighest, kHigh };

/// Puts a task, or all tasks that match a pattern with `*` and `?`, into a stage.
struct Pin {
  std::string task = {};
  uint32_t stage = 0;  ///< from 0; needs `PlanOptions::stages`
  bool operator==(const Pin&) const = default;
};

/// Forbids cuts between two tasks.
struct Together {
  std::string first, second;
  bool operator==(const Together&) const = default;
};

/// How the functions of the stages run: call by call, or as C++ that is compiled here into a shared library per stage.
enum class Form : uint8_t { kInterpreted, kNative };

struct Programs {
  /// A plan whose stages have no functions, about which its facts warn, always has `kTorchScript`.
  Form form = Form::kInterpreted;
  std::string cxx = {};    ///< path of a C++ compiler, for `kNative`
  std::string cache = {};  ///< folder that keeps compiled stages, for `kNative`; empty: none
  bool loops = true;       ///< compile operators with a loop rule into loops, several into one where possible
  bool operator==(const Programs&) const = default;
};

struct PlanOptions {
  /// File with a plan (`Plan::text`), perhaps edited, that is taken instead of a search. It decides the training step,
  /// the cut and the schedule: of the fields below only cluster, costs, kernels of the costs, `refine`, `programs` and
  /// selective recompute may be set. Empty: none.
  std::string plan = {};

  std::string cluster = "local:2";       ///< preset, such as `local:2`, `local:cuda` or `h100-8`, or a TOML file
  std::optional<uint32_t> devices = {};  ///< use only the first devices of the cluster
  /// Of a bundle: names of devices of the cluster that are gone. Plans for the others, near the bundle's plan, in much
  /// less time than a search takes. Devices of that plan that the cluster lacks count, too. Empty: none.
  std::vector<std::string> lost = {};
  std::optional<uint64_t> memory_bytes = {};  ///< limit of every device
  std::string cuda_plugin = {};               ///< file, for `local:cuda`; empty: the dynamic linker finds it

  Optimizer optimizer = Optimizer::kAdam;
  double momentum = 0;                   ///< of SGD: not 0: one more copy of the parameters; of Muon: 0: its default
  bool amsgrad = false;                  ///< of Adam and AdamW: one more copy
  std::vector<std::string> groups = {};  ///< `PATTERN: NAME=VALUE, …`, parameters with other settings
  double average = 0;                    ///< weight of the old value in averaged weights; not 0: one more copy
  ShardOptimizer shard_optimizer = ShardOptimizer::kAuto;
  std::optional<uint32_t> mini_batch = {};   ///< samples per step; absent: `ReadOptions::mini_batch`
  std::vector<uint64_t> micro_batches = {};  ///< allowed numbers of micro-batches; empty: any

  std::optional<uint32_t> stages = {}, max_stages = {};
  std::optional<uint32_t> stages_per_device = {};
  std::vector<uint32_t> replicas = {};  ///< devices of each stage
  std::vector<Pin> pins = {};
  std::vector<Together> together = {};
  Recompute recompute = Recompute::kAuto;
  std::optional<double> recompute_budget = {};  ///< percent of a stage's time, for `kSelective`; absent: 5
  std::vector<std::string> schedules = {};      ///< allowed ones; empty: those of the planner
  std::string schedule_file = {};               ///< for the schedule `table`
  std::vector<uint32_t> warm_up = {};           ///< depth of each stage, for the schedule `warmup`
  std::optional<double> period_ns = {};         ///< for periodic schedules
  std::optional<uint32_t> periods = {};         ///< micro-batches per pattern, for the schedule `k-periodic`
  std::optional<double> step_limit_ns = {};     ///< longest allowed step
  /// Of gradients that replicas sum together; 0: one gradient; absent: 4 MiB, on GPUs 32 MiB.
  std::optional<uint64_t> bucket_bytes = {};
  bool late_sums = false;  ///< price sums of gradients after the backward pass instead of beside it

  std::string planner = "auto";
  Objective objective = Objective::kStep;
  std::optional<uint64_t> search_budget = {};  ///< largest number of simulated actions
  std::optional<double> time_limit_ns = {};    ///< wall-clock limit of the search; plans then vary between runs
  Costs costs = Costs::kOfCluster;
  /// Made by `rannc-profile`. With measured costs: a file in which they are kept, which need not exist; empty: none.
  std::string cost_database = {};
  MatmulPrecision matmul_precision = MatmulPrecision::kHighest;
  Kernels kernels = Kernels::kMeasured;
  uint32_t blocks = 32;
  std::string block_partitioner = "rannc";
  uint64_t seed = 0;       ///< of random operators
  bool refine = true;      ///< with measured costs, measure the finished stages to predict the step
  Programs programs = {};  ///< those that run: for prices, memory, and what `refine` measures
  bool operator==(const PlanOptions&) const = default;

  /// Like `ReadOptions::rows`.
  template <class Table>
  static void rows(Table& table);
};

template <class Table>
void PlanOptions::rows(Table& table) {
  constexpr uint32_t kGiven = kPlanned | kSavedPlan;  // also beside a saved plan
  table.group("Cluster");
  table.row(
      {"--cluster", "C", kGiven,
       "preset (`--list cluster`), such as `local:2`, or [cluster file](../../partition/cluster-files.md) (TOML)"},
      &PlanOptions::cluster);
  table.row({"--devices", "N", kGiven | kPlacementGraph, "use only the first N devices of the cluster"},
            &PlanOptions::devices, Whole{});
  table.row({"--lost", "DEVICE,…", kBundleFolder,
             "devices of the cluster that are gone: plan for the others [from the bundle's plan](#lost-devices)"},
            &PlanOptions::lost);
  table.row({"--memory", "SIZE", kGiven | kPlacementGraph, "memory limit of every device, such as `16GiB`"},
            &PlanOptions::memory_bytes, Bytes{});

  table.group("Training step");
  table.row({"--optimizer", "", kModelFile | kProfileText | kSavedStages,
             "optimizer, which determines the memory for its state"},
            &PlanOptions::optimizer, Choices{"sgd", "adam", "adamw", "lion", "muon", "adafactor"});
  table.row({"--momentum", "M", kModelFile | kProfileText | kSavedStages,
             "momentum of `sgd`, which adds one copy of the parameters, or of `muon` (default: 0; `muon`: 0.95)"},
            &PlanOptions::momentum, Real{0, 0.999999});
  table.row({"--amsgrad", "", kModelFile | kProfileText | kSavedStages,
             "`adam` and `adamw` also keep the largest average, which adds one copy of the parameters"},
            &PlanOptions::amsgrad);
  table.row({"--group", "PATTERN: NAME=VALUE…", kModelFile | kSavedStages,
             "[settings of the parameters](rannc-run.md#groups) whose `state_dict` names match; repeatable"},
            &PlanOptions::groups);
  table.row({"--ema", "W", kModelFile | kProfileText | kSavedStages,
             "keep [averaged weights](rannc-run.md#averaged-weights), one copy of the parameters"},
            &PlanOptions::average, Real{0, 0.9999999});
  table.row({"--shard-optimizer", "", kPlanned,
             "whether the replicas of a stage [divide its optimizer state](#sharded-optimizer-state): `auto` (where no "
             "plan fits the memory otherwise), `on` or `off`"},
            &PlanOptions::shard_optimizer, Choices{"auto", "on", "off"});
  table.row({"--mini-batch", "N", kPlanned | kSavedStages,
             "samples per step (default: 32, or the static batch size of the file if it is above 1)"},
            &PlanOptions::mini_batch, Whole{});
  table.row({"--micro-batches", "A,B", kPlanned, "allowed numbers of micro-batches, such as `4,8` (default: any)"},
            &PlanOptions::micro_batches, Whole{});

  table.group("Demands on the plan");
  table.row({"--stages", "N", kPlanned, "number of stages (default: any)"}, &PlanOptions::stages, Whole{});
  table.row({"--max-stages", "N", kPlanned, "largest number of stages (default: any)"}, &PlanOptions::max_stages,
            Whole{});
  table.row(
      {"--stages-per-device", "N", kPlanned,
       "stages on each device: 2 for the schedules `zb-v`, `v-half` and `v-min`, 2 or more for `interleaved`; the "
       "largest number for `periodic` (default: the planner's; 1 if `--stages` or `--replicas` is given and "
       "`--schedule` is not)"},
      &PlanOptions::stages_per_device, Whole{});
  table.row({"--replicas", "A,B", kPlanned, "devices of each stage, such as `2,1,1` (default: any)"},
            &PlanOptions::replicas, Whole{});
  table.row(
      {"--pin", "TASK=STAGE", kPlanned,
       "put a task, a module, or all tasks and modules that match a [pattern](#names-of-tasks), into a stage; needs "
       "`--stages`"},
      &PlanOptions::pins);
  table.row({"--together", "TASK,TASK", kPlanned, "no cut between the two [tasks or modules](#names-of-tasks)"},
            &PlanOptions::together);
  table.row({"--recompute", "", kGiven,
             "[recompute](#recompute) of forward passes: `auto` (what memory requires), `never`, `always`, "
             "`except-last` (all micro-batches but the last) or `selective` (what is cheap)"},
            &PlanOptions::recompute, Choices{"auto", "never", "always", "except-last", "selective"});
  table.row({"--recompute-budget", "PERCENT", kGiven,
             "largest recompute time of a stage, in percent of its forward and backward time, for `--recompute "
             "selective` (default: 5)"},
            &PlanOptions::recompute_budget, Real{0, 100});
  table.row({"--schedule", "A,B", kPlanned,
             "allowed schedules (`--list schedule`), such as `gpipe,1f1b`; `found`: searched for the plan; `table`: a "
             "hand-written schedule (default: the planner's)"},
            &PlanOptions::schedules);
  table.row({"--schedule-file", "FILE", kPlanned, "file of the hand-written schedule, for `--schedule table`"},
            &PlanOptions::schedule_file);
  table.row({"--warm-up", "A,B", kPlanned,
             "forward passes of each stage before its first backward pass, such as `3,2,1`, for `--schedule warmup` "
             "(default: by the latency behind the stage)"},
            &PlanOptions::warm_up, Whole{});
  table.row({"--period", "TIME", kPlanned,
             "time between micro-batches, such as `40ms`, for `--schedule 1f1b-star`, `k-periodic` and `periodic` "
             "(default: the time of the busiest device)"},
            &PlanOptions::period_ns, Duration{});
  table.row({"--periods", "K", kPlanned,
             "micro-batches per pattern, K, for `--schedule k-periodic` (default: one less than 1f1b-star holds)"},
            &PlanOptions::periods, Whole{});
  table.row({"--step-limit", "TIME", kPlanned, "longest allowed step, such as `120ms`"}, &PlanOptions::step_limit_ns,
            Duration{});
  table.row({"--bucket", "SIZE", kPlannedModel | kSavedPlan,
             "size of gradients that replicas sum together while the backward pass goes on, such as `8MiB`; 0: one "
             "gradient at a time (default: 4MiB, on GPUs 32MiB)"},
            &PlanOptions::bucket_bytes, Bytes{.or_zero = true});
  table.row({"--late-sums", "", kPlanned | kSavedPlan | kSavedStages,
             "expect that replicas sum gradients only after the backward pass, as `rannc-run --late-sums` does"},
            &PlanOptions::late_sums);
  table.row({"--plan", "FILE", kGiven,
             "file of `--emit plan`, perhaps edited by hand: take this [saved plan](#saved-plans) instead of searching "
             "for one"},
            &PlanOptions::plan);

  table.group("Search");
  table.row(
      {"--planner", "P", kPlanned, "[stage planner](../../partition/README.md#stage-planners) (`--list planner`)"},
      &PlanOptions::planner);
  table.row(
      {"--objective", "", kPlanned | kSavedStages, "[objective](../../partition/objectives.md) of planner `auto`"},
      &PlanOptions::objective, Choices{"step", "period", "load", "memory"});
  table.row({"--search-budget", "N", kPlanned, "largest number of simulated actions of planner `auto`"},
            &PlanOptions::search_budget, Whole{1, uint64_t{1} << 40});
  table.row({"--time-limit", "TIME", kPlanned | kPlacementGraph,
             "wall-clock limit of the search, such as `2s`; plans then vary between runs"},
            &PlanOptions::time_limit_ns, Duration{});

  table.group("Costs and blocks");
  table.row({"--costs", "measured|measured:FILE|analytic|FILE", kPlannedModel | kSavedPlan,
             "measure this machine's processor; the same, and keep what is measured in a file, so that it is measured "
             "once; estimate; or read a [profile database](../../partition/profile-database.md) (default: `measured` "
             "if the cluster consists of this "
             "processor, else `analytic`)"},
            &PlanOptions::costs, &PlanOptions::cost_database);
  table.row({"--matmul-precision", "", kPlannedModel | kSavedPlan,
             "of the run, whose float32 products are estimated by it: `highest`, or `high` for TF32 on GPUs"},
            &PlanOptions::matmul_precision, Choices{"highest", "high"});
  table.row({"--kernels", "", kModelFile,
             "`measured`: choose kernels and memory formats of convolutions, pooling and batch normalization by "
             "measured `--costs`, on GPUs memory formats by the bytes that they move; `default`: LibTorch chooses"},
            &PlanOptions::kernels, Choices{"measured", "default"});
  table.row(
      {"--refine,!--no-refine", "", kPlannedModel | kSavedPlan, "measure the finished stages to predict the step time"},
      &PlanOptions::refine);
  table.row({"--blocks", "N", kPlannedModel, "number of blocks"}, &PlanOptions::blocks, Whole{});
  table.row({"--block-partitioner", "B", kPlannedModel,
             "`rannc`, `rannc-no-uncoarsening`, `multilevel`, `order-dp` or `metis`"},
            &PlanOptions::block_partitioner);
  table.row({"--seed", "N", kModelFile, "seed of random operators"}, &PlanOptions::seed, Whole{0, UINT64_MAX});
}

}  // namespace rannc::compiler
