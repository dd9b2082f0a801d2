#include "runtime/train/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/gradient/gradient_reach.h"
#include "ir/verify.h"
#include "runtime/engine/engine.h"
#include "runtime/internal/digest.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/gradient_norms.h"
#include "runtime/train/internal/device_set.h"
#include "runtime/train/internal/gather_outputs.h"
#include "runtime/train/internal/owned_parameters.h"
#include "runtime/train/internal/replace_weights.h"
#include "runtime/train/internal/report_nonfinite.h"
#include "runtime/train/internal/save_checkpoint.h"
#include "runtime/train/internal/shared_facts.h"
#include "runtime/train/internal/step_losses.h"
#include "runtime/transport/transports.h"

namespace rannc::runtime {

namespace {

enum class Mode { kTrain, kAccumulate, kEvaluate };

// Numbers for a message.
std::string words_of(const Tensors& counts) {
  std::vector<std::string> words;
  for (const at::Tensor& count : counts) {
    words.push_back(count.numel() == 1 ? fmt::format("{:g}", count.to(at::kDouble).item<double>())
                                       : fmt::format("{} numbers", count.numel()));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

class Trainer::Impl {
 public:
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
    if (devices_.failure()) return *devices_.failure();
    Result<StepResult> result = attempt(mode, batches, how, reduce, part);
    if (result.ok() && mode == Mode::kTrain) {
      if (const Result<void> saved = finish_written(); !saved.ok()) result = saved.diagnostic();
    }
    if (!result.ok() && !devices_.whole()) devices_.close(result.diagnostic());
    return result;
  }
  std::map<std::pair<DeviceId, DeviceId>, SentBytes> sent_bytes() const {
    std::map<std::pair<DeviceId, DeviceId>, SentBytes> all;
    for (const auto& device : devices_.all()) {
      for (const auto& [peer, bytes] : device->transport->sent_bytes()) all[{device->id, peer}] += bytes;
    }
    return all;
  }
  Result<std::map<std::string, Value>> gradients() { return gradients_of(owned_, devices_, seed_scale_); }
  Result<void> start_save(const std::string& folder, const std::string& data_state);
  Result<void> finish_save();
  Result<void> save(const std::string& folder, const std::string& data_state) {
    RANNC_TRY(start_save(folder, data_state));
    return finish_save();
  }
  Result<std::string> load(const std::string& folder, Settings settings);
  Result<WeightsLoaded> load_weights(const std::string& path, WeightNames names);
  void set_learning_rate(double rate);
  Result<void> set_groups(std::vector<ir::ParameterGroup> groups);
  Result<void> swap_averages();
  const ir::ParameterUpdates& updates() const { return updates_; }

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
  Result<bool> all_agree(bool own) { return devices_.all_agree(own, step_); }
  Result<void> first_failure(const Result<void>& own) { return devices_.first_failure(own, step_); }
  void close(const Diagnostic& reason) { devices_.close(reason); }
  const std::vector<std::string>& needed_inputs() const { return needed_; }
  const NeededSamples& needed_samples() const { return needed_samples_; }

 private:
  std::unique_ptr<Executor> make_executor(const Pipeline& pipeline, TrainedDevice& device) {
    std::vector<Program*> programs;
    for (const auto& program : device.programs) programs.push_back(program.get());
    return std::make_unique<Executor>(pipeline, device.id, std::move(programs), *device.transport, options_.observer);
  }
  std::unique_ptr<StageOptimizer> make_optimizer(Program& program, StageId stage, DeviceId device) const;
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
  /// Ends a step of that loss: updates that wait for a norm, and counters.
  Result<StepResult> finish_step(StepResult result);
  Result<EvaluationBatch> bind(Mode mode, const Batch& batch, const NeededSamples* part) const;
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
};

std::unique_ptr<StageOptimizer> Trainer::Impl::make_optimizer(Program& program, StageId stage, DeviceId device) const {
  const std::vector<bool> reached = ir::reached_by_gradient(plan().graph);
  std::vector<bool> left_alone;
  for (const Weight& parameter : program.signature().parameters)
    left_alone.push_back(!reached[parameter.value.index()]);
  return std::make_unique<StageOptimizer>(options_.optimizer, stage_updates(updates_, program.signature()), program,
                                          std::move(left_alone), share_of(pipeline_, stage, device));
}

namespace {

Result<ir::ParameterUpdates> updates_of(const ir::Plan& plan, const OptimizerOptions& options) {
  if (!plan.training) return ir::ParameterUpdates::of(plan.graph, ir::PlanOptimizer());
  return ir::ParameterUpdates::of(plan.graph, options, options.grouping);
}

}  // namespace

// A number of 40 bits, of which some thousands can be added up exactly.
void Trainer::Impl::digest_rules() {
  std::string text;
  for (const ir::UpdateGroup& group : updates_.groups())
    text += fmt::format("{} {}\n", ir::describe(group.rule), fmt::join(group.tensors, " "));
  rules_digest_ = static_cast<double>(std::stoull(digest_of(text).substr(0, 10), nullptr, 16));
}

void Trainer::Impl::set_learning_rate(double rate) {
  options_.optimizer.learning_rate = rate;
  take_updates(updates_of(plan(), options_.optimizer).value()).value();  // groups that were valid are
}

Result<void> Trainer::Impl::take_updates(ir::ParameterUpdates updates) {
  const bool same_average = updates.averaged() == updates_.averaged();
  const bool same = updates.have_groups_of(updates_) && same_average, keep = updates.have_states_of(updates_);
  updates_ = std::move(updates);
  digest_rules();
  if (!keep) {  // shares are cut elsewhere
    pipeline_ = make_pipeline(plan(), updates_);
    smaller_.reset();
    accumulated_samples_ = 0;
    owned_ = owned_parameters(plan(), pipeline_, devices_);
  }
  return devices_.for_each([&](TrainedDevice& device) -> Result<void> {
    for (size_t s = 0; s < device.optimizers.size(); ++s) {
      if (!device.optimizers[s]) continue;
      if (same) {
        device.optimizers[s]->set_rules(stage_updates(updates_, device.programs[s]->signature()).rules);
        continue;
      }
      const auto old = std::move(device.optimizers[s]);
      device.optimizers[s] = make_optimizer(*device.programs[s], StageId::from(s), device.id);
      if (keep) device.optimizers[s]->take_states(*old);
    }
    if (keep) return {};
    device.smaller.reset();
    device.executor = make_executor(pipeline_, device);
    return {};
  });
}

Result<void> Trainer::Impl::set_groups(std::vector<ir::ParameterGroup> groups) {
  OptimizerOptions changed = options_.optimizer;
  changed.grouping.groups = std::move(groups);
  RANNC_ASSIGN(ir::ParameterUpdates updates, updates_of(plan(), changed));
  if (updates_done_ > 0 && !updates.have_states_of(updates_))
    return error("after the first update, groups may change settings, but not the optimizers of parameters");
  options_.optimizer = std::move(changed);
  return take_updates(std::move(updates));
}

Result<void> Trainer::Impl::restart_averages() {
  return devices_.for_each([](TrainedDevice& device) -> Result<void> {
    for (const auto& optimizer : device.optimizers) {
      if (optimizer) optimizer->restart_averages();
    }
    return {};
  });
}

// Exchanges contents, so that recordings stay valid. The devices' S, U and AG do it, so that replicas get the averages
// of shares that others hold.
Result<void> Trainer::Impl::swap_averages() {
  if (options_.optimizer.grouping.average == 0) return error("the run keeps no averages of its parameters");
  if (devices_.failure()) return *devices_.failure();
  RANNC_TRY(devices_.for_each([&](TrainedDevice& device) -> Result<void> {
    await_saving(device);
    return device.executor->update([&](StageId stage) -> Result<void> {
      device.optimizers[stage.index()]->swap_averages();
      return {};
    });
  }));
  averages_swapped_ = !averages_swapped_;
  return {};
}

Result<void> Trainer::Impl::add_device(std::shared_ptr<Transport> transport) {
  RANNC_ASSIGN(const Engine* const engine, engine_for(bundle_, transport->hardware(), options_.engine));
  if (options_.nonfinite != nullptr && engine != find_engine("explicit").value()) {
    return error(
        fmt::format("engine {} does not show the results of tasks: use engine explicit to examine them", engine->name));
  }
  auto device = std::make_unique<TrainedDevice>();
  device->id = transport->device();
  device->transport = std::move(transport);
  device->programs.resize(plan().stages.size());
  device->optimizers.resize(plan().stages.size());
  device->thread = std::make_unique<DeviceThread>();
  RANNC_TRY(run_on(*device, [&]() -> Result<void> {
    for (size_t s = 0; s < plan().stages.size(); ++s) {
      const auto& homes = plan().stages[s].devices;
      if (std::find(homes.begin(), homes.end(), device->id) == homes.end()) continue;
      RANNC_ASSIGN(device->programs[s], engine->load(bundle_, StageId::from(s), {options_.origins, options_.nonfinite},
                                                     device->transport->hardware()));
      if (!options_.records_steps || options_.nonfinite != nullptr) device->programs[s]->record_steps(false);
      if (plan().training) device->optimizers[s] = make_optimizer(*device->programs[s], StageId::from(s), device->id);
    }
    return {};
  }));
  device->executor = make_executor(pipeline_, *device);
  devices_.add(std::move(device));
  return {};
}

Result<void> Trainer::Impl::reschedule(ir::Plan changed) {
  const auto same_cut = [](const ir::Stage& a, const ir::Stage& b) {
    return a.tasks == b.tasks && a.devices == b.devices && a.sharded == b.sharded;
  };
  if (!ir::equal(changed.graph, plan().graph) || changed.devices.size() != plan().devices.size() ||
      !std::equal(changed.stages.begin(), changed.stages.end(), plan().stages.begin(), plan().stages.end(), same_cut)) {
    return error("the new plan must have the same graph, stages, devices and sharded stages");
  }
  if (changed.functions.size() != plan().functions.size()) {
    return error(fmt::format("the new plan has functions of {} stages, the bundle's of {}", changed.functions.size(),
                             plan().functions.size()));
  }
  RANNC_TRY(ir::as_result(ir::verify(changed)));
  for (const auto& device : devices_.all()) {
    for (size_t s = 0; s < changed.functions.size(); ++s) {
      if (!device->programs[s]) continue;
      RANNC_TRY(run_on(*device, [&] { return device->programs[s]->use_functions(*changed.functions[s]); }));
    }
  }
  bundle_.plan = std::move(changed);
  pipeline_ = make_pipeline(bundle_.plan, updates_);
  for (const auto& device : devices_.all()) {
    device->executor = make_executor(pipeline_, *device);
    device->smaller.reset();
  }
  smaller_.reset();
  accumulated_samples_ = 0;
  needed_samples_ = find_needed_samples(plan(), pipeline_, devices_, {needed_.begin(), needed_.end()});
  return {};
}

Result<void> Trainer::Impl::finish_devices() {
  RANNC_ASSIGN(totals_, TotalsRun::load(plan().graph));
  count_places_ = count_places(plan(), pipeline_);
  std::set<std::string> needed;
  for (size_t s = 0; s < pipeline_.stages.size(); ++s) {
    if (!devices_.has_stage(StageId::from(s))) continue;
    for (const Port& port : pipeline_.stages[s].inputs) {
      if (port.from_graph) needed.insert(port.name);
    }
    for (size_t count = 0; count < count_places_.owners.size(); ++count) {
      if (count_places_.owners[count] == StageId::from(s)) needed.merge(read_by_count(count));
    }
  }
  for (const ir::Totals::Given& given : plan().graph.totals().given) {
    needed.erase(std::string(plan().graph.value(given.input).name));
  }
  needed_.assign(needed.begin(), needed.end());
  needed_samples_ = find_needed_samples(plan(), pipeline_, devices_, needed);
  owned_ = owned_parameters(plan(), pipeline_, devices_);
  return {};
}

StepInput Trainer::Impl::prepare(Mode mode, const std::vector<ir::TermScale>& scales, const EvaluationBatch& bound,
                                 double weight) const {
  StepInput input;
  input.step = step_;
  input.seed = options_.seed;
  input.training = mode != Mode::kEvaluate;
  input.carry = accumulated_samples_ > 0;
  input.samples_before = accumulated_samples_;
  input.bucket_bytes = options_.bucket_bytes;
  input.overlaps_recompute = options_.overlaps_recompute;
  input.symbols = bound.symbols;
  input.symbols.erase(plan().graph.batch_symbol());
  for (size_t t = 0; t < pipeline_.losses.size(); ++t) {
    const ir::LossTerm& term = plan().graph.losses()[t];
    const auto dtype = scalar_type(plan().graph.type(term.numerator).dtype);
    input.loss_seeds.push_back(
        to_value(at::scalar_tensor(term.loss(1, scales[t]) * loss_scale() * weight, at::TensorOptions().dtype(dtype))));
  }
  return input;
}

std::set<std::string> Trainer::Impl::read_by_count(size_t count) const {
  const std::vector<std::string> names = totals_->inputs(count);
  return {names.begin(), names.end()};
}

Result<std::vector<ir::TermScale>> Trainer::Impl::use_counts(const Tensors& counts, EvaluationBatch& bound) const {
  const ir::Graph& graph = plan().graph;
  RANNC_ASSIGN(const Tensors coefficients, totals_->coefficients(counts));
  std::vector<ir::TermScale> scales;
  for (size_t t = 0; t < pipeline_.losses.size(); ++t) {
    const ir::LossTerm& term = graph.losses()[t];
    const ir::TermScale& scale = scales.emplace_back(totals_->scale(term, coefficients));
    if (!devices_.has_stage(pipeline_.losses[t].stage) || !bound.labelled) continue;
    if (std::isfinite(scale.factor) && std::isfinite(scale.divisor)) continue;
    return error(
        graph.location(graph.producer(term.numerator)),
        fmt::format("step {}: loss term %{} is multiplied by {} and divided by {}, computed from the counts {}", step_,
                    graph.value(term.numerator).name, scale.factor, scale.divisor, words_of(counts)));
  }
  for (const ir::Totals::Given& given : graph.totals().given) {
    const at::Tensor& number = coefficients[given.coefficient];
    const bool reads = std::any_of(pipeline_.stages.begin(), pipeline_.stages.end(), [&](const Signature& stage) {
      return devices_.has_stage(stage.stage) && stage.input_of(given.input) >= 0;
    });
    if (reads && bound.labelled && !at::isfinite(number).all().item<bool>()) {
      return error(fmt::format("step {}: %{} has elements that are not finite, computed from the counts {}", step_,
                               graph.value(given.input).name, words_of(counts)));
    }
    const auto dtype = scalar_type(graph.type(given.input).dtype);
    bound.batch[std::string(graph.value(given.input).name)] = to_value(number.to(dtype));
  }
  return scales;
}

Result<void> Trainer::Impl::report_sums(const StepSums& sums, StepResult& result) const {
  const ir::Graph& graph = plan().graph;
  result.sums.numerators = sums.numerators;
  if (sums.numerators.empty()) return {};
  RANNC_ASSIGN(const Tensors coefficients, totals_->coefficients(sums.counts));
  for (size_t t = 0; t < sums.numerators.size(); ++t) {
    const ir::LossTerm& term = graph.losses()[t];
    result.loss += term.loss(sums.numerators[t], totals_->scale(term, coefficients));
  }
  for (const at::Tensor& count : sums.counts) result.sums.counts.push_back(to_value(count));
  for (const at::Tensor& sum : sums.sums) result.sums.sums.push_back(to_value(sum));
  RANNC_ASSIGN(const auto metrics, totals_->metrics(sums.sums, sums.counts));
  for (const auto& [name, metric] : metrics) result.metrics.emplace(name, to_value(metric));
  return {};
}

Result<void> Trainer::Impl::make_smaller(uint32_t samples) {
  RANNC_ASSIGN(Pipeline smaller, forward_pipeline(pipeline_, samples));
  if (smaller_ && smaller_->shape == smaller.shape) return {};
  for (const auto& device : devices_.all()) device->smaller.reset();
  smaller_ = std::make_unique<Pipeline>(std::move(smaller));
  for (const auto& device : devices_.all()) device->smaller = make_executor(*smaller_, *device);
  return {};
}

Result<std::vector<StepOutcome>> Trainer::Impl::run_devices(const StepInput& input, Mode mode, uint32_t samples) {
  const bool smaller = samples != plan().mini_batch;
  if (smaller) RANNC_TRY(make_smaller(samples));
  std::vector<StepOutcome> outcomes(devices_.all().size());
  RANNC_TRY(devices_.for_each([&](TrainedDevice& device) -> Result<void> {
    StepInput own = input;
    if (mode == Mode::kTrain) {
      own.updates_later = updates_after_norm();
      own.update = [&device, this](StageId stage, Program&) -> Result<void> {
        await_saving(device);
        return device.optimizers[stage.index()]->update(updates_done_);
      };
    }
    RANNC_ASSIGN(outcomes[static_cast<size_t>(devices_.position_of(device))],
                 (smaller ? device.smaller : device.executor)->run(own));
    return {};
  }));
  return outcomes;
}

Result<void> Trainer::Impl::update_after_norm(StepResult& result) {
  RANNC_ASSIGN(const double scaled, gradient_norm(plan(), owned_, devices_, step_, options_.observer));
  const double scale = loss_scale(), norm = scaled / scale;
  const bool finite = std::isfinite(norm) && std::isfinite(result.loss);
  const bool fails = !finite && (!scales_loss_ || loss_scale_.is_least());
  if (fails && options_.nonfinite != nullptr) {
    result.gradient_norm = norm;
    return {};  // reported as a gradient
  }
  if (fails) {
    const std::string at = scales_loss_ ? fmt::format(" at a loss scale of {}, the smallest", scale) : "";
    RANNC_TRY(finish_save());  // all processes come here
    return devices_.close(
        error(fmt::format("step {}: the loss is {} and the gradient's norm {}{}", step_, result.loss, norm, at)));
  }
  if (scales_loss_) loss_scale_.count(finite);
  result.skipped = !finite;
  if (options_.clip_norm > 0) result.gradient_norm = norm;
  if (result.skipped) return {};
  const double clip = options_.clip_norm > 0 ? clip_scale(norm, options_.clip_norm) : 1;
  for (const auto& device : devices_.all()) await_saving(*device);
  return update_scaled(devices_, {updates_done_, clip / scale});
}

Result<EvaluationBatch> Trainer::Impl::bind(Mode mode, const Batch& batch, const NeededSamples* part) const {
  if (mode == Mode::kEvaluate) return bind_evaluation(plan(), batch, needed_);
  if (!plan().training) return error("the bundle was compiled without a loss: it cannot be trained");
  RANNC_ASSIGN(ir::Bindings symbols,
               part == nullptr ? bind_batch(plan(), batch, needed_) : bind_part(plan(), batch, *part));
  return EvaluationBatch{batch, std::move(symbols), plan().mini_batch, true};
}

Result<std::unique_ptr<Trainer::Impl::Counted>> Trainer::Impl::count(Mode mode, const Batch& batch,
                                                                     const NeededSamples* part) {
  RANNC_ASSIGN(EvaluationBatch bound, bind(mode, batch, part));
  auto counted = std::make_unique<Counted>(std::move(bound), part);
  const CountedSamples of{.feed = counted->feed,
                          .symbols = counted->bound.symbols,
                          .samples = counted->bound.samples,
                          .whose = part == nullptr ? Labels::kAll : Labels::kOwn,
                          .labelled = counted->bound.labelled,
                          .by_replica = mode != Mode::kEvaluate};
  RANNC_ASSIGN(counted->counts, count_samples(plan(), pipeline_, devices_, count_places_, *totals_, of, step_));
  return counted;
}

Result<StepSums> Trainer::Impl::run_counted(Mode mode, Counted& of, const Tensors& counts, double weight,
                                            const Reduced& outputs) {
  RANNC_ASSIGN(const std::vector<ir::TermScale> scales, use_counts(counts, of.bound));
  StepInput input = prepare(mode, scales, of.bound, weight);
  if (input.training) seed_scale_ = loss_scale();
  input.feed = &of.feed;
  input.keep_outputs = outputs.result != nullptr;
  if (outputs.reduce) {
    input.reduce_output = [&](ValueId output, const Value& part) {
      return outputs.reduce(std::string(plan().graph.value(output).name), part);
    };
  }
  RANNC_ASSIGN(const std::vector<StepOutcome> outcomes, run_devices(input, mode, of.bound.samples));
  RANNC_ASSIGN(StepSums sums, sum_step(plan(), pipeline_, devices_, count_places_, outcomes, of.counts,
                                       {.labelled = of.bound.labelled, .settings = rules_digest_, .step = step_}));
  if (outputs.result != nullptr) gather_outputs(plan(), outcomes, of.bound.symbols, *outputs.result);
  if (mode == Mode::kAccumulate) accumulated_samples_ += of.bound.samples;
  return sums;
}

namespace {

void add(const Tensors& from, Tensors& to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = to[i] + from[i];
}

}  // namespace

Result<StepResult> Trainer::Impl::attempt(Mode mode, std::span<const Batch> batches, Accumulated how,
                                          const ReduceNamed& reduce, const NeededSamples* part) {
  if (averages_swapped_ && mode != Mode::kEvaluate)
    return error("parameters are exchanged with their averages: a step needs them back");
  if (batches.empty()) return error("a step needs a mini-batch");
  std::vector<std::unique_ptr<Counted>> counted;
  for (const Batch& batch : batches) {
    RANNC_ASSIGN(counted.emplace_back(), count(mode, batch, part));
  }
  Tensors all = counted[0]->counts;
  for (size_t i = 1; i < counted.size(); ++i) add(counted[i]->counts, all);
  const bool mean = how == Accumulated::kMean && batches.size() > 1;
  const double weight = mean ? 1.0 / static_cast<double>(batches.size()) : 1;
  StepResult result;
  StepSums sums;
  double losses = 0;
  for (size_t i = 0; i < counted.size(); ++i) {
    const bool last = i + 1 == counted.size();
    Counted& own = *counted[i];
    RANNC_ASSIGN(StepSums of, run_counted(last ? mode : Mode::kAccumulate, own, mean ? own.counts : all, weight,
                                          {mode == Mode::kTrain ? nullptr : &result, reduce}));
    if (mean) {
      StepResult alone;
      RANNC_TRY(report_sums(of, alone));
      losses += alone.loss * weight;
    }
    result.samples += own.bound.samples;
    if (result.beyond_plan.empty()) result.beyond_plan = sizes_beyond_plan(plan(), own.bound.symbols);
    if (i == 0) {
      sums = std::move(of);
      continue;
    }
    for (size_t t = 0; t < sums.numerators.size(); ++t) sums.numerators[t] += of.numerators[t];
    add(of.counts, sums.counts);
    add(of.sums, sums.sums);
  }
  RANNC_TRY(report_sums(sums, result));
  if (mean) result.loss = losses;
  return mode == Mode::kTrain ? finish_step(std::move(result)) : result;
}

Result<StepResult> Trainer::Impl::finish_step(StepResult result) {
  // With a loss scale, the step is skipped.
  if (!std::isfinite(result.loss) && !scales_loss_ && options_.nonfinite == nullptr) {
    RANNC_TRY(finish_save());  // all processes come here
    return devices_.close(error(fmt::format("step {}: the loss is {}", step_, result.loss)));
  }
  if (updates_after_norm()) RANNC_TRY(update_after_norm(result));
  if (options_.nonfinite != nullptr) {
    RANNC_TRY(devices_.for_each([&](TrainedDevice& device) -> Result<void> {
      report_nonfinite(device, plan(), step_, *options_.nonfinite);
      return {};
    }));
  }
  ++step_;
  if (!result.skipped) ++updates_done_;
  accumulated_samples_ = 0;
  return result;
}

Result<void> Trainer::Impl::start_save(const std::string& folder, const std::string& data_state) {
  if (averages_swapped_) return error("parameters are exchanged with their averages: a checkpoint needs them back");
  RANNC_TRY(finish_save());
  const TrainingSettings settings{options_.optimizer, options_.clip_norm, options_.seed, options_.kept_checkpoints};
  RANNC_ASSIGN(saving_,
               CheckpointSave::start(devices_, folder,
                                     {.step = step_,
                                      .updates = updates_done_,
                                      .loss_scale = loss_scale_,
                                      .settings = settings,
                                      .model_digest = plan().model_digest,
                                      .data_state = data_state,
                                      .sliced = std::any_of(plan().stages.begin(), plan().stages.end(),
                                                            [](const auto& stage) { return stage.sharded; })}));
  return {};
}

Result<void> Trainer::Impl::finish_save() {
  if (devices_.failure()) return *devices_.failure();
  const auto saving = std::move(saving_);
  return saving ? saving->finish() : Result<void>();
}

Result<void> Trainer::Impl::finish_written() {
  if (!saving_) return {};
  RANNC_ASSIGN(const bool written, all_agree(saving_->is_written()));
  return written ? finish_save() : Result<void>();
}

Result<void> Trainer::Impl::gather(const std::string& own, const TakeText& take) {
  for (uint32_t process = 0; process < (devices_.whole() ? 1 : plan().devices.size()); ++process) {
    RANNC_ASSIGN(std::string text, devices_.text_of(DeviceId(process), own, step_));
    if (!devices_.contains(DeviceId(0))) continue;
    if (const Result<void> taken = take(process, std::move(text)); !taken.ok())
      return devices_.whole() ? taken.diagnostic() : devices_.close(taken.diagnostic());
  }
  RANNC_TRY(all_agree(true));
  return {};
}

Result<void> Trainer::Impl::take_settings(const TrainingSettings& settings) {
  options_.optimizer = settings.optimizer;
  options_.clip_norm = settings.clip_norm;
  options_.seed = settings.seed;
  options_.kept_checkpoints = settings.kept_checkpoints;
  RANNC_ASSIGN(ir::ParameterUpdates updates, updates_of(plan(), options_.optimizer));
  return take_updates(std::move(updates));
}

Result<std::string> Trainer::Impl::load(const std::string& folder, Settings settings) {
  RANNC_TRY(finish_save());
  RANNC_ASSIGN(const CheckpointState state, read_checkpoint_state(folder));
  RANNC_TRY(check_model(state, folder, plan()));
  const OptimizerOptions &made_by = state.settings.optimizer, &own = options_.optimizer;
  if (settings == Settings::kOfCheckpoint) RANNC_TRY(take_settings(state.settings));
  RANNC_ASSIGN(const ir::ParameterUpdates before, updates_of(plan(), made_by));
  const bool same_state = updates_.have_states_of(before);
  if (!same_state && own.kind != OptimizerKind::kSgd && state.step > 0) {
    return error(
        {folder, 0, 0, {}},
        fmt::format("checkpoint was made with optimizer {}{}, but this run uses {}{}, whose state cannot start after "
                    "step 0",
                    str(made_by.kind), made_by.grouping.groups.empty() ? "" : " and groups", str(own.kind),
                    own.grouping.groups.empty() ? "" : " and groups"));
  }
  const bool averages_start = updates_.averaged() && !before.averaged();
  for (const auto& device : devices_.all()) {
    CheckpointTensors tensors = checkpoint_tensors(*device);
    std::erase_if(tensors, [&](const auto& entry) {
      return is_average_key(entry.first) ? averages_start : !same_state && is_optimizer_key(entry.first);
    });
    RANNC_TRY(read_checkpoint(folder, tensors));
  }
  if (averages_start) RANNC_TRY(restart_averages());
  step_ = state.step;
  updates_done_ = state.updates;
  loss_scale_ = state.loss_scale;
  accumulated_samples_ = 0;
  return state.data_state;
}

Result<WeightsLoaded> Trainer::Impl::load_weights(const std::string& path, WeightNames names) {
  RANNC_TRY(finish_save());
  RANNC_ASSIGN(WeightsLoaded loaded, replace_weights(bundle_, path, names, held_weights(devices_)));
  if (updates_done_ == 0) RANNC_TRY(restart_averages());
  return loaded;
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

Result<std::unique_ptr<Trainer>> Trainer::open(const std::string& bundle, const TrainerOptions& options) {
  RANNC_ASSIGN(Bundle opened, open_bundle(bundle));
  RANNC_ASSIGN(ir::ParameterUpdates updates, updates_of(opened.plan, options.optimizer));
  auto impl = std::make_unique<Impl>(std::move(opened), std::move(updates), options);
  const auto devices = static_cast<uint32_t>(impl->plan().devices.size());
  const TransportKind* kind = options.transport.empty() ? &default_transport(false) : find_transport(options.transport);
  if (kind == nullptr || kind->between_processes()) {
    return error(fmt::format("'{}' is not a transport between threads", options.transport));
  }
  std::vector<Device*> hardware;
  for (uint32_t i = 0; i < devices; ++i) hardware.push_back(impl->add_hardware(i));
  for (auto& transport : kind->open(hardware, options.timeout)) RANNC_TRY(impl->add_device(std::move(transport)));
  RANNC_TRY(impl->finish_devices());
  return std::unique_ptr<Trainer>(new Trainer(std::move(impl)));
}

Result<std::unique_ptr<Trainer>> Trainer::open_worker(const std::string& bundle, const TrainerOptions& options,
                                                      std::shared_ptr<Transport> transport) {
  auto opened = try_to_open(bundle, options, transport);
  if (!opened.ok()) transport->abort(opened.diagnostic());
  return opened;
}

Result<std::unique_ptr<Trainer>> Trainer::try_to_open(const std::string& bundle, const TrainerOptions& options,
                                                      std::shared_ptr<Transport> transport) {
  RANNC_ASSIGN(Bundle opened, open_bundle(bundle, {.device = transport->device()}));
  if (transport->device().index() >= opened.plan.devices.size()) {
    return error(fmt::format("worker {} has no device: the plan has {}", transport->device().index(),
                             opened.plan.devices.size()));
  }
  if (transport->devices() < opened.plan.devices.size()) {
    return error(fmt::format("the plan has {} devices, the run has {} workers", opened.plan.devices.size(),
                             transport->devices()));
  }
  const SharedFacts facts = shared_facts(opened, options);
  RANNC_ASSIGN(ir::ParameterUpdates updates, updates_of(opened.plan, options.optimizer));
  auto impl = std::make_unique<Impl>(std::move(opened), std::move(updates), options);
  RANNC_TRY(impl->add_device(std::move(transport)));
  RANNC_TRY(impl->finish_devices());
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(impl)));
  RANNC_TRY(trainer->check_shared(facts));
  return trainer;
}

const ir::Plan& Trainer::plan() const { return impl_->plan(); }
Result<void> Trainer::reschedule(ir::Plan plan) { return impl_->reschedule(std::move(plan)); }
uint64_t Trainer::steps_done() const { return impl_->steps_done(); }
uint64_t Trainer::updates_done() const { return impl_->updates_done(); }
double Trainer::loss_scale() const { return impl_->loss_scale(); }
uint64_t Trainer::seed() const { return impl_->seed(); }
std::map<std::pair<DeviceId, DeviceId>, SentBytes> Trainer::sent_bytes() const { return impl_->sent_bytes(); }
std::map<StageId, std::string> Trainer::unrecorded_stages() const { return impl_->unrecorded_stages(); }
Result<bool> Trainer::all_agree(bool own) { return impl_->all_agree(own); }
Result<void> Trainer::first_failure(const Result<void>& own) { return impl_->first_failure(own); }
void Trainer::close(const Diagnostic& reason) { impl_->close(reason); }
Result<void> Trainer::gather(const std::string& own, const TakeText& take) { return impl_->gather(own, take); }
Result<void> Trainer::check_shared(const SharedFacts& own) {
  FactComparison comparison;
  return gather(to_text(own), [&](uint32_t process, const std::string& text) { return comparison.add(process, text); });
}
void Trainer::set_learning_rate(double rate) { impl_->set_learning_rate(rate); }
Result<void> Trainer::set_groups(std::vector<ir::ParameterGroup> groups) {
  return impl_->set_groups(std::move(groups));
}
const ir::ParameterUpdates& Trainer::updates() const { return impl_->updates(); }
Result<void> Trainer::swap_averages() { return impl_->swap_averages(); }
const std::vector<std::string>& Trainer::needed_inputs() const { return impl_->needed_inputs(); }
const NeededSamples& Trainer::needed_samples() const { return impl_->needed_samples(); }
Result<StepResult> Trainer::step(const Batch& batch) { return impl_->run(Mode::kTrain, {&batch, 1}); }
Result<StepResult> Trainer::step_part(const Batch& batch) {
  return impl_->run_parts({&batch, 1}, Accumulated::kOneBatch);
}
Result<StepResult> Trainer::step(std::span<const Batch> batches, Accumulated how) {
  return impl_->run(Mode::kTrain, batches, how);
}
Result<StepResult> Trainer::step_part(std::span<const Batch> batches, Accumulated how) {
  return impl_->run_parts(batches, how);
}
Result<StepResult> Trainer::accumulate(const Batch& batch) { return impl_->run(Mode::kAccumulate, {&batch, 1}); }
Result<StepResult> Trainer::evaluate(const Batch& batch, const ReduceNamed& reduce) {
  return impl_->run(Mode::kEvaluate, {&batch, 1}, Accumulated::kOneBatch, reduce);
}
Result<std::map<std::string, Value>> Trainer::gradients() { return impl_->gradients(); }
Result<void> Trainer::save(const std::string& folder, const std::string& data_state) {
  return impl_->save(folder, data_state);
}
Result<void> Trainer::start_save(const std::string& folder, const std::string& data_state) {
  return impl_->start_save(folder, data_state);
}
Result<void> Trainer::finish_save() { return impl_->finish_save(); }
Result<WeightsLoaded> Trainer::load_weights(const std::string& path, WeightNames names) {
  return impl_->load_weights(path, names);
}
Result<std::string> Trainer::load(const std::string& folder, Settings settings) {
  return impl_->load(folder, settings);
}

}  // namespace rannc::runtime
