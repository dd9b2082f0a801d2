/// Places transfers, collectives and steps around the compute actions of a schedule.
#include "ir/schedule/lower_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "ir/schedule/dependencies.h"

namespace rannc::ir {
namespace {

constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

/// An action with its time in the reference run, at which it enters rows. A compute action enters when it starts; the
/// actions that follow from it enter when it ends.
struct Event {
  uint32_t time = 0;
  uint32_t phase = 0;  ///< 0: an end; 1: AR or SC; 2: RS; 3: a start
  uint32_t device = 0;
  uint32_t index = 0;  ///< into the row; AR, SC: the stage; RS: the group
};

class Lowering {
 public:
  Lowering(const PipelineShape& shape, const Schedule& source) : shape_(shape), source_(source), dependencies_(shape) {
    for (const StageShape& stage : shape.stages) {
      slots_.push_back(slot_count_);
      slot_count_ += stage.devices.size();
    }
    forward_end_.assign(slot_count_ * shape.micro_batch_count(), kNever);
    gradient_end_ = forward_end_;
    last_weight_.assign(slot_count_, 0);
    next_.assign(shape.devices, 0);
    clock_.assign(shape.devices, 0);
  }

  Result<Schedule> run() {
    RANNC_TRY(check_stages());
    find_times();
    for (uint32_t d = 0; d < shape_.devices; ++d) {
      if (next_[d] < source_.rows[d].size()) return stuck(d);
    }
    if (shape_.training) add_collectives();
    return place();
  }

 private:
  Result<void> check_stages() const {
    if (source_.rows.size() != shape_.devices) {
      return error({}, fmt::format("{} rows for {} devices", source_.rows.size(), shape_.devices), "S3");
    }
    for (uint32_t d = 0; d < shape_.devices; ++d) {
      for (const Action& action : source_.rows[d]) {
        RANNC_CHECK(is_compute(action.kind)) << to_string(action) << " in a schedule to be lowered";
        if (dependencies_.replica(action.stage, DeviceId(d)) >= 0) continue;
        return error({}, fmt::format("{} on device {}, which does not hold the stage", to_string(action), d), "S3");
      }
    }
    return {};
  }

  size_t cell(StageId stage, DeviceId device, uint32_t micro_batch) const {
    const size_t slot = slots_[stage.index()] + static_cast<size_t>(dependencies_.replica(stage, device));
    return slot * shape_.micro_batch_count() + micro_batch;
  }

  /// Time when everything that the action needs from other stages is done; kNever: not known yet.
  uint32_t ready(DeviceId device, const Action& action) const {
    uint32_t time = 0;
    dependencies_.each_producer(device, action, [&](const Message& m, const Action& needed) {
      const auto& ends = needed.kind == ActionKind::kForward ? forward_end_ : gradient_end_;
      time = std::max(time, ends[cell(needed.stage, m.peer, needed.micro_batch)]);
    });
    return time;
  }

  /// Advances every row as far as possible until no row makes progress.
  void find_times() {
    std::vector<uint32_t> worklist(shape_.devices);
    for (uint32_t d = 0; d < shape_.devices; ++d) worklist[d] = shape_.devices - 1 - d;
    std::vector<bool> listed(shape_.devices, true);
    while (!worklist.empty()) {
      const uint32_t d = worklist.back();
      worklist.pop_back();
      listed[d] = false;
      const uint32_t first = next_[d];
      advance(d);
      for (uint32_t i = first; i < next_[d]; ++i) {
        dependencies_.each_result(DeviceId(d), source_.rows[d][i], [&](const Message& m, ActionKind) {
          if (listed[m.peer.index()]) return;
          listed[m.peer.index()] = true;
          worklist.push_back(m.peer.index());
        });
      }
    }
  }

  void advance(uint32_t d) {
    const DeviceId device(d);
    const auto& row = source_.rows[d];
    for (; next_[d] < row.size(); ++next_[d]) {
      const Action& action = row[next_[d]];
      const uint32_t inputs = ready(device, action);
      if (inputs == kNever) break;
      const uint32_t start = std::max(inputs, clock_[d]);
      const uint32_t end = start + static_cast<uint32_t>(traits(action.kind).passes.size());
      clock_[d] = end;
      events_.push_back({start, 3, d, next_[d]});
      events_.push_back({end, 0, d, next_[d]});
      if (is_forward(action.kind)) forward_end_[cell(action.stage, device, action.micro_batch)] = end;
      if (computes_input_gradient(action.kind)) {
        gradient_end_[cell(action.stage, device, action.micro_batch)] = end;
      }
      if (adds_weight_gradient(action.kind)) {
        last_weight_[slots_[action.stage.index()] + static_cast<size_t>(dependencies_.replica(action.stage, device))] =
            end;
      }
    }
  }

  Diagnostic stuck(uint32_t d) const {
    const Action& action = source_.rows[d][next_[d]];
    Diagnostic result = error({}, fmt::format("device {} waits for ever before {}", d, to_string(action)), "S6");
    dependencies_.each_producer(DeviceId(d), action, [&](const Message& m, const Action& needed) {
      const auto& ends = needed.kind == ActionKind::kForward ? forward_end_ : gradient_end_;
      if (ends[cell(needed.stage, m.peer, needed.micro_batch)] != kNever) return;
      const uint32_t p = m.peer.index();
      const bool ended = next_[p] == source_.rows[p].size();
      result.notes.push_back(
          {{},
           fmt::format("it needs {} of device {}, which {}", to_string(needed), p,
                       ended ? "has no more actions" : "waits before " + to_string(source_.rows[p][next_[p]]))});
    });
    return result;
  }

  void add_collectives() {
    for (uint32_t s = 0; s < shape_.stages.size(); ++s) {
      if (shape_.stages[s].devices.size() > 1) events_.push_back({last_weight(StageId(s)), 1, 0, s});
    }
    for (uint32_t g = 0; g < shape_.shared.size(); ++g) {
      uint32_t time = 0;
      for (StageId stage : shape_.shared[g].stages) time = std::max(time, last_weight(stage));
      events_.push_back({time, 2, 0, g});
    }
  }

  uint32_t last_weight(StageId stage) const {
    uint32_t time = 0;
    for (size_t r = 0; r < shape_.stages[stage.index()].devices.size(); ++r) {
      time = std::max(time, last_weight_[slots_[stage.index()] + r]);
    }
    return time;
  }

  Schedule place() {
    std::sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return std::tie(a.time, a.phase, a.device, a.index) < std::tie(b.time, b.phase, b.device, b.index);
    });
    result_.name = source_.name;
    result_.changes_numbers = source_.changes_numbers;
    result_.lowered = true;
    result_.rows.resize(shape_.devices);
    for (uint32_t d = 0; d < shape_.devices; ++d) result_.rows[d].reserve(source_.rows[d].size() * 3 + 4);
    for (const Event& event : events_) place(event);
    if (shape_.training) {
      for (uint32_t d = 0; d < shape_.devices; ++d) place_updates(DeviceId(d));
    }
    return std::move(result_);
  }

  /// Gathers come after all updates, by stage, so that devices with several stages join them in one order.
  void place_updates(DeviceId device) {
    std::vector<Action>& row = result_.rows[device.index()];
    for (StageId stage : dependencies_.stages_on(device)) {
      row.push_back(stage_action(*stage_kind(shape_.stages[stage.index()], ActionClass::kUpdate), stage));
    }
    for (StageId stage : dependencies_.stages_on(device)) {
      const auto gather = stage_kind(shape_.stages[stage.index()], ActionClass::kGather);
      if (gather) row.push_back(stage_action(*gather, stage));
    }
  }

  void place(const Event& event) {
    if (event.phase == 3) {
      result_.rows[event.device].push_back(source_.rows[event.device][event.index]);
    } else if (event.phase == 0) {
      place_transfers(DeviceId(event.device), source_.rows[event.device][event.index]);
    } else {
      place_reductions(event);
    }
  }

  void place_reductions(const Event& event) {
    if (event.phase == 2) {
      const Action any{ActionKind::kReduceShared, event.index, StageId(), 0, DeviceId()};
      for (DeviceId member : dependencies_.members(any))
        result_.rows[member.index()].push_back(reduce_shared_action(shape_, event.index, member));
      return;
    }
    const StageShape& stage = shape_.stages[event.index];
    const ActionKind kind = *stage_kind(stage, ActionClass::kReduce);
    for (uint32_t bucket = 0; bucket < action_count(stage, kind); ++bucket) {
      for (DeviceId member : stage.devices)
        result_.rows[member.index()].push_back(stage_action(kind, StageId(event.index), bucket));
    }
  }

  void place_transfers(DeviceId device, const Action& action) {
    dependencies_.each_result(device, action, [&](const Message& m, ActionKind send) {
      if (m.peer == device) return;
      result_.rows[device.index()].push_back(transfer_action(shape_, send, m.route, action.micro_batch, m.peer));
      result_.rows[m.peer.index()].push_back(
          transfer_action(shape_, counterpart(send), m.route, action.micro_batch, device));
    });
  }

  const PipelineShape& shape_;
  const Schedule& source_;
  const Dependencies dependencies_;
  std::vector<size_t> slots_;  ///< by stage: number of its replica 0 among all replicas
  size_t slot_count_ = 0;
  std::vector<uint32_t> forward_end_, gradient_end_;  ///< by replica and micro-batch
  std::vector<uint32_t> last_weight_;                 ///< by replica
  std::vector<uint32_t> next_, clock_;                ///< by device
  std::vector<Event> events_;
  Schedule result_;
};

}  // namespace

Schedule add_recompute(const PipelineShape& shape, Schedule schedule, RecomputedMicroBatches which) {
  const auto selects = [&](const std::vector<Action>& row, size_t backward) {
    const Action& action = row[backward];
    if (!shape.stages[action.stage.index()].recompute) return false;
    if (which == RecomputedMicroBatches::kAll) return true;
    if (which == RecomputedMicroBatches::kAllButLast) return action.micro_batch + 1 < shape.micro_batch_count();
    return backward == 0 || row[backward - 1] != compute_action(ActionKind::kForward, action.stage, action.micro_batch);
  };
  for (auto& row : schedule.rows) {
    std::set<std::pair<StageId, uint32_t>> present;
    for (const Action& action : row) {
      if (has_pass(action.kind, Pass::kRebuild)) present.emplace(action.stage, action.micro_batch);
    }
    std::vector<Action> result;
    for (size_t i = 0; i < row.size(); ++i) {
      const Action& action = row[i];
      if (computes_input_gradient(action.kind) && selects(row, i) &&
          !present.contains({action.stage, action.micro_batch})) {
        result.push_back(compute_action(ActionKind::kRecompute, action.stage, action.micro_batch));
      }
      result.push_back(action);
    }
    row = std::move(result);
  }
  return schedule;
}

Result<Schedule> lower_schedule(const PipelineShape& shape, const Schedule& schedule) {
  return Lowering(shape, schedule).run();
}

}  // namespace rannc::ir
