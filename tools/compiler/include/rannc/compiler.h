/// Compiles a model file into a bundle: read, plan, write.
///
///   auto model = rannc::compiler::read("model.onnx", {.loss = "cross_entropy(output=logits,labels=y)"}).value();
///   auto plan = rannc::compiler::plan(model, {.cluster = "local:2", .stages = 2}).value();
///   rannc::compiler::write(plan, "model.rannc", {.replace = true}).value();
///
/// `rannc-compile` is a program over these functions. They neither print nor exit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/diagnostic.h"
#include "rannc/compiler/plan_options.h"
#include "rannc/compiler/read_options.h"

namespace rannc::compiler {

/// Parts of a compilation, in order. Costs are measured or read in `kPricing`; `kRefining` is skipped without `refine`.
enum class Phase : uint8_t { kReading, kPricing, kSearching, kRefining, kWriting };

/// Receivers of progress, called one at a time. Each may be empty.
struct Progress {
  std::function<void(Phase)> phase = {};                ///< before each phase
  std::function<void(const std::string&)> step = {};    ///< `measuring 23 of 41 tasks`; often
  std::function<void(const std::string&)> remark = {};  ///< findings about costs and kernels
  std::function<void(const std::string&)> note = {};  ///< sizes that planning guesses, with the flags to choose others
  std::function<void(std::string_view pass, const std::string& graph)> graph = {};  ///< see `ReadOptions::print_after`
  std::stop_token stop = {};  ///< ends the search of `plan` early, with the best plan so far
};

/// A model after all passes. Copies share it; it does not change.
class Model {
 public:
  struct State;  ///< of the implementation
  explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

  bool trains() const;                               ///< whether it has a loss
  uint64_t tasks() const;                            ///< operator applications
  uint64_t parameters() const;                       ///< trained numbers
  const std::vector<std::string>& warnings() const;  ///< probable mistakes
  std::string report() const;                        ///< what was recovered, changed and not done, in lines
  std::string text() const;                          ///< the graph as text IR

 private:
  std::shared_ptr<const State> state_;
};

/// A stage of a plan.
struct StageFacts {
  std::string first_task, last_task;  ///< names in the model file
  uint64_t tasks = 0;
  std::vector<std::string> devices;         ///< replicas
  int64_t forward_ns = 0, backward_ns = 0;  ///< of a micro-batch
  uint64_t peak_bytes = 0;                  ///< of the fullest of its devices, with all stages of that device
  uint64_t memory_bytes = 0;                ///< limit of that device; 0: none
  bool recompute = false;
};

/// What is known about a plan.
struct PlanFacts {
  int64_t step_ns = 0;    ///< predicted time of a step
  bool measured = false;  ///< from stages that ran side by side, else simulated at `prices`
  double bubble = 0;      ///< share of the devices' time that is idle
  std::string planner, schedule;
  uint32_t mini_batch = 0;  ///< samples of a step
  uint64_t micro_batches = 0;
  std::vector<StageFacts> stages;
  std::string objective_name;         ///< with its unit
  double objective = 0;               ///< at `prices`
  double lower_bound = 0;             ///< no plan of these blocks that meets the demands has less; 0: unknown
  std::string bound_name;             ///< the argument that proves it
  std::optional<double> gap;          ///< (objective - lower_bound) / lower_bound
  std::string prices;                 ///< source of the costs
  double search_seconds = 0;          ///< wall clock
  std::vector<std::string> warnings;  ///< lost exactness, reproducibility or functions
  std::vector<std::string> remarks;   ///< demands that were not met exactly
};

/// A verified plan of a model. Copies share it; it does not change.
class Plan {
 public:
  struct State;  ///< of the implementation
  explicit Plan(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

  const PlanFacts& facts() const;
  std::string text() const;  ///< the plan as text IR

 private:
  std::shared_ptr<const State> state_;
};

struct WriteOptions {
  bool replace = false;  ///< overwrite an existing bundle; if false, anything at the path is an error
  Programs programs = {};
  std::string stage_program = {};  ///< program `rannc-stage`, copied as the executable of each stage; empty: none
  bool stage_onnx = false;         ///< add an ONNX file per stage, cut from the model's file, which must be ONNX
};

/// Memory of the caller, which `bytes` keeps alive. It must not change.
struct SharedBytes {
  std::shared_ptr<const std::byte> bytes;
  uint64_t size = 0;
};

/// A model in memory.
struct ModelSource {
  std::string name;     ///< for messages; its extension is the format's, such as `net.pt2`
  SharedBytes content;  ///< of a file of that format
  /// Row-major numbers of tensors that a program of `torch.export` lacks, by `state_dict` names. They are not copied.
  std::map<std::string, SharedBytes> tensors = {};
};

/// Reads a model file (.onnx, TorchScript, torch.export or .rir) and runs the passes.
Result<Model> read(const std::string& path, const ReadOptions& options = {}, const Progress& progress = {});
/// The same of a model in memory. Its plans can be written while the memory lives.
Result<Model> read(const ModelSource& source, const ReadOptions& options = {}, const Progress& progress = {});

/// Reads the model of a bundle, to plan it again without the model's file, for example for fewer devices. Loss,
/// optimizer, kernels, sizes and by default the mini-batch are those of the bundle: `plan` ignores the options about
/// them. Checkpoints of the bundle can be resumed with the new one. `libraries`: other paths of the libraries of
/// operators that the bundle needs.
Result<Model> read_bundle(const std::string& path, const std::vector<std::string>& libraries = {},
                          const Progress& progress = {});

/// Plans a model. An infeasible problem is an error with the missing memory and remedies. Measures on this machine
/// where `options` require it, meanwhile with one thread per operator for the whole process. Call
/// `keep_freed_memory` before the first tensor of the process, or `use_tensor_heap`, for the times that `rannc-run`
/// reaches.
Result<Plan> plan(const Model& model, const PlanOptions& options = {}, const Progress& progress = {});

/// Writes the bundle `path`, a folder that `runtime::Trainer::open` and `rannc-run` take. It is complete or absent.
Result<void> write(const Plan& plan, const std::string& path, const WriteOptions& options = {},
                   const Progress& progress = {});

/// Lets LibTorch allocate tensors on a processor from a heap of their own, which keeps freed memory, for the rest of
/// the process. Affects nothing else, so that a process with other users may call it, at any time.
void use_tensor_heap();

/// The same, and makes the C library keep freed memory, as `rannc-run` does. Affects every user of its allocator for
/// the rest of the process. Call it before the first tensor and the first thread.
void keep_freed_memory();

}  // namespace rannc::compiler
