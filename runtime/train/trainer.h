/// Trains a bundle step by step: what a training binary links.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/bundle/bundle.h"
#include "runtime/bundle/state_dict.h"
#include "runtime/engine/operator_origin.h"
#include "runtime/train/batch.h"
#include "runtime/train/optimizer.h"

namespace rannc::runtime {

struct TrainerOptions {
  OptimizerOptions optimizer;
  double clip_norm = 0;  ///< gradients are scaled down to this global norm; 0: never
  uint64_t seed = 0;
  std::chrono::milliseconds timeout{60000};  ///< of a wait for another device
  Observer* observer = nullptr;              ///< told of every action; called by several threads; not owned
  Origins origins = Origins::kForgotten;     ///< kept: `running_task` knows tasks
  std::string engine;                        ///< a name of `engines()`; empty: the default
  std::string transport;                     ///< of `open`: one of `transports()` between threads; empty: the default
};

/// A loss term of a mini-batch: its value is numerator / denominator. Where the denominator is 0, as of ignored labels
/// alone, the term adds nothing to the loss, and exactly 0 to every gradient.
struct LossSum {
  double numerator = 0, denominator = 0;
};

/// What a step found.
struct StepResult {
  double loss = 0;              ///< weighted sum of the terms over the mini-batch
  std::vector<LossSum> losses;  ///< per term of the graph; empty where labels were missing in an evaluation
  double gradient_norm = 0;     ///< only where gradients are clipped
  /// Graph outputs, only where asked for: of the mini-batch's samples that this process computes, all of them where it
  /// runs all devices.
  std::map<std::string, Value> outputs;
  /// Which samples an output holds, in their order; none for an output without samples.
  std::map<std::string, std::vector<ir::SampleRange>> output_samples;
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
  /// Of random operators and, for those who draw it, of the data: the option's, or a loaded checkpoint's.
  uint64_t seed() const;
  /// Inputs that the stages of this process read, and labels of its losses: what `step` needs of a batch.
  const std::vector<std::string>& needed_inputs() const;

  /// Replaces the options' learning rate for the steps to come, for programs with a schedule of their own: warm-up and
  /// decay of the options then scale it. In a run of several processes all call it alike. A checkpoint keeps the last.
  void set_learning_rate(double rate);

  /// Goes on under another schedule of the same cut: micro-batches, schedule, recompute and predictions may differ;
  /// graph, stages' tasks and devices may not. In a run of several processes all call it with the same plan. What
  /// `accumulate` has summed is forgotten.
  Result<void> reschedule(ir::Plan plan);

  /// Forward, backward and optimizer, over this mini-batch and those accumulated since the last step.
  Result<StepResult> step(const Batch& batch);
  /// Forward and backward of one more mini-batch of the step to come. Gradients add up over calls as they are: the next
  /// `step` applies the gradient of the sum of all their losses, clipped as one. Statistics of batch normalization add
  /// up too and are committed once, by that step; random factors go on as if the mini-batches were one. The step count
  /// stays. The sums are part of no checkpoint; `load` and `reschedule` forget them.
  Result<StepResult> accumulate(const Batch& batch);
  /// Forward alone; loss (where the model has one) and outputs. Changes nothing. The batch may have fewer samples than
  /// the mini-batch, and may lack what only losses read: then there are outputs alone.
  Result<StepResult> evaluate(const Batch& batch);
  /// Gradients of this process's parameters, by name, as accumulated or as the last step applied them (before
  /// clipping); a shared parameter appears once, at its owner. Those of 16-bit parameters are float32.
  Result<std::map<std::string, Value>> gradients();

  /// Whether every process of the run says yes. All call it at the same place; returns when all have. What one process
  /// wrote before, the others can read afterwards.
  Result<bool> all_agree(bool own);

  /// Writes a checkpoint folder: parameters, buffers and optimizer state by the model's names, and where training
  /// stands. Written to a temporary sibling and renamed; `data_state` is given back by `load`.
  Result<void> save(const std::string& folder, const std::string& data_state = {});
  /// Continues from a checkpoint, also of another plan of the same model; returns its `data_state`. Optimizer, clipping
  /// and seed become those of the checkpoint, or stay those of this trainer's options: where these keep another state
  /// than the checkpoint has, it begins anew, which Adam's cannot after the first step.
  enum class Settings : uint8_t { kOfCheckpoint, kOfOptions };
  Result<std::string> load(const std::string& folder, Settings settings = Settings::kOfCheckpoint);
  /// Replaces parameters and buffers by tensors of a .safetensors file, called as PyTorch's `state_dict` calls them
  /// (`ir::full_state`) and of the bundle's types. Steps done and the optimizer's state stay. In a run of several
  /// processes all call it alike. Constants are in the programs already: those in the file must be what the bundle has,
  /// else it is an error that names them. Nothing is replaced after an error that is about the file.
  Result<WeightsLoaded> load_weights(const std::string& path, WeightNames names = WeightNames::kAll);

 private:
  class Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rannc::runtime
