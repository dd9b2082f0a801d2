/// Simulation of live bytes along a row.
#include "ir/schedule/schedule_memory.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ir/schedule/send_completion.h"

namespace rannc::ir {
namespace {

class Follower {
 public:
  Follower(const Dependencies& dependencies, const Schedule& schedule, DeviceId device)
      : dependencies_(dependencies),
        shape_(dependencies.shape()),
        device_(device),
        lowered_(schedule.lowered),
        stages_(dependencies.stages_on(device)),
        held_(stages_.size() * shape_.micro_batch_count(), 0),
        summed_(stages_.size(), 0),
        sums_(stages_.size(), 0),
        recomputed_(held_.size(), false) {
    const std::vector<Action>& row = schedule.rows[device.index()];
    if (lowered_ && shape_.training) completion_.emplace(dependencies, schedule, device);
    for (StageId stage : stages_) live_ += shape_.stages[stage.index()].fixed_bytes;
    if (shape_.training && std::any_of(stages_.begin(), stages_.end(), [&](StageId s) { return stage(s).recompute; })) {
      for (const Action& action : row) {
        if (has_pass(action.kind, Pass::kRebuild) && cell(action) < held_.size()) recomputed_[cell(action)] = true;
      }
    }
  }

  int64_t live() const { return live_; }

  /// Runs `action` at position `at` of the row and returns the bytes alive during it. `live()` then returns those after
  /// it.
  int64_t run(const Action& action, size_t at) {
    if (completion_) release_sent(completion_->before(at));
    return run(action);
  }

 private:
  int64_t run(const Action& action) {
    if (is_message(action.kind)) return transfer(action);
    if (is_of_group(action.kind)) return live_ + sum_bytes(shape_.shared[action.route]);
    const size_t at = cell(action);
    if (is_update(action.kind) && at < held_.size()) {
      live_ -= std::exchange(sums_[slot(at)], 0);
      return live_ + stage(action.stage).step_bytes;
    }
    if (!is_compute(action.kind) || at >= held_.size()) return live_;
    const StageShape& shape = stage(action.stage);
    const int64_t samples = own_samples(action), before = live_;
    const int64_t made = allocate(action, shape, samples, at) + shape.temporary_bytes * samples;
    release(action, at);
    const std::optional<int64_t> peak = this->peak(action, shape, at, samples);
    const int64_t most = std::max(peak ? before + *peak : made, live_);
    if (adds_weight_gradient(action.kind)) end_weight(slot(at), shape);
    return most;
  }

  void end_weight(size_t slot, const StageShape& shape) {
    if (++summed_[slot] == shape_.micro_batch_count()) live_ += sums_[slot] = shape.sum_bytes;
  }

  /// Peak bytes of the sum of a shared parameter's gradients beside these: the device's stages are added first, whose
  /// gradients become one term, then the devices.
  int64_t sum_bytes(const SharedShape& shared) const {
    std::set<DeviceId> members;
    int64_t here = 0;
    for (const StageId id : shared.stages) {
      members.insert(stage(id).devices.begin(), stage(id).devices.end());
      here += std::find(stages_.begin(), stages_.end(), id) != stages_.end() ? 1 : 0;
    }
    const auto count = static_cast<int64_t>(members.size());
    const int64_t added = here > 1 ? shared.bytes : 0;
    const int64_t summed = count > 1 ? gradient_sum_bytes(shared.bytes, count) - (here - 1) * shared.bytes : 0;
    return std::max(added, summed);
  }

  const StageShape& stage(StageId id) const { return shape_.stages[id.index()]; }

  /// Index into `held_`; too large for a stage of another device.
  size_t cell(const Action& action) const {
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (stages_[i] == action.stage) return i * shape_.micro_batch_count() + action.micro_batch;
    }
    return held_.size();
  }

  int64_t own_samples(const Action& action) const {
    const auto replica = static_cast<size_t>(dependencies_.replica(action.stage, device_));
    return replica_samples(shape_.micro_batches[action.micro_batch], replica, stage(action.stage).devices.size())
        .size();
  }

  /// Whether the value that an F sends is among those that it keeps.
  bool result_is_kept(const RouteShape& route, size_t at) const {
    return shape_.training && (recomputed_[at] ? route.kept : route.saved);
  }

  /// Whether the producer is a stage of this device and keeps the value.
  bool producer_keeps(const RouteShape& route, uint32_t micro_batch) const {
    const size_t at = cell({.kind = ActionKind::kForward, .stage = route.producer, .micro_batch = micro_batch});
    return at < held_.size() && result_is_kept(route, at);
  }

  /// Bytes of inputs that an F keeps and that their producer on this device keeps as well; 0 for other kinds.
  int64_t kept_twice(const Action& action, size_t at) const {
    if (!lowered_ || !is_forward(action.kind)) return 0;
    int64_t bytes = 0;
    for (const uint32_t route : dependencies_.routes_into(action.stage)) {
      const RouteShape& r = shape_.routes[route];
      if (!(recomputed_[at] ? r.consumer_keeps : r.consumer_saves) || !producer_keeps(r, action.micro_batch)) continue;
      dependencies_.each_incoming(route, action.micro_batch, device_, [&](const Message& m) {
        if (m.peer == device_) bytes += m.samples.size() * r.bytes_per_sample;
      });
    }
    return bytes;
  }

  /// What an action needs. An F that an R repeats keeps less, and one of inference nothing.
  const ComputeMemory& memory(const Action& action, size_t at) const {
    static constexpr ComputeMemory kInference{.peak = ProgramKind::kEvaluate};
    if (!is_forward(action.kind)) return traits(action.kind).memory;
    if (!shape_.training) return kInference;
    return recomputed_[at] ? kRepeatedForward : traits(action.kind).memory;
  }

  static int64_t bytes(const StageShape& shape, ComputeMemory::Bytes member) {
    return member == nullptr ? 0 : shape.*member;
  }

  size_t slot(size_t at) const { return at / shape_.micro_batch_count(); }

  /// What the action needs above the memory in use before it, if that is known. Without samples it needs nothing, but
  /// the first and the last of a step still make sums.
  std::optional<int64_t> peak(const Action& action, const StageShape& shape, size_t at, int64_t samples) const {
    const ComputeMemory& own = memory(action, at);
    if (adds_weight_gradient(action.kind)) {
      const uint32_t before = summed_[slot(at)];
      const SizedBytes &first = shape.peaks.first[own.peak], &end = shape.peaks.last[own.peak];
      if (before == 0 && !first.empty()) return bytes_at(first, samples);
      const bool last = before > 0 && before + 1 == shape_.micro_batch_count();
      if (last && !end.empty()) return bytes_at(end, samples);
    }
    const SizedBytes& usual = own.of(shape.peaks.usual);
    if (usual.empty()) return std::nullopt;
    return samples == 0 ? 0 : bytes_at(usual, samples);
  }

  void keep(size_t at, int64_t bytes) {
    held_[at] += bytes;
    live_ += bytes;
  }

  int64_t allocate(const Action& action, const StageShape& shape, int64_t samples, size_t at) {
    const int64_t received = live_;
    const ComputeMemory& own = memory(action, at);
    keep(at, samples * (bytes(shape, own.keeps) - bytes(shape, own.kept_before)) - kept_twice(action, at));
    live_ += messages(action, Side::kOutgoing);
    return std::max(live_, received);
  }

  void release(const Action& action, size_t at) {
    live_ -= messages(action, Side::kIncoming);
    if (!adds_weight_gradient(action.kind)) return;
    live_ -= held_[at];
    held_[at] = 0;
    if (summed_[slot(at)] == 0) live_ += stage(action.stage).gradient_bytes;
  }

  enum class Side { kIncoming, kOutgoing };

  /// Bytes of messages that this computation receives or sends. Between stages of this device, a message is a value
  /// that waits for its consumer, unless its producer keeps it.
  int64_t messages(const Action& action, Side side) const {
    if (!lowered_) return 0;
    int64_t bytes = 0;
    const bool forward = is_forward(action.kind);
    if (!forward && !computes_input_gradient(action.kind)) return 0;
    const bool from_producers = forward == (side == Side::kIncoming);
    for (uint32_t route :
         from_producers ? dependencies_.routes_into(action.stage) : dependencies_.routes_from(action.stage)) {
      const RouteShape& r = shape_.routes[route];
      if (!forward && !r.gradient) continue;
      if (forward && !from_producers && result_is_kept(r, cell(action))) continue;
      const bool kept_here = forward && from_producers && producer_keeps(r, action.micro_batch);
      const auto add = [&](const Message& m) {
        if (m.peer != device_ || !kept_here) bytes += m.samples.size() * r.bytes_per_sample;
      };
      if (from_producers) {
        dependencies_.each_incoming(route, action.micro_batch, device_, add);
      } else {
        dependencies_.each_outgoing(route, action.micro_batch, device_, add);
      }
    }
    return bytes;
  }

  int64_t transfer(const Action& action) {
    const RouteShape& route = shape_.routes[action.route];
    if (action.kind == ActionKind::kSendActivation) {
      Action made = action;
      made.stage = route.producer;
      if (const size_t at = cell(made); at < held_.size() && result_is_kept(route, at)) {
        return send(action.peer, 0);
      }
    }
    int64_t bytes = 0;
    dependencies_.each_message(device_, action,
                               [&](const Message& m) { bytes += m.samples.size() * route.bytes_per_sample; });
    if (is_receive(action.kind)) return live_ += bytes;
    return send(action.peer, bytes);
  }

  /// A training step holds a sent message until send completion. An inference step does not wait.
  int64_t send(DeviceId peer, int64_t bytes) {
    const int64_t during = live_;
    if (completion_) {
      sent_[peer].push_back(bytes);
    } else {
      live_ -= bytes;
    }
    return during;
  }

  void release_sent(std::span<const SendCompletion::Wait> waits) {
    for (const SendCompletion::Wait& wait : waits) {
      for (std::deque<int64_t>& sent = sent_[wait.peer]; sent.size() > wait.left; sent.pop_front())
        live_ -= sent.front();
    }
  }

  const Dependencies& dependencies_;
  const PipelineShape& shape_;
  const DeviceId device_;
  const bool lowered_;
  const std::span<const StageId> stages_;
  std::vector<int64_t> held_;     ///< by stage of the device and micro-batch
  std::vector<uint32_t> summed_;  ///< by stage of the device: micro-batches whose gradients of parameters are there
  std::vector<int64_t> sums_;     ///< by stage of the device: bytes of the sums that its update awaits
  std::vector<bool> recomputed_;
  std::optional<SendCompletion> completion_;
  std::map<DeviceId, std::deque<int64_t>> sent_;  ///< bytes of each message that may not have left, oldest first
  int64_t live_ = 0;
};

}  // namespace

RowMemory row_memory(const Dependencies& dependencies, const Schedule& schedule, DeviceId device) {
  const std::vector<Action>& row = schedule.rows[device.index()];
  Follower follower(dependencies, schedule, device);
  RowMemory memory;
  memory.peak = follower.live();
  memory.during.reserve(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    memory.during.push_back(follower.run(row[i], i));
    if (memory.during[i] <= memory.peak) continue;
    memory.peak = memory.during[i];
    memory.peak_at = i;
  }
  return memory;
}

int64_t row_peak(const Dependencies& dependencies, const Schedule& schedule, DeviceId device) {
  const std::vector<Action>& row = schedule.rows[device.index()];
  Follower follower(dependencies, schedule, device);
  int64_t peak = follower.live();
  for (size_t i = 0; i < row.size(); ++i) peak = std::max(peak, follower.run(row[i], i));
  return peak;
}

}  // namespace rannc::ir
