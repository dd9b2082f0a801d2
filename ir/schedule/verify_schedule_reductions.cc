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
    each_required("S9", is_reduction, [&](DeviceId device, const Action& reduce) {
      const uint32_t place = index_.first(device, reduce), last = last_weight(device, reduce.stage);
      if (place > last) return;
      report("S9", fmt::format("{}: {} before the stage's last weight gradient", at(device, place), to_string(reduce)),
             {{{}, "which is at " + at(device, last)}});
    });
    check_collective_order();
  }

  // S12
  void check_shared() {
    for (uint32_t g = 0; g < shape_.shared.size(); ++g) {
      for (DeviceId device : facts_.members[facts_.group(g)]) check_shared(g, device);
    }
  }

  // S10
  void check_steps() {
    if (schedule_.changes_numbers) {
      report("S10", fmt::format("schedule {} changes weights between micro-batches; it is for comparison only",
                                schedule_.name));
    }
    each_required("S10", is_update, [&](DeviceId d, const Action& step) { check_after_needed("S10", d, step); });
  }

  // S13
  void check_gathers() {
    each_required("S13", is_gather, [&](DeviceId d, const Action& gather) { check_after_needed("S13", d, gather); });
  }

 private:
  /// Checks that each replica has the actions of its stage that it must have, and no others that `concerns` accepts.
  /// Calls `visit(device, action)` for those that it must have.
  template <class Visit>
  void each_required(const char* rule, bool (*concerns)(ActionKind), Visit&& visit) {
    each_replica([&](StageId stage, DeviceId device) {
      for (const ActionTraits& row : kActionTraits) {
        if (!is_of_stage(row.kind) || !concerns(row.kind)) continue;
        const bool expected = shape_.training && has_action(shape_.stages[stage.index()], row.kind);
        for (uint32_t i = 0; i < action_count(shape_.stages[stage.index()], row.kind); ++i) {
          const Action action = stage_action(row.kind, stage, i);
          if (check_count(rule, device, action, expected) && expected) visit(device, action);
        }
      }
    });
  }

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
