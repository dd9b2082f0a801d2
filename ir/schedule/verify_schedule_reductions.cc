/// Checks that every gradient is reduced and applied once, when it is complete (S9, S10, S12, S13).
#include <map>

#include "ir/schedule/internal/schedule_rules.h"

namespace rannc::ir {
namespace {

class ReductionRules : ScheduleRules {
 public:
  explicit ReductionRules(ScheduleFacts& facts) : ScheduleRules(facts) {}

  // S9
  void check_reductions() {
    each_replica([&](StageId stage, DeviceId device) {
      for (const ActionKind kind : {ActionKind::kAllReduce, ActionKind::kReduceScatter}) {
        const StageShape& shape = shape_.stages[stage.index()];
        const bool expected = shape_.training && shape.devices.size() > 1 && kind == reduction_kind(shape);
        const Action reduce = stage_action(kind, stage);
        if (!check_count("S9", device, reduce, expected) || !expected) continue;
        if (index_.first(device, reduce) > last_weight(device, stage)) continue;
        report("S9",
               fmt::format("{}: {} before the stage's last weight gradient", at(device, index_.first(device, reduce)),
                           to_string(reduce)),
               {{{}, "which is at " + at(device, last_weight(device, stage))}});
      }
    });
    check_collective_order();
  }

  // S12
  void check_shared() {
    for (uint32_t g = 0; g < shape_.shared.size(); ++g) {
      for (DeviceId device : facts_.members[shape_.stages.size() + g]) check_shared(g, device);
    }
  }

  // S10
  void check_steps() {
    if (schedule_.changes_numbers) {
      report("S10", fmt::format("schedule {} changes weights between micro-batches; it is for comparison only",
                                schedule_.name));
    }
    each_replica([&](StageId stage, DeviceId device) {
      for (const ActionKind kind : {ActionKind::kStep, ActionKind::kUpdateShare}) {
        const bool expected = shape_.training && kind == update_kind(shape_.stages[stage.index()]);
        const Action step = stage_action(kind, stage);
        if (check_count("S10", device, step, expected) && expected) check_after_needed("S10", device, step);
      }
    });
  }

  // S13
  void check_gathers() {
    each_replica([&](StageId stage, DeviceId device) {
      const bool expected = shape_.training && shape_.stages[stage.index()].sharded;
      const Action gather = stage_action(ActionKind::kAllGather, stage);
      if (check_count("S13", device, gather, expected) && expected) check_after_needed("S13", device, gather);
    });
  }

 private:
  bool check_count(const char* rule, DeviceId device, const Action& action, size_t expected) {
    const size_t found = index_.count(device, action);
    if (found == expected) return true;
    report(rule, fmt::format("device {}: {} appears {} times; expected {}", device.index(), to_string(action), found,
                             expected));
    return false;
  }

  /// Checks that the action comes after all that it needs of its row.
  void check_after_needed(const char* rule, DeviceId device, const Action& action) {
    const uint32_t place = index_.first(device, action);
    dependencies_.each(device, action, [&](const DeviceAction& needed) {
      const uint32_t there = met(needed);
      if (there == kAbsent || there < place) return;
      report(rule, fmt::format("{}: {} before {}", at(device, place), to_string(action), to_string(needed.action)),
             {{{}, "which is at " + at(device, there)}});
    });
  }

  void check_collective_order() {
    std::map<std::vector<DeviceId>, size_t> groups;  // members -> number
    std::vector<size_t> group_of;                    // by collective
    for (std::vector<DeviceId> members : facts_.members) {
      std::sort(members.begin(), members.end());
      group_of.push_back(groups.try_emplace(std::move(members), groups.size()).first->second);
    }
    std::vector<std::map<uint32_t, std::vector<size_t>>> orders(groups.size());  // group -> device -> collectives
    each_action([&](DeviceId device, uint32_t, const Action& action) {
      if (!is_collective(action.kind)) return;
      const size_t collective = facts_.collective(action);
      orders[group_of[collective]][device.index()].push_back(collective);
    });
    for (const auto& [members, group] : groups) {
      const auto& by_device = orders[group];
      if (by_device.empty()) continue;
      const auto& [first_device, first] = *by_device.begin();
      for (const auto& [device, order] : by_device) {
        if (order == first || order.size() != first.size()) continue;  // unequal counts are reported by their rules
        report("S9", fmt::format("devices {} and {} join the collectives of their group in different order",
                                 first_device, device));
      }
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
};

}  // namespace

void check_reductions(ScheduleFacts& facts) {
  ReductionRules rules(facts);
  rules.check_reductions();
  rules.check_shared();
  rules.check_steps();
  rules.check_gathers();
}

}  // namespace rannc::ir
