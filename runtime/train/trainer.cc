#include "runtime/train/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "ir/verify.h"
#include "runtime/aten/thread_state.h"
#include "runtime/train/internal/shared_facts.h"
#include "runtime/train/internal/trainer_impl.h"
#include "runtime/transport/transports.h"

namespace rannc::runtime {

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
    at::get_num_threads();  // initializes that of this thread, which later calls of others do not change
    for (size_t s = 0; s < plan().stages.size(); ++s) {
      const auto& homes = plan().stages[s].devices;
      if (std::find(homes.begin(), homes.end(), device->id) == homes.end()) continue;
      RANNC_ASSIGN(device->programs[s], engine->load(bundle_, StageId::from(s), {options_.origins, options_.nonfinite},
                                                     device->transport->hardware()));
      if (!options_.records_steps || options_.nonfinite != nullptr) device->programs[s]->record_steps(false);
      if (plan().training)
        device->optimizers[s] =
            make_optimizer(*device->programs[s], StageId::from(s), device->id, device->transport->hardware());
    }
    return {};
  }));
  device->executor = make_executor(pipeline_, *device);
  devices_.add(std::move(device));
  return {};
}

Result<void> Trainer::Impl::reschedule(ir::Plan changed) {
  if (!devices_.is_own()) return *devices_.failure();
  RANNC_TRY(await_begun());
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
  awaited_ = false;
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

Result<void> Trainer::Impl::gather(const std::string& own, const TakeText& take) {
  for (uint32_t process = 0; process < (devices_.whole() ? 1 : plan().devices.size()); ++process) {
    RANNC_ASSIGN(std::string text, devices_.text_of(DeviceId(process), own));
    if (!devices_.contains(DeviceId(0))) continue;
    if (const Result<void> taken = take(process, std::move(text)); !taken.ok())
      return devices_.whole() ? taken.diagnostic() : devices_.close(taken.diagnostic());
  }
  RANNC_TRY(all_agree(true));
  return {};
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
// A forked process has none of the threads, and must not end what belongs to the other one: connections, checkpoints.
Trainer::~Trainer() {
  if (impl_ && !impl_->is_own()) static_cast<void>(impl_.release());
}

Result<std::unique_ptr<Trainer>> Trainer::open(const std::string& bundle, const TrainerOptions& options) {
  const NewThreadState as_new_thread;
  RANNC_ASSIGN(Bundle opened, open_bundle(bundle));
  RANNC_ASSIGN(ir::ParameterUpdates updates, Impl::updates_of(opened.plan, options.optimizer));
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
  const NewThreadState as_new_thread;
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
  SharedFacts facts = shared_facts(opened, options);
  facts.merge(process_facts(transport->hardware().type()));
  RANNC_ASSIGN(ir::ParameterUpdates updates, Impl::updates_of(opened.plan, options.optimizer));
  auto impl = std::make_unique<Impl>(std::move(opened), std::move(updates), options);
  RANNC_TRY(impl->add_device(std::move(transport)));
  RANNC_TRY(impl->finish_devices());
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(impl)));
  RANNC_TRY(trainer->check_shared(facts));
  return trainer;
}

// The public functions. Those that compute do it as in a new thread, whatever the state of the caller's is.

const ir::Plan& Trainer::plan() const { return impl_->plan(); }
uint64_t Trainer::steps_done() const { return impl_->steps_done(); }
uint64_t Trainer::updates_done() const { return impl_->updates_done(); }
double Trainer::loss_scale() const { return impl_->loss_scale(); }
uint64_t Trainer::seed() const { return impl_->seed(); }
std::map<std::pair<DeviceId, DeviceId>, SentBytes> Trainer::sent_bytes() const { return impl_->sent_bytes(); }
std::map<StageId, std::string> Trainer::unrecorded_stages() const { return impl_->unrecorded_stages(); }
const ir::ParameterUpdates& Trainer::updates() const { return impl_->updates(); }
const std::vector<std::string>& Trainer::needed_inputs() const { return impl_->needed_inputs(); }
const NeededSamples& Trainer::needed_samples() const { return impl_->needed_samples(); }
void Trainer::close(const Diagnostic& reason) { impl_->close(reason); }
void Trainer::abort(const Diagnostic& reason) { impl_->abort(reason); }

Result<void> Trainer::reschedule(ir::Plan plan) {
  const NewThreadState as_new_thread;
  return impl_->reschedule(std::move(plan));
}
Result<bool> Trainer::all_agree(bool own) {
  const NewThreadState as_new_thread;
  return impl_->all_agree(own);
}
Result<void> Trainer::first_failure(const Result<void>& own) {
  const NewThreadState as_new_thread;
  return impl_->first_failure(own);
}
Result<void> Trainer::gather(const std::string& own, const TakeText& take) {
  const NewThreadState as_new_thread;
  return impl_->gather(own, take);
}
Result<void> Trainer::check_shared(const SharedFacts& own) {
  FactComparison comparison;
  return gather(to_text(own), [&](uint32_t process, const std::string& text) { return comparison.add(process, text); });
}
void Trainer::set_learning_rate(double rate) {
  const NewThreadState as_new_thread;
  impl_->set_learning_rate(rate);
}
Result<void> Trainer::set_groups(std::vector<ir::ParameterGroup> groups) {
  const NewThreadState as_new_thread;
  return impl_->set_groups(std::move(groups));
}
Result<void> Trainer::swap_averages() {
  const NewThreadState as_new_thread;
  return impl_->swap_averages();
}
Result<StepResult> Trainer::step(const Batch& batch) { return step({&batch, 1}, Accumulated::kOneBatch); }
Result<StepResult> Trainer::step_part(const Batch& batch) { return step_part({&batch, 1}, Accumulated::kOneBatch); }
Result<StepResult> Trainer::step(std::span<const Batch> batches, Accumulated how) {
  const NewThreadState as_new_thread;
  return impl_->run(Impl::Mode::kTrain, batches, how);
}
Result<StepResult> Trainer::step_part(std::span<const Batch> batches, Accumulated how) {
  const NewThreadState as_new_thread;
  return impl_->run_parts(batches, how);
}
Result<void> Trainer::begin_step_part(std::span<const Batch> batches, Accumulated how) {
  const NewThreadState as_new_thread;
  return impl_->begin_parts(batches, how);
}
bool Trainer::runs_ahead() const { return impl_->runs_ahead(); }
size_t Trainer::begun_steps() const { return impl_->begun_steps(); }
Result<StepResult> Trainer::end_step() {
  const NewThreadState as_new_thread;
  return impl_->end_step();
}
Result<StepResult> Trainer::accumulate(const Batch& batch) {
  const NewThreadState as_new_thread;
  return impl_->run(Impl::Mode::kAccumulate, {&batch, 1});
}
Result<StepResult> Trainer::evaluate(const Batch& batch, const ReduceNamed& reduce) {
  const NewThreadState as_new_thread;
  return impl_->run(Impl::Mode::kEvaluate, {&batch, 1}, Accumulated::kOneBatch, reduce);
}
Result<std::map<std::string, Value>> Trainer::gradients() {
  const NewThreadState as_new_thread;
  return impl_->gradients();
}
Result<void> Trainer::save(const std::string& folder, const std::string& data_state) {
  const NewThreadState as_new_thread;
  return impl_->save(folder, data_state);
}
Result<void> Trainer::start_save(const std::string& folder, const std::string& data_state) {
  const NewThreadState as_new_thread;
  return impl_->start_save(folder, data_state);
}
Result<void> Trainer::finish_save() {
  const NewThreadState as_new_thread;
  return impl_->finish_save();
}
Result<WeightsLoaded> Trainer::load_weights(const std::string& path, WeightNames names) {
  const NewThreadState as_new_thread;
  return impl_->load_weights(path, names);
}
Result<SharedTensors> Trainer::load_shared(const std::string& checkpoint) {
  const NewThreadState as_new_thread;
  return impl_->load_shared(checkpoint);
}
Result<std::string> Trainer::load(const std::string& folder, Settings settings) {
  const NewThreadState as_new_thread;
  return impl_->load(folder, settings);
}

}  // namespace rannc::runtime
