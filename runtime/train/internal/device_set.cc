#include "runtime/train/internal/device_set.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/internal/reason.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

constexpr int64_t kTextPart = 16 << 20;  // bytes of a message

}  // namespace

Result<void> DeviceSet::attempt(TrainedDevice& device, const std::function<Result<void>()>& job, JobEnd end) {
  try {
    Device& hardware = device.transport->hardware();
    const auto on_compute_stream = hardware.enter(Stream::kCompute);
    RANNC_TRY(job());
    if (end == JobEnd::kDone) hardware.synchronize();
  } catch (const std::exception& failure) {
    return error(fmt::format("device {}: {}", device.id.index(), reason_of(failure)));
  }
  return {};
}

Result<void> run_on(TrainedDevice& device, const std::function<Result<void>()>& job) {
  Result<void> result;
  device.thread->post([&] { result = DeviceSet::attempt(device, job, DeviceSet::JobEnd::kDone); });
  device.thread->wait();
  return result;
}

bool DeviceSet::contains(DeviceId id) const {
  return std::any_of(devices_.begin(), devices_.end(), [&](const auto& device) { return device->id == id; });
}

int64_t DeviceSet::position_of(const TrainedDevice& device) const {
  return std::find_if(devices_.begin(), devices_.end(), [&](const auto& each) { return each.get() == &device; }) -
         devices_.begin();
}

bool DeviceSet::has_stage(StageId stage) const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](const auto& device) { return device->programs[stage.index()] != nullptr; });
}

Result<void> DeviceSet::run(const std::function<Result<void>(TrainedDevice&)>& job, JobEnd end) {
  if (!is_own()) return *failure();
  std::vector<Result<void>> results(devices_.size());
  for (size_t i = 0; i < devices_.size(); ++i) {
    devices_[i]->thread->post([&, i] {
      results[i] = attempt(
          *devices_[i], [&] { return job(*devices_[i]); }, end);
      if (!results[i].ok()) devices_[i]->transport->abort(results[i].diagnostic());
    });
  }
  for (const auto& device : devices_) device->thread->wait();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) continue;
    // The transport has the first reason, regardless of which device noticed it first.
    return close(devices_[i]->transport->failure().value_or(results[i].diagnostic()));
  }
  return {};
}

Result<at::Tensor> DeviceSet::sum_over_processes(at::Tensor values) {
  if (whole()) return values;
  std::vector<DeviceId> members;
  for (size_t i = 0; i < plan_devices_; ++i) members.push_back(DeviceId::from(i));
  return sum_over(members, std::move(values), {0, CollectiveKey::Kind::kOther, exchanges_++});
}

Result<at::Tensor> DeviceSet::sum_over(std::span<const DeviceId> members, at::Tensor values, const CollectiveKey& key) {
  auto sums = devices_[0]->transport->all_reduce(key, members, {to_value(std::move(values))});
  if (!sums.ok()) return close(sums.diagnostic());
  return to_tensor((*sums)[0]);
}

// The receiver adds zeros, so that a text is a sum.
Result<std::string> DeviceSet::text_of(DeviceId from, const std::string& own) {
  const DeviceId first(0);
  if (const auto ended = failure()) return *ended;
  CollectiveKey key{0, CollectiveKey::Kind::kOther, exchanges_++};  // counted alike in all processes
  if (contains(first) && contains(from)) return own;
  if (!contains(first) && !contains(from)) return std::string();
  const std::vector<DeviceId> members = {first, from};
  const bool sends = contains(from);
  const auto own_bytes = static_cast<int64_t>(sends ? own.size() : 0);
  RANNC_ASSIGN(const at::Tensor sum, sum_over(members, at::full({1}, own_bytes, at::kLong), key));
  std::string text(sends ? 0 : sum.item<int64_t>(), '\0');
  for (int64_t begin = 0, all = sum.item<int64_t>(); begin < all; begin += kTextPart) {
    const int64_t size = std::min(kTextPart, all - begin);
    at::Tensor part = at::zeros({size}, at::kByte);
    if (sends) std::copy_n(own.data() + begin, size, part.data_ptr<uint8_t>());
    ++key.part;
    RANNC_ASSIGN(const at::Tensor received, sum_over(members, std::move(part), key));
    if (!sends) std::copy_n(received.const_data_ptr<uint8_t>(), size, text.data() + begin);
  }
  return text;
}

Result<bool> DeviceSet::all_agree(bool own) {
  if (const auto ended = failure()) return *ended;
  RANNC_ASSIGN(const at::Tensor refusals, sum_over_processes(at::full({1}, own ? 0 : 1, at::kLong)));
  return refusals.item<int64_t>() == 0;
}

// Sizes of texts, with 1 added, then the bytes of the first one, are sums with zeros of the others.
Result<void> DeviceSet::first_failure(const Result<void>& own) {
  if (whole()) return own;
  RANNC_ASSIGN(const bool all_well, all_agree(own.ok()));
  if (all_well) return {};
  const size_t own_index = devices_[0]->id.index();
  const std::string text = own.ok() ? std::string() : without_severity(own.diagnostic());
  at::Tensor own_sizes = at::zeros({static_cast<int64_t>(plan_devices_)}, at::kLong);
  if (!own.ok()) own_sizes[static_cast<int64_t>(own_index)] = static_cast<int64_t>(text.size()) + 1;
  RANNC_ASSIGN(const at::Tensor sizes, sum_over_processes(std::move(own_sizes)));
  const std::span size_of(sizes.const_data_ptr<int64_t>(), plan_devices_);
  const auto first = std::find_if(size_of.begin(), size_of.end(), [](int64_t size) { return size > 0; });
  const auto index = static_cast<size_t>(first - size_of.begin());
  at::Tensor own_bytes = at::zeros({*first - 1}, at::kByte);
  if (index == own_index) std::copy(text.begin(), text.end(), own_bytes.data_ptr<uint8_t>());
  RANNC_ASSIGN(const at::Tensor bytes, sum_over_processes(std::move(own_bytes)));
  if (index == own_index) return own;
  const std::span found(bytes.const_data_ptr<uint8_t>(), static_cast<size_t>(*first - 1));
  return error(fmt::format("worker {}: {}", index, std::string(found.begin(), found.end())));
}

std::optional<Diagnostic> DeviceSet::failure() const {
  if (is_own()) return failure_;
  return error(fmt::format("the trainer belongs to process {}, of which this is a fork: only that process can use it",
                           process_));
}

void DeviceSet::abort(const Diagnostic& failure) const {
  if (!is_own()) return;
  for (const auto& device : devices_) device->transport->abort(failure);
}

Diagnostic DeviceSet::close(Diagnostic failure) {
  if (!is_own()) return *this->failure();
  if (!failure_) failure_ = std::move(failure);
  for (const auto& device : devices_) device->transport->abort(*failure_);
  return *failure_;
}

namespace {

std::string state_key(const std::string& state, const std::string& parameter) {
  return "optimizer/" + state + "/" + parameter;
}

void add_states(const StageOptimizer& optimizer, const Signature& signature, CheckpointTensors& tensors) {
  for (const OptimizerState& state : optimizer.states()) {
    const std::string& stored = signature.parameters[state.parameter].name;
    const std::string key = state_key(state.name, state.tensor.empty() ? stored : state.tensor);
    tensors.emplace(state.slice ? slice_key(key, state.slice->first, state.slice->last) : key, state.value);
  }
}

}  // namespace

CheckpointTensors checkpoint_tensors(const TrainedDevice& device) {
  CheckpointTensors tensors;
  for (size_t s = 0; s < device.programs.size(); ++s) {
    if (!device.programs[s]) continue;
    const Program& program = *device.programs[s];
    const Signature& signature = program.signature();
    for (size_t i = 0; i < signature.parameters.size(); ++i) {
      const std::string& name = signature.parameters[i].name;
      tensors.emplace("parameter/" + name, program.parameters()[i]);
    }
    if (device.optimizers[s]) add_states(*device.optimizers[s], signature, tensors);
    for (size_t i = 0; i < signature.buffers.size(); ++i) {
      tensors.emplace("buffer/" + signature.buffers[i].name, program.buffers()[i]);
    }
  }
  return tensors;
}

std::map<ValueId, Values> held_weights(const DeviceSet& devices) {
  std::map<ValueId, Values> held;
  for (const auto& device : devices.all()) {
    for (const auto& program : device->programs) {
      if (!program) continue;
      const Signature& signature = program->signature();
      for (size_t i = 0; i < signature.parameters.size(); ++i)
        held[signature.parameters[i].value].push_back(program->parameters()[i]);
      for (size_t i = 0; i < signature.buffers.size(); ++i)
        held[signature.buffers[i].value].push_back(program->buffers()[i]);
    }
  }
  return held;
}

}  // namespace rannc::runtime
