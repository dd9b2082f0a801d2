/// The state of a trainer. Its parts are in `trainer.cc` (devices), `trainer_steps.cc`, `late_results.cc`,
/// `trainer_rules.cc` and `trainer_saves.cc`.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/train/internal/device_set.h"
#include "runtime/train/internal/owned_parameters.h"
#include "runtime/train/internal/save_checkpoint.h"
#include "runtime/train/internal/step_losses.h"
#include "runtime/train/trainer.h"

namespace rannc::runtime {

class Trainer::Impl {
 public:
  enum class Mode : uint8_t { kTrain, kAccumulate, kEvaluate };

  Impl(Bundle opened, ir::ParameterUpdates updates, const TrainerOptions& options)
      : options_(options),
        bundle_(std::move(opened)),
        updates_(std::move(updates)),
        pipeline_(make_pipeline(bundle_.plan, updates_)),
        devices_(bundle_.plan.devices.size()),
        scales_loss_(bundle_.plan.training && needs_loss_scale(bundle_.plan.graph)) {
    loss_scale_.scale = options.loss_scale;
    digest_rules();
  }
  ~Impl() { drop_begun(0); }

  static Result<ir::ParameterUpdates> updates_of(const ir::Plan& plan, const OptimizerOptions& options);

  /// Returns the hardware of a device of this process.
  Device* add_hardware(uint32_t device) {
    if (options_.hardware.empty()) return &cpu();
    return hardware_.emplace_back(options_.hardware[device % options_.hardware.size()]->with_own_streams()).get();
  }
  Result<void> add_device(std::shared_ptr<Transport> transport);
  Result<void> finish_devices();
  Result<void> reschedule(ir::Plan plan);

  /// Runs mini-batches. Any failure of a worker, even over its batch, ends the run, because the others wait for it.
  Result<StepResult> run_parts(std::span<const Batch> batches, Accumulated how) {
    return run(Mode::kTrain, batches, how, {}, &needed_samples_);
  }
  Result<StepResult> run(Mode mode, std::span<const Batch> batches, Accumulated how = Accumulated::kOneBatch,
                         const ReduceNamed& reduce = {}, const NeededSamples* part = nullptr) {
    if (const auto ended = devices_.failure()) return *ended;
    RANNC_TRY(await_begun());
    Result<StepResult> result = attempt(mode, batches, how, reduce, part);
    if (result.ok() && mode == Mode::kTrain) {
      awaited_ = true;
      if (const Result<void> saved = finish_written(); !saved.ok()) result = saved.diagnostic();
    }
    if (!result.ok() && !devices_.whole()) devices_.close(result.diagnostic());
    return result;
  }
  Result<void> begin_parts(std::span<const Batch> batches, Accumulated how);
  bool runs_ahead() const { return !begun_.empty() && !begun_.back().result; }
  size_t begun_steps() const { return begun_.size(); }
  Result<StepResult> end_step();

  std::map<std::pair<DeviceId, DeviceId>, SentBytes> sent_bytes() const {
    std::map<std::pair<DeviceId, DeviceId>, SentBytes> all;
    for (const auto& device : devices_.all()) {
      for (const auto& [peer, bytes] : device->transport->sent_bytes()) all[{device->id, peer}] += bytes;
    }
    return all;
  }
  Result<std::map<std::string, Value>> gradients() {
    RANNC_TRY(await_begun());
    return gradients_of(owned_, devices_, seed_scale_);
  }
  Result<void> start_save(const std::string& folder, const std::string& data_state);
  Result<void> finish_save();
  Result<void> save(const std::string& folder, const std::string& data_state) {
    RANNC_TRY(start_save(folder, data_state));
    return finish_save();
  }
  Result<std::string> load(const std::string& folder, Settings settings);
  Result<SharedTensors> load_shared(const std::string& checkpoint);
  Result<WeightsLoaded> load_weights(const std::string& path, WeightNames names);
  void set_learning_rate(double rate);
  Result<void> set_groups(std::vector<ir::ParameterGroup> groups);
  Result<void> swap_averages();
  const ir::ParameterUpdates& updates() const { return updates_; }

  bool is_own() const { return devices_.is_own(); }
  const ir::Plan& plan() const { return bundle_.plan; }
  uint64_t steps_done() const { return step_; }
  uint64_t updates_done() const { return updates_done_; }
  double loss_scale() const { return scales_loss_ ? loss_scale_.scale : 1; }
  uint64_t seed() const { return options_.seed; }
  std::map<StageId, std::string> unrecorded_stages() const {
    std::map<StageId, std::string> found;
    for (const auto& device : devices_.all()) {
      for (size_t s = 0; s < device->programs.size(); ++s) {
        const std::string why = device->programs[s] ? device->programs[s]->why_not_recorded() : "";
        if (!why.empty()) found.emplace(StageId::from(s), why);
      }
    }
    return found;
  }
  Result<void> gather(const std::string& own, const TakeText& take);
  Result<bool> all_agree(bool own) { return devices_.all_agree(own); }
  Result<void> first_failure(const Result<void>& own) { return devices_.first_failure(own); }
  void close(const Diagnostic& reason) { devices_.close(reason); }
  void abort(const Diagnostic& reason) const { devices_.abort(reason); }
  const std::vector<std::string>& needed_inputs() const { return needed_; }
  const NeededSamples& needed_samples() const { return needed_samples_; }

 private:
  std::unique_ptr<Executor> make_executor(const Pipeline& pipeline, TrainedDevice& device) {
    std::vector<Program*> programs;
    for (const auto& program : device.programs) programs.push_back(program.get());
    return std::make_unique<Executor>(pipeline, device.id, std::move(programs), *device.transport, options_.observer);
  }
  std::unique_ptr<StageOptimizer> make_optimizer(Program& program, StageId stage, DeviceId device,
                                                 Device& hardware) const;
  Result<void> take_settings(const TrainingSettings& settings);
  /// Replaces rules. Makes the optimizers anew if the parameters' states are others.
  Result<void> take_updates(ir::ParameterUpdates updates);
  void digest_rules();
  Result<void> restart_averages();
  /// A mini-batch and what it counts.
  struct Counted {
    Counted(EvaluationBatch batch, const NeededSamples* part)
        : bound(std::move(batch)), feed(bound.batch, bound.symbols, part) {}
    EvaluationBatch bound;
    BatchFeed feed;
    Tensors counts;
  };
  /// The result that gets the outputs, or null, and what becomes of them.
  struct Reduced {
    StepResult* result;
    const ReduceNamed& reduce;
  };
  /// `part`: the samples that each batch has; null: all of the mini-batch. Several are those of a step.
  Result<StepResult> attempt(Mode mode, std::span<const Batch> batches, Accumulated how, const ReduceNamed& reduce,
                             const NeededSamples* part);
  Result<std::unique_ptr<Counted>> count(Mode mode, const Batch& batch, const NeededSamples* part);
  /// Runs a mini-batch, whose loss is divided by `counts` and counts `weight` times.
  Result<StepSums> run_counted(Mode mode, Counted& of, const Tensors& counts, double weight, const Reduced& outputs);
  /// A step whose result nobody has taken.
  struct Begun {
    uint64_t step = 0;
    std::unique_ptr<Counted> batch;            ///< which its device may read; null if the result is known
    std::optional<Result<StepResult>> result;  ///< empty: the step may still run
  };
  /// Whether a step can begin before the one before it has ended: on asynchronous devices, if nothing in it, in the
  /// next one or in other processes depends on its loss.
  bool can_run_ahead(size_t mini_batches) const;
  Result<void> begin_ahead(const Batch& batch);
  /// Waits for the oldest step that may still run.
  Result<StepResult> await(Begun& begun);
  Result<StepResult> read_result(Begun& begun);
  /// Waits for all steps that have begun. Returns the first failure.
  Result<void> await_begun();
  /// Forgets a step that has ended with an error, and those after it if the run has ended with it.
  void drop_failed(size_t step);
  /// Waits for the devices, and forgets all steps from one on.
  void drop_begun(size_t first);
  /// An error if the loss of a step is not finite and no loss scale skips the step.
  Result<void> check_loss(uint64_t step, double loss);
  /// Ends a step of that loss: updates that wait for a norm, and counters.
  Result<StepResult> finish_step(StepResult result);
  Result<EvaluationBatch> bind(Mode mode, const Batch& given, const NeededSamples* part) const;
  Result<void> report_sums(const StepSums& sums, StepResult& result) const;
  /// Creates the executors for an evaluation with fewer samples than the mini-batch.
  Result<void> make_smaller(uint32_t samples);
  StepInput prepare(Mode mode, const std::vector<ir::TermScale>& scales, const EvaluationBatch& bound,
                    double weight) const;
  std::set<std::string> read_by_count(size_t count) const;
  /// Returns factor and divisor per loss term, and adds the inputs that hold coefficients to the batch. Only those that
  /// stages of this process read are meaningful.
  Result<std::vector<ir::TermScale>> use_counts(const Tensors& counts, EvaluationBatch& bound) const;
  Result<std::vector<StepOutcome>> run_devices(const StepInput& input, Mode mode, uint32_t samples);
  /// The optimizers of a device, for its actions S and U.
  std::function<Result<void>(StageId, Program&)> update_of(TrainedDevice& device) {
    return [&device, this](StageId stage, Program&) -> Result<void> {
      await_saving(device);
      return device.optimizers[stage.index()]->update(updates_done_);
    };
  }
  /// Whether updates wait for the norm of all gradients.
  bool updates_after_norm() const { return options_.clip_norm > 0 || scales_loss_; }
  Result<void> update_after_norm(StepResult& result);
  /// Finishes a checkpoint if it is written in all processes.
  Result<void> finish_written();
  void await_saving(const TrainedDevice& device) const {
    if (!saving_) return;
    Progress* const progress = device.transport->progress();
    if (progress == nullptr) return saving_->await_read(device.id);
    const Activity before = progress->state(Progress::Lane::kSteps).activity;
    begin_work(progress, {"waiting for the last checkpoint to be written", step_, {}, kFileLimits});
    saving_->await_read(device.id);
    begin_work(progress, before);
  }

  TrainerOptions options_;
  Bundle bundle_;
  ir::ParameterUpdates updates_;
  double rules_digest_ = 0;  // equal in all processes
  Pipeline pipeline_;
  std::unique_ptr<Pipeline> smaller_;              // forward only, with fewer samples; null until needed
  std::vector<std::unique_ptr<Device>> hardware_;  // before the devices, which use it
  DeviceSet devices_;
  std::unique_ptr<CheckpointSave> saving_;  // a checkpoint that is being written; may be null
  std::optional<TotalsRun> totals_;
  CountPlaces count_places_;
  std::vector<OwnedParameter> owned_;
  std::vector<std::string> needed_;
  NeededSamples needed_samples_;
  uint64_t step_ = 0, updates_done_ = 0;
  bool averages_swapped_ = false;
  bool scales_loss_;
  LossScale loss_scale_;
  double seed_scale_ = 1;             // of the gradients that the programs hold
  uint64_t accumulated_samples_ = 0;  // of the next step; 0 if nothing is accumulated
  bool awaited_ = false;              // a step has ended under this schedule
  std::deque<Begun> begun_;           // oldest first
};

}  // namespace rannc::runtime
