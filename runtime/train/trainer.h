/// Trains a bundle step by step. The main interface for training programs.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/bundle/bundle.h"
#include "runtime/bundle/state_dict.h"
#include "runtime/data/batch.h"
#include "runtime/device/device.h"
#include "runtime/engine/nonfinite_observer.h"
#include "runtime/engine/operator_origin.h"
#include "runtime/train/loss_scale.h"
#include "runtime/train/optimizer.h"
#include "runtime/train/shared_tensors.h"
#include "runtime/transport/sent_bytes.h"

namespace rannc::runtime {

struct TrainerOptions {
  OptimizerOptions optimizer;
  double clip_norm = 0;  ///< maximum global norm of the gradients; 0: no clipping
  uint64_t seed = 0;
  double loss_scale = LossScale::kInitial;  ///< initial; only of models that need one (`needs_loss_scale`)
  /// Checkpoints `<parent>/step-<n>` that `save` keeps: it removes older ones beside the one that it has written. 0:
  /// all
  uint64_t kept_checkpoints = 0;
  std::chrono::milliseconds timeout{60000};  ///< of every wait for another device
  Observer* observer = nullptr;              ///< receives every action; called by several threads; not owned
  Origins origins = Origins::kForgotten;     ///< kept: `running_task` returns tasks
  /// Receives tensors of training steps that are not finite. A step with such a loss or gradient is then no error, so
  /// that all processes can look for its cause; its parameters are not to be used. Only by engine `explicit`. Steps are
  /// not recorded. Not owned.
  NonfiniteObserver* nonfinite = nullptr;
  std::string engine;     ///< a name of `engines()`; empty: the default
  std::string transport;  ///< for `open`: one of `transports()` between threads; empty: the default
  /// For `open`: the hardware of the plan's devices, device i on number i modulo the size, of one type. Each device has
  /// streams of its own. Not owned. Empty: this process's processor.
  std::vector<Device*> hardware;
  /// False: a stage repeats forward work only after the gradient has arrived, so that the overlap can be measured.
  bool overlaps_recompute = true;
  bool overlaps_sums = true;  ///< false: replicas sum gradients after the backward pass, for the same purpose
  bool records_steps = true;  ///< hardware that can record work replays steps with the same sizes, as CUDA graphs
};

/// What the samples of a mini-batch, or of several, add up to (`ir::Totals`).
struct BatchSums {
  std::vector<double> numerators;  ///< per loss term of the graph; empty if labels are missing in an evaluation
  Values counts, sums;             ///< scalars or vectors
};

/// What the losses of several mini-batches add up to in one step.
enum class Accumulated : uint8_t {
  kOneBatch,  ///< the loss of one mini-batch of all samples: sums are divided by what all of them count
  kMean,      ///< the mean of the losses, each divided by its own counts
};

/// Values by name that all processes of a run must have in common. Neither contains tabs or ends of lines.
using SharedFacts = std::map<std::string, std::string>;

/// Results of a step.
struct StepResult {
  double loss = 0;  ///< sum of the terms over the mini-batch; a term adds 0 if its divisor is 0
  BatchSums sums;
  std::map<std::string, Value> metrics;  ///< by name: functions of sums over the mini-batch
  double gradient_norm = 0;              ///< only if gradients are clipped
  /// Whether the step updated nothing but running statistics, because scaled gradients were not finite. The loss scale
  /// is then halved.
  bool skipped = false;
  uint32_t samples = 0;  ///< of the batch
  /// Sizes of the batch beyond those that time and memory were planned for: `s = 200 (planned 128)`; empty: none.
  std::string beyond_plan;
  /// Graph outputs of `evaluate` and `accumulate`; empty after `step`. They cover the samples that this process
  /// computes: the whole mini-batch if it runs all devices.
  std::map<std::string, Value> outputs;
  /// Sample ranges of each output, in order; empty for an output without samples.
  std::map<std::string, std::vector<ir::SampleRange>> output_samples;
};

/// A bundle in training. Steps are counted from 0. A failed step closes the trainer: every later call returns the first
/// failure. Not thread-safe.
///
/// Functions that compute do so as in a new thread: no mode of the caller's thread changes their numbers. A process
/// that is forked while the trainer is open can neither use it nor ends what belongs to it. More in
/// `runtime/embedding.md`.
class Trainer {
 public:
  /// Runs all devices of the plan in this process, one thread each.
  static Result<std::unique_ptr<Trainer>> open(const std::string& bundle, const TrainerOptions& options);
  /// Runs the device of `transport`. The other devices of the plan run in other processes. The bundle's folder may lack
  /// the files of stages that do not run on the device (`HostedStages`). Collective: an error of one process, and
  /// bundles, options or settings of LibTorch that differ and on which results depend, are an error in all.
  static Result<std::unique_ptr<Trainer>> open_worker(const std::string& bundle, const TrainerOptions& options,
                                                      std::shared_ptr<Transport> transport);
  ~Trainer();

  const ir::Plan& plan() const;
  uint64_t steps_done() const;  ///< with those that have begun, unless they failed
  /// Seed of random operators and of randomly chosen data, from the options or from a loaded checkpoint.
  uint64_t seed() const;
  /// Inputs that `step` requires in a batch: those that this process's stages read, and the labels of its losses.
  const std::vector<std::string>& needed_inputs() const;

  /// What `step_part` requires in a batch: the samples of the mini-batch that this process's stages compute, of the
  /// inputs that they read; all samples if the process has all devices. Inputs that determine sizes other than the
  /// number of samples are needed by every process. May change with `reschedule`.
  const NeededSamples& needed_samples() const;

  /// Replaces the options' learning rate for later steps. The options' warm-up and decay scale the new rate, and groups
  /// with a factor follow. A checkpoint stores the last rate. In a run of several processes, all must make the same
  /// calls of this and of `set_groups`: a step after which rules differ is an error in all of them.
  void set_learning_rate(double rate);
  /// Replaces the options' groups for later steps. After the first update, their settings may change, but not the state
  /// that a parameter needs. Errors as those of `ir::ParameterUpdates::of`; then nothing
  /// has changed. A checkpoint stores the last groups.
  Result<void> set_groups(std::vector<ir::ParameterGroup> groups);
  /// The groups of all parameters of the model, with their rules and states.
  const ir::ParameterUpdates& updates() const;
  /// Exchanges parameters and their averages (`Grouping::average`), so that `evaluate` uses these; once more restores
  /// the bits. In between, steps and checkpoints are refused. In a run of several processes, all must call it.
  Result<void> swap_averages();

  /// Continues under another schedule of the same cut. Micro-batches, schedule, recompute, predictions and the values
  /// that the plan's functions keep for recompute may differ; the graph, the stages' tasks and devices, and whether
  /// they are sharded may not. In a
  /// run of several processes, all must call it with the same plan. Discards the sums of `accumulate`.
  Result<void> reschedule(ir::Plan plan);

  /// Runs forward, backward and optimizer over this mini-batch and those accumulated since the last step.
  Result<StepResult> step(const Batch& batch);
  /// The same with `needed_samples` only, so that no process reads what others compute. In a run of several processes,
  /// all must call it. What coefficients of the losses count is summed over them first.
  Result<StepResult> step_part(const Batch& batch);
  /// One step over several mini-batches, which lie in memory together. The result is that of their loss. Running
  /// statistics and random inputs are those of one mini-batch.
  Result<StepResult> step(std::span<const Batch> batches, Accumulated how);
  Result<StepResult> step_part(std::span<const Batch> batches, Accumulated how);
  /// Begins a step like `step_part`. An asynchronous device may still run it when this returns, so that the next step
  /// can begin without a gap between them. The batches may be freed, but not changed. At most one step that
  /// `begin_step_part` has begun may lack its `end_step`. An error means that the step has not begun.
  ///
  /// Runs the whole step if anything depends on its result at once (`runtime/devices.md`). All other functions that
  /// compute, load or save wait for the steps that have begun, and return their failure.
  Result<void> begin_step_part(std::span<const Batch> batches, Accumulated how);
  /// Whether the last step that has begun may still run: only then there is a use in beginning another one before
  /// `end_step`.
  bool runs_ahead() const;
  /// Number of steps that have begun and lack their `end_step`.
  size_t begun_steps() const;
  /// Waits for the first step that lacks it, and returns its result. If that step fails, the one after it is void,
  /// unless only a checkpoint could not be written (`start_save`).
  Result<StepResult> end_step();
  /// Runs forward and backward of an additional mini-batch of the next step. Gradients are summed without averaging:
  /// the next `step` applies the gradient of the sum of all losses, clipped once. Batch normalization statistics also
  /// accumulate and are committed once by that step. Random inputs continue as if the mini-batches were one. The step
  /// count does not change. Checkpoints do not contain the sums. `load` and `reschedule` discard them.
  Result<StepResult> accumulate(const Batch& batch);
  /// Runs only the forward pass and returns the loss (if the model has one) and the outputs. Changes nothing. The batch
  /// may have fewer samples than the mini-batch. If inputs that only losses read are missing, only outputs are
  /// returned. `reduce` replaces each part of an output before it is kept, so that the outputs of a mini-batch need not
  /// exist at once. It is called by several threads, with tensors in the devices' memory, and must keep the sample
  /// axis. Null drops the part.
  using ReduceNamed = std::function<Value(const std::string& output, const Value& part)>;
  Result<StepResult> evaluate(const Batch& batch, const ReduceNamed& reduce = {});
  /// Number of steps that were not skipped, and the loss scale of the next step, which is 1 if the model needs none.
  uint64_t updates_done() const;
  double loss_scale() const;
  /// Returns gradients of this process's parameters by name: the accumulated ones, or those of the last step before
  /// clipping and without loss scale. A shared parameter appears only at its owner. Gradients of 16-bit parameters are
  /// float32. An error if other processes have shares of a sharded stage.
  Result<std::map<std::string, Value>> gradients();

  /// Bytes that each device of this process has sent to each other device, in all steps and evaluations.
  std::map<std::pair<DeviceId, DeviceId>, SentBytes> sent_bytes() const;
  /// Per stage of this process that could not be recorded (`TrainerOptions::records_steps`), the reason.
  std::map<StageId, std::string> unrecorded_stages() const;

  /// Returns whether `own` is true in every process of the run. Collective: returns when all have called it. Files that
  /// a process wrote before the call can be read by the others afterwards, if they share the folder.
  Result<bool> all_agree(bool own);
  /// Returns the failure of the first process that has one, in every process of the run: an error of one is an error of
  /// all, which names that process. Collective.
  Result<void> first_failure(const Result<void>& own);
  /// Ends the run with `reason`, for an error of the caller: the calls of all processes return it from then on, unless
  /// there was a failure before.
  void close(const Diagnostic& reason);
  /// The same, for any thread: a step that runs ends within seconds, with `reason` as its error, unless a device
  /// computes for longer without a message.
  void abort(const Diagnostic& reason);
  /// Passes `own` of every process, in the order of their devices, to `take` in the process of device 0. Collective. An
  /// error of `take` ends the run.
  using TakeText = std::function<Result<void>(uint32_t process, std::string text)>;
  Result<void> gather(const std::string& own, const TakeText& take);

  /// Ends the run with an error if a fact of one process has another value in another one. Facts that a process lacks
  /// are not compared. Collective.
  Result<void> check_shared(const SharedFacts& own);

  /// Writes a checkpoint folder: parameters, buffers and optimizer state under the model's names, step count and
  /// settings. Writes a temporary sibling and renames it. `load` returns `data_state`. Processes whose hosts do not
  /// share the folder write a folder each, with the tensors of their own devices.
  Result<void> save(const std::string& folder, const std::string& data_state = {});
  /// The same, but the files are written while the next steps run. Their optimizers wait until the tensors have been
  /// written; nothing but buffers is copied. The checkpoint is finished at the end of the first step that finds all
  /// files on disk in all processes, or by `finish_save`, `save`, `start_save`, `load` or `load_weights`, which report
  /// its errors as theirs. The failure of a device or worker, or the end of the trainer, discards it.
  Result<void> start_save(const std::string& folder, const std::string& data_state = {});
  /// Finishes what `start_save` has begun. Collective.
  Result<void> finish_save();
  /// Continues from a checkpoint of any plan of the same model and returns its `data_state`. `settings` selects whether
  /// optimizer, clipping and seed come from the checkpoint or from this trainer's options. If the options need
  /// different optimizer state than the checkpoint contains, the state starts from zero; for Adam that is an error
  /// after step 0.
  enum class Settings : uint8_t { kOfCheckpoint, kOfOptions };
  Result<std::string> load(const std::string& folder, Settings settings = Settings::kOfCheckpoint);
  /// Replaces parameters and buffers by those of a checkpoint of another model that has tensors of the same names
  /// (`match_shared`), whose run takes turns with this one. Optimizer states, counts of steps and all other tensors
  /// stay: each run has an optimizer of its own, as each `torch.optim` object has. In a run of several processes, all
  /// must make the same call.
  Result<SharedTensors> load_shared(const std::string& checkpoint);
  /// Replaces parameters and buffers by tensors of a .safetensors file with `state_dict` names (`ir::full_state`) and
  /// the bundle's types. Step count and optimizer state do not change. In a run of several processes, all must make the
  /// same call. Constants are compiled into the programs: if the file's constants differ from the bundle's, the error
  /// names them. An error about the file leaves everything unchanged.
  Result<WeightsLoaded> load_weights(const std::string& path, WeightNames names = WeightNames::kAll);

 private:
  static Result<std::unique_ptr<Trainer>> try_to_open(const std::string& bundle, const TrainerOptions& options,
                                                      std::shared_ptr<Transport> transport);
  class Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rannc::runtime
