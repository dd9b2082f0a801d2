/// Checks the rules of schedules.
///
///   S1  each (stage, micro-batch) has exactly one F on each replica, and either one B or one I and one W; F alone when
///       not training
///   S2  on a row F precedes B or I, I precedes W; R, if any, lies between F and B or I, once, and only where the plan
///       recomputes
///   S3  a stage lives on its planned devices only; all replicas of a stage have the same computations in the same
///   order S4  every send has exactly one receive with the same route and micro-batch on the named peer, and vice
///   versa; both
///       carry samples that the two replicas share
///   S5  per ordered pair of devices, sends and receives appear in the same order
///   S6  rows, messages and collectives never wait for each other in a circle, where sends, receives and collectives
///   all
///       block; then any looser transport is safe too
///   S7  every value read by an action was produced or received before, on the same row
///   S8  a backward pass comes after the gradients of all readers of its stage's outputs
///   S9  one all-reduce per replicated stage, after the stage's last B or W; collectives of the same members in the
///   same
///       order on every member
///   S10 one optimizer step per stage and device, after its weight gradients and reductions; weights never change
///       between the micro-batches of a step
///   S11 live bytes never exceed the device's memory
///   S12 the gradient of a shared parameter is reduced once on each device that holds it, after the last weight
///   gradient
///       of all its stages there
#include "ir/verify_schedule.h"

#include <fmt/format.h>

#include <map>

#include "ir/dependencies.h"
#include "ir/internal/schedule_index.h"
#include "ir/schedule_memory.h"

namespace rannc::ir {
namespace {

constexpr uint32_t kAbsent = ScheduleIndex::kAbsent;

class Verifier {
 public:
  Verifier(const PipelineShape& shape, const Schedule& schedule, size_t limit)
      : shape_(shape), schedule_(schedule), limit_(limit), dependencies_(shape), index_(schedule) {}

  std::vector<Diagnostic> run() {
    check_places();
    if (!found_.empty()) return std::move(found_);  // the other rules index by stage and route
    check_counts();
    check_order();
    check_replicas();
    check_pairs();
    check_channels();
    check_inputs();
    check_all_reduces();
    check_shared();
    check_steps();
    check_memory();
    if (found_.empty()) check_progress();
    return std::move(found_);
  }

 private:
  void report(const char* rule, std::string message, std::vector<Note> notes = {}) {
    if (found_.size() >= limit_) return;
    found_.push_back(error({}, std::move(message), rule));
    found_.back().notes = std::move(notes);
  }

  static std::string at(DeviceId device, uint32_t position) {
    return fmt::format("device {}, action {}", device.index(), position);
  }

  template <class Visit>
  void each_action(Visit&& visit) const {
    for (uint32_t d = 0; d < schedule_.rows.size(); ++d) {
      for (uint32_t i = 0; i < schedule_.rows[d].size(); ++i) visit(DeviceId(d), i, schedule_.rows[d][i]);
    }
  }

  /// Calls `visit(stage, device)` for every replica of every stage.
  template <class Visit>
  void each_replica(Visit&& visit) const {
    for (uint32_t s = 0; s < shape_.stages.size(); ++s) {
      for (DeviceId device : shape_.stages[s].devices) visit(StageId(s), device);
    }
  }

  size_t count(DeviceId device, ActionKind kind, StageId stage, uint32_t mb) const {
    return index_.count(device, compute_action(kind, stage, mb));
  }
  uint32_t place(DeviceId device, ActionKind kind, StageId stage, uint32_t mb) const {
    return index_.first(device, compute_action(kind, stage, mb));
  }
  /// Where the input gradient is made: by a B or an I.
  uint32_t gradient_place(DeviceId device, StageId stage, uint32_t mb) const {
    return std::min(place(device, ActionKind::kBackward, stage, mb),
                    place(device, ActionKind::kInputGradient, stage, mb));
  }
  /// Where the weight gradient is added: by a B or a W.
  uint32_t weight_place(DeviceId device, StageId stage, uint32_t mb) const {
    return std::min(place(device, ActionKind::kBackward, stage, mb),
                    place(device, ActionKind::kWeightGradient, stage, mb));
  }
  uint32_t last_weight(DeviceId device, StageId stage) const {
    uint32_t last = 0;
    for (uint32_t mb = 0; mb < shape_.micro_batch_count(); ++mb) {
      const uint32_t here = weight_place(device, stage, mb);
      if (here != kAbsent) last = std::max(last, here);
    }
    return last;
  }

  // S3 (first half): what an action names exists, and is on its device.
  void check_places() {
    if (schedule_.rows.size() != shape_.devices) {
      report("S3", fmt::format("{} rows for {} devices", schedule_.rows.size(), shape_.devices));
      return;
    }
    each_action([&](DeviceId device, uint32_t i, const Action& action) {
      if (!names_something(device, action)) {
        report("S3", fmt::format("{}: {} names nothing of the plan", at(device, i), to_string(action)));
      } else if (dependencies_.replica(action.stage, device) < 0) {
        report("S3", fmt::format("{}: {}, but stage {} does not live there", at(device, i), to_string(action),
                                 action.stage.index()));
      }
    });
  }

  /// Whether the action's fields say one thing of the plan, and nothing beside it.
  bool names_something(DeviceId device, const Action& action) const {
    if (!action.stage.valid() || action.stage.index() >= shape_.stages.size()) return false;
    if (is_compute(action.kind)) {
      return action.micro_batch < shape_.micro_batch_count() &&
             action == compute_action(action.kind, action.stage, action.micro_batch);
    }
    if (action.kind == ActionKind::kReduceShared) {
      return action.route < shape_.shared.size() && action == reduce_shared_action(shape_, action.route, device);
    }
    if (action.kind == ActionKind::kAllReduce || action.kind == ActionKind::kStep) {
      return action == stage_action(action.kind, action.stage);
    }
    return action.route < shape_.routes.size() && action.micro_batch < shape_.micro_batch_count() &&
           action.peer.valid() && action.peer.index() < shape_.devices &&
           action == transfer_action(shape_, action.kind, action.route, action.micro_batch, action.peer);
  }

  // S1
  void check_counts() {
    each_replica([&](StageId stage, DeviceId device) {
      for (uint32_t mb = 0; mb < shape_.micro_batch_count(); ++mb) {
        const size_t f = count(device, ActionKind::kForward, stage, mb);
        const size_t b = count(device, ActionKind::kBackward, stage, mb);
        const size_t i = count(device, ActionKind::kInputGradient, stage, mb);
        const size_t w = count(device, ActionKind::kWeightGradient, stage, mb);
        const bool backward_ok =
            shape_.training ? (b == 1 && i + w == 0) || (b == 0 && i == 1 && w == 1) : b + i + w == 0;
        if (f == 1 && backward_ok) continue;
        report("S1", fmt::format("stage {}, micro-batch {} on device {}: {} F, {} B, {} I, {} W; expected one F{}",
                                 stage.index(), mb, device.index(), f, b, i, w,
                                 shape_.training ? " and either one B or one I and one W" : " alone"));
      }
    });
  }

  // S2
  void check_order() {
    each_replica([&](StageId stage, DeviceId device) {
      for (uint32_t mb = 0; mb < shape_.micro_batch_count(); ++mb) check_order(stage, device, mb);
    });
  }

  void check_order(StageId stage, DeviceId device, uint32_t mb) {
    const uint32_t forward = place(device, ActionKind::kForward, stage, mb);
    const uint32_t gradient = gradient_place(device, stage, mb);
    const uint32_t weight = place(device, ActionKind::kWeightGradient, stage, mb);
    const auto named = [&](ActionKind kind) { return to_string(compute_action(kind, stage, mb)); };
    if (forward != kAbsent && gradient != kAbsent && gradient < forward) {
      report("S2",
             fmt::format("{}: the backward pass of stage {}, micro-batch {} before {}", at(device, gradient),
                         stage.index(), mb, named(ActionKind::kForward)),
             {{{}, "the forward pass is at " + at(device, forward)}});
    }
    if (weight != kAbsent && gradient != kAbsent && weight < gradient) {
      report("S2",
             fmt::format("{}: {} before {}", at(device, weight), named(ActionKind::kWeightGradient),
                         named(ActionKind::kInputGradient)),
             {{{}, "the input gradient is at " + at(device, gradient)}});
    }
    const auto recomputes = index_.all(device, compute_action(ActionKind::kRecompute, stage, mb));
    if (recomputes.empty()) return;
    const std::string where = at(device, recomputes.back()) + ": " + named(ActionKind::kRecompute);
    if (!shape_.stages[stage.index()].recompute || !shape_.training) {
      report("S2", where + ", but the plan does not recompute the stage");
    } else if (recomputes.size() > 1) {
      report("S2", where + " repeats " + at(device, recomputes.front()));
    } else if (recomputes[0] < forward || recomputes[0] > gradient) {
      report("S2", where + " is not between the forward and the backward pass of its micro-batch");
    }
  }

  // S3 (second half)
  void check_replicas() {
    for (uint32_t s = 0; s < shape_.stages.size(); ++s) {
      const auto& devices = shape_.stages[s].devices;
      for (size_t r = 1; r < devices.size(); ++r) compare_replicas(StageId(s), devices[0], devices[r]);
    }
  }

  void compare_replicas(StageId stage, DeviceId a, DeviceId b) {
    const auto next = [&](DeviceId device, uint32_t i) {
      const auto& row = schedule_.rows[device.index()];
      while (i < row.size() && (!is_compute(row[i].kind) || row[i].stage != stage)) ++i;
      return i;
    };
    const auto &row_a = schedule_.rows[a.index()], &row_b = schedule_.rows[b.index()];
    uint32_t i = next(a, 0), j = next(b, 0);
    while (i < row_a.size() && j < row_b.size() && row_a[i] == row_b[j]) i = next(a, i + 1), j = next(b, j + 1);
    if (i == row_a.size() && j == row_b.size()) return;
    const auto shown = [&](DeviceId device, const std::vector<Action>& row, uint32_t k) {
      return k == row.size() ? fmt::format("device {} has no more of the stage", device.index())
                             : fmt::format("{}: {}", at(device, k), to_string(row[k]));
    };
    report("S3", fmt::format("replicas of stage {} differ: {}", stage.index(), shown(a, row_a, i)),
           {{{}, "against " + shown(b, row_b, j)}});
  }

  static ActionKind other_end(ActionKind kind) {
    switch (kind) {
      case ActionKind::kSendActivation:
        return ActionKind::kReceiveActivation;
      case ActionKind::kReceiveActivation:
        return ActionKind::kSendActivation;
      case ActionKind::kSendGradient:
        return ActionKind::kReceiveGradient;
      default:
        return ActionKind::kSendGradient;
    }
  }

  Action counterpart(DeviceId device, const Action& action) const {
    return transfer_action(shape_, other_end(action.kind), action.route, action.micro_batch, device);
  }

  /// Whether the two replicas of a send or receive share samples, and a gradient flows at all.
  bool carries_samples(DeviceId device, const Action& action) const {
    const bool gradient = action.kind == ActionKind::kSendGradient || action.kind == ActionKind::kReceiveGradient;
    if (action.peer == device || (gradient && (!shape_.routes[action.route].gradient || !shape_.training)))
      return false;
    bool found = false;
    const auto look = [&](const Message& m) { found |= m.peer == action.peer; };
    if (action.stage == shape_.routes[action.route].producer) {
      dependencies_.each_outgoing(action.route, action.micro_batch, device, look);
    } else {
      dependencies_.each_incoming(action.route, action.micro_batch, device, look);
    }
    return found;
  }

  // S4
  void check_pairs() {
    each_action([&](DeviceId device, uint32_t i, const Action& action) {
      if (!is_send(action.kind) && !is_receive(action.kind)) return;
      if (!carries_samples(device, action)) {
        report("S4",
               fmt::format("{}: {} carries no samples between the two devices", at(device, i), to_string(action)));
        return;
      }
      const size_t own = index_.count(device, action);
      const size_t others = index_.count(action.peer, counterpart(device, action));
      if (own == 1 && others == 1) return;
      report("S4", fmt::format("{}: {} appears {} times; expected 1", at(device, i), to_string(action), own),
             {{{},
               fmt::format("device {} has its other end, {}, {} times", action.peer.index(),
                           to_string(counterpart(device, action)), others)}});
      paired_ = false;
    });
  }

  // S5
  void check_channels() {
    if (!paired_) return;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> last_receive;  // by (sender, receiver)
    each_action([&](DeviceId device, uint32_t i, const Action& action) {
      if (!is_send(action.kind)) return;
      const uint32_t received = index_.first(action.peer, counterpart(device, action));
      auto [entry, first] = last_receive.try_emplace({device.index(), action.peer.index()}, received);
      if (!first && received < entry->second) {
        report("S5",
               fmt::format("{}: {} leaves after a message that is received later", at(device, i), to_string(action)),
               {{{},
                 fmt::format("received at {}; the earlier message at {}", at(action.peer, received),
                             at(action.peer, entry->second))}});
      }
      entry->second = std::max(entry->second, received);
    });
  }

  /// First place on the device where a dependency is met; a B meets what an I or a W would.
  uint32_t met(const DeviceAction& needed) const {
    const Action& a = needed.action;
    if (a.kind == ActionKind::kInputGradient) return gradient_place(needed.device, a.stage, a.micro_batch);
    if (a.kind == ActionKind::kWeightGradient) return weight_place(needed.device, a.stage, a.micro_batch);
    return index_.first(needed.device, a);
  }

  // S7, S8
  void check_inputs() {
    each_action([&](DeviceId device, uint32_t i, const Action& action) {
      if (is_receive(action.kind) || is_collective(action.kind) || action.kind == ActionKind::kStep) return;
      const bool backward = action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
      dependencies_.each(device, action, [&](const DeviceAction& needed) {
        const uint32_t there = met(needed);
        if (there < i) return;
        const char* rule = backward && needed.action.kind != ActionKind::kForward ? "S8" : "S7";
        report(rule, fmt::format("{}: {} needs {}", at(device, i), to_string(action), to_string(needed.action)),
               {{{}, there == kAbsent ? "which is nowhere on the row" : "which comes later, at " + at(device, there)}});
      });
    });
  }

  // S9
  void check_all_reduces() {
    each_replica([&](StageId stage, DeviceId device) {
      const Action reduce = stage_action(ActionKind::kAllReduce, stage);
      const size_t expected = shape_.training && shape_.stages[stage.index()].devices.size() > 1;
      const size_t found = index_.count(device, reduce);
      if (found != expected) {
        report("S9", fmt::format("device {}: {} appears {} times; expected {}", device.index(), to_string(reduce),
                                 found, expected));
      } else if (found == 1 && index_.first(device, reduce) < last_weight(device, stage)) {
        report("S9",
               fmt::format("{}: {} before the stage's last weight gradient", at(device, index_.first(device, reduce)),
                           to_string(reduce)),
               {{{}, "which is at " + at(device, last_weight(device, stage))}});
      }
    });
    check_collective_order();
  }

  void check_collective_order() {
    using Key = std::pair<bool, uint32_t>;                                         // shared?, stage or group
    std::map<std::vector<DeviceId>, std::map<uint32_t, std::vector<Key>>> orders;  // members -> device -> collectives
    each_action([&](DeviceId device, uint32_t, const Action& action) {
      if (!is_collective(action.kind)) return;
      const bool shared = action.kind == ActionKind::kReduceShared;
      auto members = dependencies_.members(action);
      std::sort(members.begin(), members.end());
      orders[members][device.index()].push_back({shared, shared ? uint32_t{action.route} : action.stage.index()});
    });
    for (const auto& [members, by_device] : orders) {
      const auto& [first_device, first] = *by_device.begin();
      for (const auto& [device, order] : by_device) {
        if (order == first || order.size() != first.size()) continue;  // unequal counts are reported by S9 or S12
        report("S9", fmt::format("devices {} and {} join the collectives of their group in different order",
                                 first_device, device));
      }
    }
  }

  // S12
  void check_shared() {
    for (uint32_t g = 0; g < shape_.shared.size(); ++g) {
      Action any = stage_action(ActionKind::kReduceShared, {});
      any.route = g;
      for (DeviceId device : dependencies_.members(any)) check_shared(g, device);
    }
  }

  void check_shared(uint32_t group, DeviceId device) {
    const Action action = reduce_shared_action(shape_, group, device);
    const size_t found = index_.count(device, action);
    const uint32_t first = index_.first(device, action);
    uint32_t last_gradient = 0;
    for (StageId stage : shape_.shared[group].stages) {
      if (dependencies_.replica(stage, device) >= 0)
        last_gradient = std::max(last_gradient, last_weight(device, stage));
    }
    const size_t expected = shape_.training;
    if (found != expected) {
      report("S12",
             fmt::format("device {}: RS{} appears {} times; expected {}", device.index(), group, found, expected));
    } else if (found == 1 && first < last_gradient) {
      report("S12", fmt::format("{}: RS{} before the last weight gradient of the group", at(device, first), group),
             {{{}, "which is at " + at(device, last_gradient)}});
    }
  }

  // S10
  void check_steps() {
    if (schedule_.changes_numbers) {
      report("S10", fmt::format("schedule {} changes weights between micro-batches; it is for comparison only",
                                schedule_.name));
    }
    each_replica([&](StageId stage, DeviceId device) {
      const Action step = stage_action(ActionKind::kStep, stage);
      const size_t found = index_.count(device, step), expected = shape_.training;
      if (found != expected) {
        report("S10", fmt::format("device {}: {} appears {} times; expected {}", device.index(), to_string(step), found,
                                  expected));
        return;
      }
      if (found == 0) return;
      const uint32_t place = index_.first(device, step);
      dependencies_.each(device, step, [&](const DeviceAction& needed) {
        const uint32_t there = met(needed);
        if (there == kAbsent || there < place) return;
        report("S10", fmt::format("{}: {} before {}", at(device, place), to_string(step), to_string(needed.action)),
               {{{}, "which is at " + at(device, there)}});
      });
    });
  }

  // S11
  void check_memory() {
    for (uint32_t d = 0; d < shape_.memory_bytes.size(); ++d) {
      if (shape_.memory_bytes[d] == 0) continue;
      const RowMemory memory = row_memory(dependencies_, DeviceId(d), schedule_.rows[d], true);
      if (memory.peak <= shape_.memory_bytes[d]) continue;
      const auto& row = schedule_.rows[d];
      report("S11", fmt::format("device {} has {} bytes but needs {}{}", d, shape_.memory_bytes[d], memory.peak,
                                row.empty() ? ""
                                            : fmt::format(", {} of them during action {}, {}", memory.peak,
                                                          memory.peak_at, to_string(row[memory.peak_at]))));
    }
  }

  // S6: runs the rows with everything blocking. The outcome does not depend on the order in which devices are tried,
  // since no action chooses between partners. Pairs and counts hold by now.
  void check_progress() {
    std::vector<uint32_t> next(shape_.devices, 0), worklist;
    for (uint32_t d = shape_.devices; d-- > 0;) worklist.push_back(d);
    const auto current = [&](uint32_t d) -> const Action* {
      return next[d] < schedule_.rows[d].size() ? &schedule_.rows[d][next[d]] : nullptr;
    };
    const auto join = [&](const Action& action, const std::vector<DeviceId>& members) {
      for (DeviceId member : members) {
        const Action* other = current(member.index());
        if (!other || other->kind != action.kind || other->route != action.route) return false;
        if (action.kind == ActionKind::kAllReduce && other->stage != action.stage) return false;
      }
      return true;
    };
    while (!worklist.empty()) {
      const uint32_t d = worklist.back();
      worklist.pop_back();
      while (const Action* action = current(d)) {
        if (is_send(action->kind) || is_receive(action->kind)) {
          const uint32_t peer = action->peer.index();
          const Action* other = current(peer);
          if (!other || *other != counterpart(DeviceId(d), *action)) break;
          ++next[peer];
          worklist.push_back(peer);
        } else if (is_collective(action->kind)) {
          const auto members = dependencies_.members(*action);
          if (!join(*action, members)) break;
          for (DeviceId member : members) {
            if (member.index() == d) continue;
            ++next[member.index()];
            worklist.push_back(member.index());
          }
        }
        ++next[d];
      }
    }
    report_deadlock(next);
  }

  void report_deadlock(const std::vector<uint32_t>& next) {
    std::vector<Note> notes;
    for (uint32_t d = 0; d < shape_.devices; ++d) {
      if (next[d] == schedule_.rows[d].size() || notes.size() > 8) continue;
      const Action& action = schedule_.rows[d][next[d]];
      notes.push_back({{}, fmt::format("{}: blocked in {}", at(DeviceId(d), next[d]), to_string(action))});
    }
    if (!notes.empty()) report("S6", "devices wait for each other for ever under blocking transfers", std::move(notes));
  }

  const PipelineShape& shape_;
  const Schedule& schedule_;
  const size_t limit_;
  const Dependencies dependencies_;
  const ScheduleIndex index_;
  bool paired_ = true;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> verify_schedule(const PipelineShape& shape, const Schedule& schedule, size_t limit) {
  return Verifier(shape, schedule, std::max<size_t>(limit, 1)).run();
}

Result<void> check_schedule(const PipelineShape& shape, const Schedule& schedule) {
  auto found = verify_schedule(shape, schedule, 1);
  if (found.empty()) return {};
  return std::move(found.front());
}

}  // namespace rannc::ir
