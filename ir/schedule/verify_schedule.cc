/// Checks the rules of schedules.
///
///   S1  each (stage, micro-batch) has exactly one F on each replica and, in training, one B, or one I and one W
///   S2  on a row F precedes B or I, and I precedes W; R occurs at most once, between F and B or I, and only if the
///       plan recomputes
///   S3  a stage runs on its planned devices only; its replicas have the same computations in the same order
///   S4  every send has exactly one receive with the same route and micro-batch on the named peer, and vice versa;
///       both carry samples that the two replicas share
///   S5  per ordered pair of devices, sends and receives appear in the same order
///   S6  rows, messages, collectives and computations shared by replicas never deadlock if sends, receives and
///       collectives all block; any looser transport is then safe too
///   S7  every value that an action reads was produced or received before, on the same row
///   S8  a backward pass comes after the gradients of all readers of its stage's outputs
///   S9  one all-reduce per bucket of a replicated stage, or one reduce-scatter if it is sharded, after the stage's
///   last
///       B or W; collectives of the same members have the same order on every member
///   S10 one optimizer step per stage and device, of a share if the stage is sharded, after its weight gradients and
///       reductions; weights never change between the micro-batches of a step
///   S11 live bytes never exceed the device's memory
///   S12 the gradient of a shared parameter is reduced once on each device that holds it, after the last weight
///       gradient of all its stages there
///   S13 a sharded stage has one all-gather per device, after the update of its share; no other stage has one
#include "ir/schedule/verify_schedule.h"

#include <array>

#include "ir/schedule/internal/schedule_rules.h"
#include "ir/schedule/schedule_memory.h"

namespace rannc::ir {
namespace {

/// Rules that concern one row, or the rows of replicas.
class RowRules : ScheduleRules {
 public:
  explicit RowRules(ScheduleFacts& facts) : ScheduleRules(facts) {}

  // S3 (first half): an action refers to existing parts of the plan on its device.
  void check_places() {
    if (schedule_.rows.size() != shape_.devices) {
      report("S3", fmt::format("{} rows for {} devices", schedule_.rows.size(), shape_.devices));
      return;
    }
    each_action([&](DeviceId device, uint32_t i, const Action& action) {
      if (!names_something(device, action)) {
        report("S3", fmt::format("{}: {} does not refer to the plan", at(device, i), to_string(action)));
      } else if (dependencies_.replica(action.stage, device) < 0) {
        report("S3", fmt::format("{}: {}, but stage {} is not planned there", at(device, i), to_string(action),
                                 action.stage.index()));
      }
    });
  }

  // S1
  void check_counts() {
    each_replica([&](StageId stage, DeviceId device) {
      for (uint32_t mb = 0; mb < shape_.micro_batch_count(); ++mb) check_count(stage, device, mb);
    });
  }

  // S2
  void check_order() {
    each_replica([&](StageId stage, DeviceId device) {
      for (uint32_t mb = 0; mb < shape_.micro_batch_count(); ++mb) check_order(stage, device, mb);
    });
  }

  // S3 (second half)
  void check_replicas() {
    for (uint32_t s = 0; s < shape_.stages.size(); ++s) {
      const auto& devices = shape_.stages[s].devices;
      for (size_t r = 1; r < devices.size(); ++r) compare_replicas(StageId(s), devices[0], devices[r]);
    }
  }

  // S7, S8
  void check_inputs() {
    each_action([&](DeviceId device, uint32_t i, const Action& action) {
      if (is_receive(action.kind) || is_collective(action.kind) || is_update(action.kind)) return;
      const bool backward = computes_input_gradient(action.kind);
      dependencies_.each(device, action, [&](const DeviceAction& needed) {
        const uint32_t there = met(needed);
        if (there < i) return;
        const char* rule = backward && !is_forward(needed.action.kind) ? "S8" : "S7";
        report(rule, fmt::format("{}: {} needs {}", at(device, i), to_string(action), to_string(needed.action)),
               {{{}, there == kAbsent ? "which is not on the row" : "which comes later, at " + at(device, there)}});
      });
    });
  }

  // S11
  void check_memory() {
    for (uint32_t d = 0; d < shape_.memory_bytes.size(); ++d) {
      if (shape_.memory_bytes[d] == 0) continue;
      const RowMemory memory = row_memory(dependencies_, schedule_, DeviceId(d));
      if (memory.peak <= shape_.memory_bytes[d]) continue;
      const auto& row = schedule_.rows[d];
      report("S11", fmt::format("device {} has {} bytes but needs {}{}", d, shape_.memory_bytes[d], memory.peak,
                                row.empty() ? ""
                                            : fmt::format(", {} of them during action {}, {}", memory.peak,
                                                          memory.peak_at, to_string(row[memory.peak_at]))));
    }
  }

 private:
  void check_count(StageId stage, DeviceId device, uint32_t mb) {
    std::array<size_t, kPasses> times{};
    for (const ActionTraits& row : kActionTraits) {
      for (const Pass pass : row.passes) times[static_cast<size_t>(pass)] += count(device, row.kind, stage, mb);
    }
    const size_t backward = shape_.training, rebuilds = times[static_cast<size_t>(Pass::kRebuild)];
    if (times == std::array<size_t, kPasses>{1, rebuilds, backward, backward}) return;
    std::string found;
    for (const ActionTraits& row : kActionTraits) {
      if (!is_compute(row.kind) || has_pass(row.kind, Pass::kRebuild)) continue;
      found += fmt::format("{}{} {}", found.empty() ? "" : ", ", count(device, row.kind, stage, mb), row.letters);
    }
    report("S1",
           fmt::format("stage {}, micro-batch {} on device {}: {}; expected one F{}", stage.index(), mb, device.index(),
                       found, shape_.training ? " and either one B or one I and one W" : " alone"));
  }

  /// Whether the action's fields are consistent with the plan and unused fields are empty.
  bool names_something(DeviceId device, const Action& action) const {
    if (!action.stage.valid() || action.stage.index() >= shape_.stages.size()) return false;
    if (has_micro_batch(action.kind) && action.micro_batch >= shape_.micro_batch_count()) return false;
    switch (traits(action.kind).scope) {
      case ActionScope::kMicroBatch:
        return action == compute_action(action.kind, action.stage, action.micro_batch);
      case ActionScope::kStage:
        return action.micro_batch < action_count(shape_.stages[action.stage.index()], action.kind) &&
               action == stage_action(action.kind, action.stage, action.micro_batch);
      case ActionScope::kGroup:
        return action.route < shape_.shared.size() && action == reduce_shared_action(shape_, action.route, device);
      case ActionScope::kActivation:
      case ActionScope::kGradient:
        break;
    }
    return action.route < shape_.routes.size() && action.peer.valid() && action.peer.index() < shape_.devices &&
           action == transfer_action(shape_, action.kind, action.route, action.micro_batch, action.peer);
  }

  void check_order(StageId stage, DeviceId device, uint32_t mb) {
    const uint32_t forward = place(device, ActionKind::kForward, stage, mb);
    const uint32_t gradient = pass_place(device, Pass::kInputGradient, stage, mb);
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
};

}  // namespace

std::vector<Diagnostic> verify_schedule(const PipelineShape& shape, const Schedule& schedule, size_t limit) {
  return verify_schedule(shape, schedule, std::vector<bool>(shape.stages.size()), limit);
}

std::vector<Diagnostic> verify_schedule(const PipelineShape& shape, const Schedule& schedule,
                                        const std::vector<bool>& joint, size_t limit) {
  ScheduleFacts facts(shape, schedule, std::max<size_t>(limit, 1));
  RowRules rows(facts);
  rows.check_places();
  if (!facts.found.empty()) return std::move(facts.found);  // the other rules index by stage and route
  rows.check_counts();
  rows.check_order();
  rows.check_replicas();
  check_messages(facts);
  rows.check_inputs();
  check_reductions(facts);
  rows.check_memory();
  if (facts.found.empty()) check_progress(facts, joint);
  return std::move(facts.found);
}

Result<void> check_schedule(const PipelineShape& shape, const Schedule& schedule) {
  auto found = verify_schedule(shape, schedule, 1);
  if (found.empty()) return {};
  return std::move(found.front());
}

}  // namespace rannc::ir
