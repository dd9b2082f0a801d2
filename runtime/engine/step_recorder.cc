#include "runtime/engine/internal/step_recorder.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "runtime/internal/reason.h"

namespace rannc::runtime {

namespace {

constexpr size_t kMostRecordings = 4;  // steps with further sizes run normally

/// The same elements without a share of their memory.
at::Tensor alias_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return at::for_blob(tensor.data_ptr(), tensor.sizes())
      .strides(tensor.strides())
      .options(tensor.options())
      .target_device(tensor.device())
      .make_tensor();
}

/// Copies the rows of keys to the device, without waiting for it.
void set_keys(const at::Tensor& keys, std::span<const std::array<int64_t, 2>> rows) {
  if (rows.empty()) return;
  at::Tensor host = at::empty(keys.sizes(), at::TensorOptions().dtype(at::kLong).pinned_memory(true));
  std::copy(rows.begin(), rows.end(), reinterpret_cast<std::array<int64_t, 2>*>(host.data_ptr<int64_t>()));
  keys.copy_(host, /*non_blocking=*/true);
}

}  // namespace

void StepRecorder::begin_step(bool records) {
  if (current_ != nullptr && current_->state == Recording::State::kRecording)
    current_->state = Recording::State::kComplete;
  current_ = nullptr;
  selected_ = false;
  records_ = records && why_not_.empty();
}

StepRecorder::Recording* StepRecorder::select(const ir::Bindings& symbols) {
  if (!records_ || selected_) return current_;
  selected_ = true;
  for (const auto& recording : recordings_) {
    if (recording->symbols != symbols) continue;
    if (recording->state == Recording::State::kSeen) recording->state = Recording::State::kRecording;
    return current_ = recording.get();
  }
  if (recordings_.size() < kMostRecordings) {
    recordings_.push_back(std::make_unique<Recording>());
    recordings_.back()->symbols = symbols;
  }
  return nullptr;
}

Result<StepRecorder::Tensors> StepRecorder::run(const RecordedCall& name, const ir::Bindings& symbols,
                                                Tensors arguments, std::span<at::Tensor* const> places,
                                                std::span<const std::array<int64_t, 2>> keys, const Call& call) {
  Recording* const recording = select(symbols);
  if (recording == nullptr) return call(std::move(arguments), nullptr);
  const c10::NoGradGuard no_grad;
  if (recording->state == Recording::State::kRecording) {
    return record(*recording, name, std::move(arguments), places, keys, call);
  }
  const auto found = recording->records.find(name);
  RANNC_CHECK(found != recording->records.end()) << "every step has the calls of the one that was recorded";
  return replay(found->second, arguments, places, keys);
}

Result<StepRecorder::Tensors> StepRecorder::record(Recording& recording, const RecordedCall& name, Tensors arguments,
                                                   std::span<at::Tensor* const> places,
                                                   std::span<const std::array<int64_t, 2>> keys, const Call& call) {
  Record record;
  const auto is_fixed = [&](const at::Tensor& tensor) { return recording.fixed.contains(tensor.data_ptr()); };
  for (at::Tensor& argument : arguments) {
    const bool in_place = !argument.defined() || is_fixed(argument);
    record.addresses.push_back(argument.defined() ? argument.data_ptr() : nullptr);
    at::Tensor& buffer = record.buffers.emplace_back();
    if (in_place) continue;
    buffer = at::empty_strided(argument.sizes(), argument.strides(), argument.options()).copy_(argument);
    argument = buffer;
  }
  if (!keys.empty()) {
    const at::TensorOptions on_device = at::TensorOptions().dtype(at::kLong).device(c10::Device(device_.address()));
    record.keys = at::empty({static_cast<int64_t>(keys.size()), 2}, on_device);
    set_keys(record.keys, keys);
  }
  Tensors before, aliases;  // recorded work does not run, so it leaves the memory of its arguments as it was
  for (const at::Tensor* place : places) before.push_back(*place);
  for (const at::Tensor& argument : arguments) aliases.push_back(alias_of(argument));
  const auto at =
      std::find_if(recordings_.begin(), recordings_.end(), [&](const auto& each) { return each.get() == &recording; });
  Result<Tensors> made = Tensors();
  try {
    record.work = device_.capture([&] { made = call(std::move(arguments), &record.keys); },
                                  first_pool_ + static_cast<uint64_t>(at - recordings_.begin()));
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& failure) {
    made = error(reason_of(failure));
  }
  if (record.work == nullptr || !made.ok()) {
    for (size_t i = 0; i < places.size(); ++i) *places[i] = std::move(before[i]);
    for (size_t i = 0; i < aliases.size(); ++i) {  // results may be arguments, and outlive what owns their memory now
      if (aliases[i].defined()) aliases[i] = record.buffers[i].defined() ? record.buffers[i] : aliases[i].clone();
    }
    why_not_ = made.ok() ? "the device cannot record" : made.diagnostic().message;
    return give_up(std::move(aliases), call);
  }
  const auto keep_address = [&](const at::Tensor& tensor) {
    if (tensor.defined()) recording.fixed.insert(tensor.data_ptr());
    return alias_of(tensor);
  };
  for (const at::Tensor& result : *made) record.results.push_back(keep_address(result));
  for (size_t i = 0; i < places.size(); ++i) {
    if (!places[i]->is_same(before[i])) record.replaced.emplace_back(i, keep_address(*places[i]));
  }
  record.work->replay();
  recording.records.emplace(name, std::move(record));
  return made;
}

// Sums that were recorded lie at their addresses in this step only, so nothing of it can be replayed.
Result<StepRecorder::Tensors> StepRecorder::give_up(Tensors arguments, const Call& call) {
  Result<Tensors> made = call(std::move(arguments), nullptr);
  device_.synchronize();  // recordings and buffers are in use until then
  forget();
  return made;
}

StepRecorder::Tensors StepRecorder::replay(Record& record, const Tensors& arguments,
                                           std::span<at::Tensor* const> places,
                                           std::span<const std::array<int64_t, 2>> keys) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (record.buffers[i].defined()) {
      record.buffers[i].copy_(arguments[i], /*non_blocking=*/true);
    } else {
      const void* const address = arguments[i].defined() ? arguments[i].data_ptr() : nullptr;
      RANNC_CHECK(address == record.addresses[i]) << "argument " << i << " of a replayed call has moved";
    }
  }
  set_keys(record.keys, keys);
  record.work->replay();
  for (const auto& [place, alias] : record.replaced) *places[place] = alias;
  return record.results;
}

}  // namespace rannc::runtime
