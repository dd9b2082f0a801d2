/// Checks that messages pair up and that rows that block on each other reach their end (S4, S5, S6).
#include <map>

#include "ir/schedule/internal/schedule_rules.h"

namespace rannc::ir {
namespace {

/// The action at the other end of a send or receive of `device`.
Action counterpart(const PipelineShape& shape, DeviceId device, const Action& action) {
  return transfer_action(shape, counterpart(action.kind), action.route, action.micro_batch, device);
}

class MessageRules : ScheduleRules {
 public:
  explicit MessageRules(ScheduleFacts& facts) : ScheduleRules(facts) {}

  // S4
  void check_pairs() {
    each_action([&](DeviceId device, uint32_t i, const Action& action) {
      if (!is_message(action.kind)) return;
      if (!carries_samples(device, action)) {
        report("S4",
               fmt::format("{}: {} carries no samples between the two devices", at(device, i), to_string(action)));
        return;
      }
      const size_t own = index_.count(device, action);
      const size_t others = index_.count(action.peer, counterpart(shape_, device, action));
      if (own == 1 && others == 1) return;
      report("S4", fmt::format("{}: {} appears {} times; expected 1", at(device, i), to_string(action), own),
             {{{},
               fmt::format("device {} has its other end, {}, {} times", action.peer.index(),
                           to_string(counterpart(shape_, device, action)), others)}});
      paired_ = false;
    });
  }

  // S5
  void check_channels() {
    if (!paired_) return;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> last_receive;  // by (sender, receiver)
    each_action([&](DeviceId device, uint32_t i, const Action& action) {
      if (!is_send(action.kind)) return;
      const uint32_t received = index_.first(action.peer, counterpart(shape_, device, action));
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

 private:
  /// Whether the two replicas of a send or receive share samples, and a gradient flows at all.
  bool carries_samples(DeviceId device, const Action& action) const {
    const bool flows = is_activation(action.kind) || (shape_.routes[action.route].gradient && shape_.training);
    if (action.peer == device || !flows) return false;
    bool found = false;
    dependencies_.each_message(device, action, [&](const Message&) { found = true; });
    return found;
  }

  bool paired_ = true;
};

/// Rule S6.
class ProgressRule : ScheduleRules {
 public:
  ProgressRule(ScheduleFacts& facts, const std::vector<bool>& joint) : ScheduleRules(facts), joint_(joint) {}

  // S6: runs the rows with all messages and collectives blocking. The outcome does not depend on the order in which
  // devices are tried, because no action chooses between partners. Pairs and counts have been checked before.
  void check_progress() {
    std::vector<uint32_t> next(shape_.devices, 0), worklist;
    for (uint32_t d = shape_.devices; d-- > 0;) worklist.push_back(d);
    const auto current = [&](uint32_t d) -> const Action* {
      return next[d] < schedule_.rows[d].size() ? &schedule_.rows[d][next[d]] : nullptr;
    };
    std::vector<size_t> arrived(facts_.members.size(), 0);  // by collective: members that wait in it
    std::vector<bool> waits(shape_.devices, false);
    while (!worklist.empty()) {
      const uint32_t d = worklist.back();
      worklist.pop_back();
      while (const Action* action = current(d)) {
        if (is_message(action->kind)) {
          const uint32_t peer = action->peer.index();
          const Action* other = current(peer);
          if (!other || *other != counterpart(shape_, DeviceId(d), *action)) break;
          ++next[peer];
          worklist.push_back(peer);
        } else if (joins(*action)) {
          const size_t collective = facts_.collective(*action);
          if (!waits[d]) ++arrived[collective];
          waits[d] = true;
          if (arrived[collective] < facts_.members[collective].size()) break;
          arrived[collective] = 0;
          for (DeviceId member : facts_.members[collective]) {
            waits[member.index()] = false;
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

 private:
  /// Whether all members of a group execute the action together. All members of a stage's group wait in the same
  /// action: replicas have the stage's computations in one order (S3) and its AR after them (S9).
  bool joins(const Action& action) const {
    return is_collective(action.kind) || (is_compute(action.kind) && joint_[action.stage.index()]);
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

  const std::vector<bool>& joint_;
};

}  // namespace

void check_messages(ScheduleFacts& facts) {
  MessageRules rules(facts);
  rules.check_pairs();
  rules.check_channels();
}

void check_progress(ScheduleFacts& facts, const std::vector<bool>& joint) {
  ProgressRule(facts, joint).check_progress();
}

}  // namespace rannc::ir
