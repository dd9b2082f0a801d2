/// Options of planning a model. Each has the meaning and the default of a flag of `rannc-compile`, which errors name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rannc::compiler {

/// Determines the memory of an optimizer's state.
enum class Optimizer : uint8_t { kSgd, kAdam, kAdamW };

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

/// Kernels of convolutions, pooling and batch normalization: the fastest by measured times, or LibTorch's choice.
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

  std::string cluster = "local:2";            ///< preset, such as `local:2`, `local:cuda` or `h100-8`, or a TOML file
  std::optional<uint32_t> devices = {};       ///< use only the first devices of the cluster
  std::optional<uint64_t> memory_bytes = {};  ///< limit of every device
  std::string cuda_plugin = {};               ///< file, for `local:cuda`; empty: the dynamic linker finds it

  Optimizer optimizer = Optimizer::kAdam;
  double momentum = 0;  ///< of SGD; not 0: one more copy of the parameters
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

  std::string planner = "auto";
  Objective objective = Objective::kStep;
  std::optional<uint64_t> search_budget = {};  ///< largest number of simulated actions
  std::optional<double> time_limit_ns = {};    ///< wall-clock limit of the search; plans then vary between runs
  Costs costs = Costs::kOfCluster;
  std::string cost_database = {};  ///< made by `rannc-profile`
  MatmulPrecision matmul_precision = MatmulPrecision::kHighest;
  Kernels kernels = Kernels::kMeasured;
  uint32_t blocks = 32;
  std::string block_partitioner = "rannc";
  uint64_t seed = 0;       ///< of random operators
  bool refine = true;      ///< with measured costs, measure the finished stages to predict the step
  Programs programs = {};  ///< those that `refine` measures
  bool operator==(const PlanOptions&) const = default;
};

}  // namespace rannc::compiler
