/// Look-up tables and reporting for the rules of schedules.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/schedule/dependencies.h"
#include "ir/schedule/internal/schedule_index.h"

namespace rannc::ir {

/// Built once per verification. Keeps references to shape and schedule.
struct ScheduleFacts {
  ScheduleFacts(const PipelineShape& the_shape, const Schedule& the_schedule, size_t the_limit)
      : shape(the_shape), schedule(the_schedule), limit(the_limit), dependencies(the_shape), index(the_schedule) {
    for (const StageShape& stage : shape.stages) {
      sums_from.push_back(members.size());
      members.insert(members.end(), stage.sums, stage.devices);
    }
    groups_from = members.size();
    for (uint32_t g = 0; g < shape.shared.size(); ++g) {
      Action any = stage_action(ActionKind::kReduceShared, {});
      any.route = g;
      members.push_back(dependencies.members(any));
    }
    for (const StageShape& stage : shape.stages) members.push_back(stage.devices);
  }

  /// Dense number of the collective that an action is part of: AR and SC by stage and bucket, then RS by group, then AG
  /// by stage. Equal on all members. A computation that all replicas of a stage execute together has the number of its
  /// first AR.
  size_t collective(const Action& action) const {
    if (is_of_group(action.kind)) return group(action.route);
    if (is_gather(action.kind)) return group(shape.shared.size()) + action.stage.index();
    return sums_from[action.stage.index()] + (is_reduction(action.kind) ? action.micro_batch : 0);
  }
  /// That of the RS of a group.
  size_t group(size_t number) const { return groups_from + number; }

  const PipelineShape& shape;
  const Schedule& schedule;
  const size_t limit;  ///< maximum number of violations to report
  const Dependencies dependencies;
  const ScheduleIndex index;
  std::vector<size_t> sums_from;  ///< by stage: number of its first AR or SC
  size_t groups_from = 0;
  std::vector<std::vector<DeviceId>> members;  ///< by collective
  std::vector<Diagnostic> found;
};

/// Checks that sends and receives pair up (S4) and keep their order (S5). Every action must refer to parts of the plan.
void check_messages(ScheduleFacts& facts);
/// Checks that rows run to their end if everything blocks (S6). Computations of the stages in `joint` block until all
/// replicas arrive. S3, S4, S9 and S12 must hold.
void check_progress(ScheduleFacts& facts, const std::vector<bool>& joint);
/// Checks that gradients are reduced (S9, S12) and applied (S10) once, when they are complete, and that the shares of
/// updated parameters are gathered (S13).
void check_reductions(ScheduleFacts& facts);

/// Base class of rule checkers.
class ScheduleRules {
 protected:
  explicit ScheduleRules(ScheduleFacts& facts)
      : facts_(facts),
        shape_(facts.shape),
        schedule_(facts.schedule),
        dependencies_(facts.dependencies),
        index_(facts.index) {}

  static constexpr uint32_t kAbsent = ScheduleIndex::kAbsent;

  void report(const char* rule, std::string message, std::vector<Note> notes = {}) {
    if (facts_.found.size() >= facts_.limit) return;
    facts_.found.push_back(error({}, std::move(message), rule));
    facts_.found.back().notes = std::move(notes);
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
  /// Position of the first computation with the pass.
  uint32_t pass_place(DeviceId device, Pass pass, StageId stage, uint32_t mb) const {
    uint32_t first = kAbsent;
    for (const ActionTraits& row : kActionTraits) {
      if (row.passes.contains(pass)) first = std::min(first, place(device, row.kind, stage, mb));
    }
    return first;
  }
  uint32_t last_weight(DeviceId device, StageId stage) const {
    uint32_t last = 0;
    for (uint32_t mb = 0; mb < shape_.micro_batch_count(); ++mb) {
      const uint32_t here = pass_place(device, Pass::kWeightGradient, stage, mb);
      if (here != kAbsent) last = std::max(last, here);
    }
    return last;
  }

  /// First position on the device that satisfies a dependency. A B satisfies dependencies on an I or a W.
  uint32_t met(const DeviceAction& needed) const {
    const Action& a = needed.action;
    if (!is_compute(a.kind)) return index_.first(needed.device, a);
    return pass_place(needed.device, first_pass(a.kind), a.stage, a.micro_batch);
  }

  ScheduleFacts& facts_;
  const PipelineShape& shape_;
  const Schedule& schedule_;
  const Dependencies& dependencies_;
  const ScheduleIndex& index_;
};

}  // namespace rannc::ir
