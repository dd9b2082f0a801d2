/// Trains a bundle step by step: what a training binary links.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/batch.h"
#include "runtime/bundle.h"
#include "runtime/optimizer.h"

namespace rannc::runtime {

struct TrainerOptions {
  OptimizerOptions optimizer;
  double clip_norm = 0;  ///< gradients are scaled down to this global norm; 0: never
  uint64_t seed = 0;
  std::chrono::milliseconds timeout{60000};  ///< of a wait for another device
  Observer* observer = nullptr;              ///< told of every action; called by several threads; not owned
};

/// What a step found.
struct StepResult {
  double loss = 0;                       ///< weighted sum of the terms over the mini-batch
  double gradient_norm = 0;              ///< only where gradients are clipped
  std::map<std::string, Value> outputs;  ///< graph outputs of the whole mini-batch; only where asked for
};

/// A bundle in training. Steps are counted from 0. After a failed step the trainer is closed: every later call returns
/// the first failure. Not thread-safe.
class Trainer {
 public:
  /// Runs all devices of the plan in this process, a thread each, handing tensors over.
  static Result<std::unique_ptr<Trainer>> open(const std::string& bundle, const TrainerOptions& options);
  /// Runs one device of the plan, the one of `transport`; the others are other processes.
  static Result<std::unique_ptr<Trainer>> open_worker(const std::string& bundle, const TrainerOptions& options,
                                                      std::shared_ptr<Transport> transport);
  ~Trainer();

  const ir::Plan& plan() const;
  uint64_t steps_done() const;
  /// Inputs that the stages of this process read, and labels of its losses: what `step` needs of a batch.
  const std::vector<std::string>& needed_inputs() const;

  /// Goes on under another schedule of the same cut: micro-batches, schedule, recompute and predictions may differ;
  /// graph, stages' tasks and devices may not. In a run of several processes all call it with the same plan.
  Result<void> reschedule(ir::Plan plan);

  /// Forward, backward and optimizer.
  Result<StepResult> step(const Batch& batch);
  /// Forward and backward without the optimizer; gradients can be read afterwards. The step count stays.
  Result<StepResult> accumulate(const Batch& batch);
  /// Forward alone; loss (where the model has one) and outputs.
  Result<StepResult> evaluate(const Batch& batch);
  /// Gradients of this process's parameters after `accumulate`, by name; a shared parameter appears once, at its owner.
  Result<std::map<std::string, Value>> gradients();

  /// Writes a checkpoint folder: parameters, buffers and optimizer state by the model's names, and where training
  /// stands. Written to a temporary sibling and renamed; `data_state` is given back by `load`.
  Result<void> save(const std::string& folder, const std::string& data_state = {});
  /// Continues from a checkpoint, also of another plan of the same model; returns its `data_state`.
  Result<std::string> load(const std::string& folder);

 private:
  class Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rannc::runtime
