#include "runtime/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ir/gradient/gradient_reach.h"
#include "ir/verify.h"
#include "runtime/engine/engine.h"
#include "runtime/internal/device_thread.h"
#include "runtime/internal/router.h"
#include "runtime/internal/torch_value.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/internal/gather_outputs.h"
#include "runtime/train/internal/replace_weights.h"
#include "runtime/transport/transports.h"

namespace rannc::runtime {

namespace {

enum class Mode { kTrain, kAccumulate, kEvaluate };

// One device of the plan that runs in this process.
struct Device {
  DeviceId id;
  std::shared_ptr<Transport> transport;
  std::vector<std::unique_ptr<Program>> programs;           // by stage; null: elsewhere
  std::vector<std::unique_ptr<StageOptimizer>> optimizers;  // by stage
  std::unique_ptr<Executor> executor, smaller;  // of whole mini-batches; of those that Impl::smaller_ is for
  std::unique_ptr<DeviceThread> thread;
};

// A parameter and where it is held; of a shared or replicated one the copy that speaks for all.
struct OwnedParameter {
  Device* device;
  StageId stage;
  uint32_t index;  // into the signature's parameters
};

// Tells an observer, where there is one, of the time of its life.
class ClippedSpan {
 public:
  ClippedSpan(Observer* observer, DeviceId device) : observer_(observer), device_(device) {
    if (observer_ != nullptr) observer_->started(device_);
    start_ns_ = now_ns();
  }
  ClippedSpan(const ClippedSpan&) = delete;
  ClippedSpan& operator=(const ClippedSpan&) = delete;
  ~ClippedSpan() {
    if (observer_ != nullptr) observer_->clipped(device_, start_ns_, now_ns());
  }

 private:
  Observer* observer_;
  DeviceId device_;
  int64_t start_ns_ = 0;
};

}  // namespace

class Trainer::Impl {
 public:
  Impl(Bundle opened, const TrainerOptions& options)
      : options_(options), bundle_(std::move(opened)), pipeline_(make_pipeline(bundle_.plan)) {}

  Result<void> add_device(std::shared_ptr<Transport> transport);
  void finish_devices();
  Result<void> reschedule(ir::Plan plan);

  /// A worker that fails, if only over its batch, ends the run: the others wait for it.
  Result<StepResult> run(Mode mode, const Batch& batch) {
    if (failure_) return *failure_;
    Result<StepResult> result = attempt(mode, batch);
    if (!result.ok() && !whole()) close(result.diagnostic());
    return result;
  }
  Result<std::map<std::string, Value>> gradients();
  Result<void> save(const std::string& folder, const std::string& data_state);
  Result<std::string> load(const std::string& folder, Settings settings);
  Result<WeightsLoaded> load_weights(const std::string& path, WeightNames names);
  void take_settings(const TrainingSettings& settings);

  void set_learning_rate(double rate) {
    options_.optimizer.learning_rate = rate;
    for (const auto& device : devices_) {
      for (const auto& optimizer : device->optimizers) {
        if (optimizer) optimizer->set_learning_rate(rate);
      }
    }
  }

  const ir::Plan& plan() const { return bundle_.plan; }
  uint64_t steps_done() const { return step_; }
  uint64_t seed() const { return options_.seed; }
  Result<bool> all_agree(bool own);
  const std::vector<std::string>& needed_inputs() const { return needed_; }

 private:
  std::unique_ptr<Executor> make_executor(const Pipeline& pipeline, Device& device) {
    std::vector<Program*> programs;
    for (const auto& program : device.programs) programs.push_back(program.get());
    return std::make_unique<Executor>(pipeline, device.id, std::move(programs), *device.transport, options_.observer);
  }
  std::unique_ptr<StageOptimizer> make_optimizer(Program& program) const {
    const std::vector<bool> reached = ir::reached_by_gradient(plan().graph);
    std::vector<bool> left_alone;
    for (const Weight& parameter : program.signature().parameters) {
      left_alone.push_back(!reached[parameter.value.index()]);
    }
    return std::make_unique<StageOptimizer>(options_.optimizer, program, std::move(left_alone));
  }
  bool whole() const { return devices_.size() == plan().devices.size(); }
  bool runs(DeviceId id) const {
    return std::any_of(devices_.begin(), devices_.end(), [&](const auto& device) { return device->id == id; });
  }
  Result<StepResult> attempt(Mode mode, const Batch& batch);
  Result<EvaluationBatch> bind(Mode mode, const Batch& batch) const;
  /// Makes the executors of an evaluation of fewer samples than the mini-batch has.
  Result<void> make_smaller(uint32_t samples);
  /// Per loss term; 0 where the term is computed by another process or its labels are not there.
  Result<std::vector<double>> denominators(const EvaluationBatch& bound) const;
  StepInput prepare(Mode mode, const std::vector<double>& denominators, const EvaluationBatch& bound) const;
  Result<std::vector<StepOutcome>> run_devices(const StepInput& input, Mode mode, uint32_t samples);
  Result<std::vector<LossSum>> losses_of(const std::vector<StepOutcome>& outcomes,
                                         const std::vector<double>& denominators, bool labelled);
  Result<double> clip_and_update();
  Result<void> for_each_device(const std::function<Result<void>(Device&)>& job);
  /// Sums over the processes of the run; the identity where one process holds all devices.
  Result<at::Tensor> sum_over_processes(at::Tensor values);
  CheckpointTensors tensors_of(Device& device);
  Diagnostic close(Diagnostic failure);

  TrainerOptions options_;
  Bundle bundle_;
  Pipeline pipeline_;
  std::unique_ptr<Pipeline> smaller_;  // forward alone, over fewer samples; null: not asked for yet
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<OwnedParameter> owned_;  // in the order of the graph's values
  std::vector<ValueId> owned_values_;
  std::vector<std::string> needed_;
  uint64_t step_ = 0;
  uint64_t accumulated_samples_ = 0;  // of the step to come; 0: nothing is accumulated
  uint32_t exchanges_ = 0;            // collectives of our own so far, the same count in every process
  std::optional<Diagnostic> failure_;
};

Result<void> Trainer::Impl::add_device(std::shared_ptr<Transport> transport) {
  RANNC_ASSIGN(const Engine* const engine, find_engine(options_.engine));
  auto device = std::make_unique<Device>();
  device->id = transport->device();
  device->transport = std::move(transport);
  device->programs.resize(plan().stages.size());
  device->optimizers.resize(plan().stages.size());
  for (size_t s = 0; s < plan().stages.size(); ++s) {
    const auto& homes = plan().stages[s].devices;
    if (std::find(homes.begin(), homes.end(), device->id) == homes.end()) continue;
    RANNC_ASSIGN(device->programs[s], engine->load(bundle_, StageId::from(s), options_.origins));
    if (plan().training) device->optimizers[s] = make_optimizer(*device->programs[s]);
  }
  device->executor = make_executor(pipeline_, *device);
  device->thread = std::make_unique<DeviceThread>();
  devices_.push_back(std::move(device));
  return {};
}

Result<void> Trainer::Impl::reschedule(ir::Plan changed) {
  const auto same_cut = [](const ir::Stage& a, const ir::Stage& b) {
    return a.tasks == b.tasks && a.devices == b.devices;
  };
  if (!ir::equal(changed.graph, plan().graph) ||
      !std::equal(changed.stages.begin(), changed.stages.end(), plan().stages.begin(), plan().stages.end(), same_cut)) {
    return error("another schedule must keep the graph, the stages and their devices");
  }
  RANNC_TRY(ir::as_result(ir::verify(changed)));
  bundle_.plan = std::move(changed);
  pipeline_ = make_pipeline(bundle_.plan);
  for (const auto& device : devices_) {
    device->executor = make_executor(pipeline_, *device);
    device->smaller.reset();
  }
  smaller_.reset();
  accumulated_samples_ = 0;
  return {};
}

void Trainer::Impl::finish_devices() {
  std::set<std::string> needed;
  std::map<ValueId, OwnedParameter> owned;
  for (const auto& device : devices_) {
    for (size_t s = 0; s < device->programs.size(); ++s) {
      if (!device->programs[s]) continue;
      const Signature& signature = pipeline_.stages[s];
      for (const Port& port : signature.inputs) {
        if (port.from_graph) needed.insert(port.name);
      }
      for (size_t t = 0; t < pipeline_.losses.size(); ++t) {
        const ValueId labels = plan().graph.losses()[t].labels;
        if (labels.valid() && pipeline_.losses[t].stage == StageId::from(s)) {
          needed.insert(std::string(plan().graph.value(labels).name));
        }
      }
      if (plan().stages[s].devices.front() != device->id) continue;
      for (uint32_t i = 0; i < signature.parameters.size(); ++i) {
        const ValueId value = signature.parameters[i].value;
        const auto shared = std::find_if(plan().shared.begin(), plan().shared.end(),
                                         [&](const ir::SharedParameter& entry) { return entry.parameter == value; });
        if (shared != plan().shared.end() && shared->owner != StageId::from(s)) continue;
        owned.emplace(value, OwnedParameter{device.get(), StageId::from(s), i});
      }
    }
  }
  for (const auto& [value, parameter] : owned) {
    owned_values_.push_back(value);
    owned_.push_back(parameter);
  }
  needed_.assign(needed.begin(), needed.end());
}

Diagnostic Trainer::Impl::close(Diagnostic failure) {
  if (!failure_) failure_ = std::move(failure);
  for (const auto& device : devices_) device->transport->abort(*failure_);
  return *failure_;
}

Result<void> Trainer::Impl::for_each_device(const std::function<Result<void>(Device&)>& job) {
  std::vector<Result<void>> results(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    devices_[i]->thread->post([&, i] {
      try {
        results[i] = job(*devices_[i]);
      } catch (const std::exception& failure) {
        results[i] = error(failure.what());
      }
      if (!results[i].ok()) devices_[i]->transport->abort(results[i].diagnostic());
    });
  }
  for (const auto& device : devices_) device->thread->wait();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) continue;
    // What stopped the others is the first reason, whichever device noticed it first.
    return close(devices_[i]->transport->failure().value_or(results[i].diagnostic()));
  }
  return {};
}

Result<at::Tensor> Trainer::Impl::sum_over_processes(at::Tensor values) {
  if (whole()) return values;
  std::vector<DeviceId> members;
  for (size_t i = 0; i < plan().devices.size(); ++i) members.push_back(DeviceId::from(i));
  const CollectiveKey key{step_, CollectiveKey::Kind::kOther, exchanges_++};
  auto sums = devices_[0]->transport->all_reduce(key, members, {to_value(std::move(values))});
  if (!sums.ok()) return close(sums.diagnostic());
  return to_tensor((*sums)[0]);
}

Result<std::vector<double>> Trainer::Impl::denominators(const EvaluationBatch& bound) const {
  std::vector<double> found(pipeline_.losses.size(), 0);
  for (size_t t = 0; t < found.size() && bound.labelled; ++t) {
    const bool here = std::any_of(devices_.begin(), devices_.end(), [&](const auto& device) {
      return device->programs[pipeline_.losses[t].stage.index()] != nullptr;
    });
    if (!here) continue;
    const ir::LossTerm& term = plan().graph.losses()[t];
    RANNC_ASSIGN(found[t], loss_denominator(plan(), term, bound.batch, bound.samples));
  }
  return found;
}

StepInput Trainer::Impl::prepare(Mode mode, const std::vector<double>& denominators,
                                 const EvaluationBatch& bound) const {
  StepInput input;
  input.step = step_;
  input.seed = options_.seed;
  input.training = mode != Mode::kEvaluate;
  input.keep_outputs = mode != Mode::kTrain;
  input.carry = accumulated_samples_ > 0;
  input.samples_before = accumulated_samples_;
  input.symbols = bound.symbols;
  input.symbols.erase(plan().graph.batch_symbol());
  for (size_t t = 0; t < pipeline_.losses.size(); ++t) {
    const ir::LossTerm& term = plan().graph.losses()[t];
    const auto dtype = to_scalar_type(plan().graph.type(term.numerator).dtype);
    input.loss_seeds.push_back(
        to_value(at::scalar_tensor(term.loss(1, denominators[t]), at::TensorOptions().dtype(dtype))));
  }
  return input;
}

Result<void> Trainer::Impl::make_smaller(uint32_t samples) {
  RANNC_ASSIGN(Pipeline smaller, forward_pipeline(pipeline_, samples));
  if (smaller_ && smaller_->shape == smaller.shape) return {};
  for (const auto& device : devices_) device->smaller.reset();
  smaller_ = std::make_unique<Pipeline>(std::move(smaller));
  for (const auto& device : devices_) device->smaller = make_executor(*smaller_, *device);
  return {};
}

Result<std::vector<StepOutcome>> Trainer::Impl::run_devices(const StepInput& input, Mode mode, uint32_t samples) {
  const bool smaller = samples != plan().mini_batch;
  if (smaller) RANNC_TRY(make_smaller(samples));
  std::vector<StepOutcome> outcomes(devices_.size());
  RANNC_TRY(for_each_device([&](Device& device) -> Result<void> {
    StepInput own = input;
    if (mode == Mode::kTrain) {
      own.update = [&device, this](StageId stage, Program&) -> Result<void> {
        if (options_.clip_norm > 0) return {};  // `clip_and_update` steps, once the norm is known
        return device.optimizers[stage.index()]->update(step_);
      };
    }
    const auto index = static_cast<size_t>(
        std::find_if(devices_.begin(), devices_.end(), [&](const auto& d) { return d.get() == &device; }) -
        devices_.begin());
    RANNC_ASSIGN(outcomes[index], (smaller ? device.smaller : device.executor)->run(own));
    return {};
  }));
  return outcomes;
}

// Numerators are summed device by device and then over devices, as several processes do.
Result<std::vector<LossSum>> Trainer::Impl::losses_of(const std::vector<StepOutcome>& outcomes,
                                                      const std::vector<double>& denominators, bool labelled) {
  const size_t terms = pipeline_.losses.size();
  at::Tensor sums = at::zeros({static_cast<int64_t>(2 * terms + 1)}, at::kDouble);
  auto slots = sums.accessor<double, 1>();
  for (size_t t = 0; t < terms; ++t) {
    const auto slot = static_cast<int64_t>(2 * t);
    for (const StepOutcome& outcome : outcomes) {
      double own = 0;
      for (const OutputPart& part : outcome.numerators[t]) own += part.part->item();
      slots[slot] += own;
    }
    const StageId stage = pipeline_.losses[t].stage;
    if (runs(plan().stages[stage.index()].devices.front())) slots[slot + 1] = denominators[t];
  }
  slots[static_cast<int64_t>(2 * terms)] = labelled ? 0 : 1;
  RANNC_ASSIGN(const at::Tensor all, sum_over_processes(sums));
  const auto total = all.accessor<double, 1>();
  std::vector<LossSum> losses;
  if (total[static_cast<int64_t>(2 * terms)] > 0) return losses;
  for (size_t t = 0; t < terms; ++t) {
    losses.push_back({total[static_cast<int64_t>(2 * t)], total[static_cast<int64_t>(2 * t + 1)]});
  }
  return losses;
}

// The norm is summed parameter by parameter in the order of the graph, so that it does not depend on the cut.
Result<double> Trainer::Impl::clip_and_update() {
  at::Tensor squares = at::zeros({static_cast<int64_t>(plan().graph.value_count())}, at::kDouble);
  auto slots = squares.accessor<double, 1>();
  RANNC_TRY(for_each_device([&](Device& device) -> Result<void> {
    const ClippedSpan span(options_.observer, device.id);
    for (size_t i = 0; i < owned_.size(); ++i) {
      const OwnedParameter& owned = owned_[i];
      if (owned.device != &device) continue;
      slots[owned_values_[i].index()] = squared_norm(*device.programs[owned.stage.index()], {&owned.index, 1});
    }
    return {};
  }));
  RANNC_ASSIGN(const at::Tensor all, sum_over_processes(squares));
  const auto terms = all.accessor<double, 1>();
  double total = 0;
  for (int64_t i = 0; i < all.size(0); ++i) total += terms[i];
  const double norm = std::sqrt(total);
  if (!std::isfinite(norm)) return close(error(fmt::format("step {}: the gradient's norm is {}", step_, norm)));
  const double scale = clip_scale(norm, options_.clip_norm);
  RANNC_TRY(for_each_device([&](Device& device) -> Result<void> {
    const ClippedSpan span(options_.observer, device.id);
    for (const auto& optimizer : device.optimizers) {
      if (optimizer) RANNC_TRY(optimizer->update(step_, scale));
    }
    return {};
  }));
  return norm;
}

Result<EvaluationBatch> Trainer::Impl::bind(Mode mode, const Batch& batch) const {
  if (mode == Mode::kEvaluate) return bind_evaluation(plan(), batch, needed_);
  if (!plan().training) return error("the bundle was compiled without a loss: it cannot be trained");
  RANNC_ASSIGN(ir::Bindings symbols, bind_batch(plan(), batch, needed_));
  return EvaluationBatch{batch, std::move(symbols), plan().mini_batch, true};
}

Result<StepResult> Trainer::Impl::attempt(Mode mode, const Batch& batch) {
  RANNC_ASSIGN(const EvaluationBatch bound, bind(mode, batch));
  RANNC_ASSIGN(const std::vector<double> denominators, this->denominators(bound));
  StepInput input = prepare(mode, denominators, bound);
  BatchFeed feed(bound.batch, bound.symbols);
  input.feed = &feed;
  RANNC_ASSIGN(const std::vector<StepOutcome> outcomes, run_devices(input, mode, bound.samples));
  StepResult result;
  RANNC_ASSIGN(result.losses, losses_of(outcomes, denominators, bound.labelled));
  for (size_t t = 0; t < result.losses.size(); ++t) {
    const LossSum& sum = result.losses[t];
    result.loss += plan().graph.losses()[t].loss(sum.numerator, sum.denominator);
  }
  if (!std::isfinite(result.loss) && mode == Mode::kTrain) {
    return close(error(fmt::format("step {}: the loss is {}", step_, result.loss)));
  }
  if (mode == Mode::kTrain && options_.clip_norm > 0) {
    RANNC_ASSIGN(result.gradient_norm, clip_and_update());
  }
  if (input.keep_outputs) gather_outputs(plan(), outcomes, bound.symbols, result);
  if (mode == Mode::kTrain) ++step_;
  if (mode == Mode::kTrain) accumulated_samples_ = 0;
  if (mode == Mode::kAccumulate) accumulated_samples_ += bound.samples;
  return result;
}

Result<bool> Trainer::Impl::all_agree(bool own) {
  if (failure_) return *failure_;
  RANNC_ASSIGN(const at::Tensor refusals, sum_over_processes(at::full({1}, own ? 0 : 1, at::kLong)));
  return refusals.item<int64_t>() == 0;
}

Result<std::map<std::string, Value>> Trainer::Impl::gradients() {
  std::map<std::string, Value> found;
  for (const OwnedParameter& owned : owned_) {
    const Values values = owned.device->programs[owned.stage.index()]->gradients({&owned.index, 1});
    found.emplace(pipeline_.stages[owned.stage.index()].parameters[owned.index].name, values[0]);
  }
  return found;
}

CheckpointTensors Trainer::Impl::tensors_of(Device& device) {
  CheckpointTensors tensors;
  for (size_t s = 0; s < device.programs.size(); ++s) {
    if (!device.programs[s]) continue;
    const Signature& signature = pipeline_.stages[s];
    const Program& program = *device.programs[s];
    for (size_t i = 0; i < signature.parameters.size(); ++i) {
      const std::string& name = signature.parameters[i].name;
      tensors.emplace("parameter/" + name, program.parameters()[i]);
      if (!device.optimizers[s]) continue;
      const auto& states = device.optimizers[s]->state_names();
      for (size_t k = 0; k < states.size(); ++k) {
        tensors.emplace("optimizer/" + states[k] + "/" + name, device.optimizers[s]->states()[k][i]);
      }
    }
    for (size_t i = 0; i < signature.buffers.size(); ++i) {
      tensors.emplace("buffer/" + signature.buffers[i].name, program.buffers()[i]);
    }
  }
  return tensors;
}

Result<void> Trainer::Impl::save(const std::string& folder, const std::string& data_state) {
  if (failure_) return *failure_;
  Result<void> written;
  for (const auto& device : devices_) {
    if (written.ok()) written = write_checkpoint_part(folder, device->id.index(), tensors_of(*device));
  }
  RANNC_ASSIGN(const bool all_written, all_agree(written.ok()));
  const bool leads = devices_[0]->id == DeviceId(0);
  Result<void> finished;
  if (all_written && leads) {
    std::vector<uint32_t> parts(plan().devices.size());
    for (uint32_t i = 0; i < parts.size(); ++i) parts[i] = i;
    finished = finish_checkpoint(
        folder, parts,
        {step_, {options_.optimizer, options_.clip_norm, options_.seed}, plan().model_digest, data_state});
  } else if (!all_written && leads) {
    discard_checkpoint(folder);
  }
  RANNC_ASSIGN(const bool all_finished, all_agree(finished.ok()));
  RANNC_TRY(written);
  RANNC_TRY(finished);
  if (!all_written || !all_finished)
    return error("the checkpoint was given up because another worker could not write its part");
  return {};
}

void Trainer::Impl::take_settings(const TrainingSettings& settings) {
  options_.optimizer = settings.optimizer;
  options_.clip_norm = settings.clip_norm;
  options_.seed = settings.seed;
  for (const auto& device : devices_) {
    for (size_t s = 0; s < device->optimizers.size(); ++s) {
      if (device->optimizers[s]) device->optimizers[s] = make_optimizer(*device->programs[s]);
    }
  }
}

Result<std::string> Trainer::Impl::load(const std::string& folder, Settings settings) {
  if (failure_) return *failure_;
  RANNC_ASSIGN(const CheckpointState state, read_checkpoint_state(folder));
  RANNC_TRY(check_model(state, folder, plan()));
  const OptimizerOptions &made_by = state.settings.optimizer, &own = options_.optimizer;
  if (settings == Settings::kOfCheckpoint) take_settings(state.settings);
  const bool same_state = made_by.states() == own.states();
  if (!same_state && own.kind != OptimizerKind::kSgd && state.step > 0) {
    return error({folder, 0, 0, {}},
                 fmt::format("checkpoint was made with optimizer {}, this run uses {}, whose state cannot begin later",
                             str(made_by.kind), str(own.kind)));
  }
  for (const auto& device : devices_) {
    CheckpointTensors tensors = tensors_of(*device);
    if (!same_state) std::erase_if(tensors, [](const auto& entry) { return entry.first.starts_with("optimizer/"); });
    RANNC_TRY(read_checkpoint(folder, tensors));
  }
  step_ = state.step;
  accumulated_samples_ = 0;
  return state.data_state;
}

Result<WeightsLoaded> Trainer::Impl::load_weights(const std::string& path, WeightNames names) {
  if (failure_) return *failure_;
  std::map<ValueId, Values> held;
  for (const auto& device : devices_) {
    for (size_t s = 0; s < device->programs.size(); ++s) {
      if (!device->programs[s]) continue;
      const Signature& signature = pipeline_.stages[s];
      for (size_t i = 0; i < signature.parameters.size(); ++i)
        held[signature.parameters[i].value].push_back(device->programs[s]->parameters()[i]);
      for (size_t i = 0; i < signature.buffers.size(); ++i)
        held[signature.buffers[i].value].push_back(device->programs[s]->buffers()[i]);
    }
  }
  return replace_weights(plan().graph, path, names, held);
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

Result<std::unique_ptr<Trainer>> Trainer::open(const std::string& bundle, const TrainerOptions& options) {
  RANNC_ASSIGN(Bundle opened, open_bundle(bundle));
  auto impl = std::make_unique<Impl>(std::move(opened), options);
  const auto devices = static_cast<uint32_t>(impl->plan().devices.size());
  const TransportKind* kind = options.transport.empty() ? &default_transport(false) : find_transport(options.transport);
  if (kind == nullptr || kind->between_processes()) {
    return error(fmt::format("'{}' is no transport between threads", options.transport));
  }
  for (auto& transport : kind->open(devices, options.timeout)) RANNC_TRY(impl->add_device(std::move(transport)));
  impl->finish_devices();
  return std::unique_ptr<Trainer>(new Trainer(std::move(impl)));
}

Result<std::unique_ptr<Trainer>> Trainer::open_worker(const std::string& bundle, const TrainerOptions& options,
                                                      std::shared_ptr<Transport> transport) {
  RANNC_ASSIGN(Bundle opened, open_bundle(bundle));
  if (transport->device().index() >= opened.plan.devices.size()) {
    return error(fmt::format("worker {} has no device: the plan has {}", transport->device().index(),
                             opened.plan.devices.size()));
  }
  if (transport->devices() < opened.plan.devices.size()) {
    return error(fmt::format("the plan has {} devices, the run has {} workers", opened.plan.devices.size(),
                             transport->devices()));
  }
  auto impl = std::make_unique<Impl>(std::move(opened), options);
  RANNC_TRY(impl->add_device(std::move(transport)));
  impl->finish_devices();
  return std::unique_ptr<Trainer>(new Trainer(std::move(impl)));
}

const ir::Plan& Trainer::plan() const { return impl_->plan(); }
Result<void> Trainer::reschedule(ir::Plan plan) { return impl_->reschedule(std::move(plan)); }
uint64_t Trainer::steps_done() const { return impl_->steps_done(); }
uint64_t Trainer::seed() const { return impl_->seed(); }
Result<bool> Trainer::all_agree(bool own) { return impl_->all_agree(own); }
void Trainer::set_learning_rate(double rate) { impl_->set_learning_rate(rate); }
const std::vector<std::string>& Trainer::needed_inputs() const { return impl_->needed_inputs(); }
Result<StepResult> Trainer::step(const Batch& batch) { return impl_->run(Mode::kTrain, batch); }
Result<StepResult> Trainer::accumulate(const Batch& batch) { return impl_->run(Mode::kAccumulate, batch); }
Result<StepResult> Trainer::evaluate(const Batch& batch) { return impl_->run(Mode::kEvaluate, batch); }
Result<std::map<std::string, Value>> Trainer::gradients() { return impl_->gradients(); }
Result<void> Trainer::save(const std::string& folder, const std::string& data_state) {
  return impl_->save(folder, data_state);
}
Result<WeightsLoaded> Trainer::load_weights(const std::string& path, WeightNames names) {
  return impl_->load_weights(path, names);
}
Result<std::string> Trainer::load(const std::string& folder, Settings settings) {
  return impl_->load(folder, settings);
}

}  // namespace rannc::runtime
