/// What a schedule does, found by running it in every order: an oracle for the verifier's rules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "ir/schedule/schedule.h"

namespace rannc::ir::oracle {

/// One device: its memory after a prefix of its row. Shares no code with the verifier: samples are tracked one by one.
class Machine {
 public:
  Machine(const PipelineShape& shape, uint32_t device, const std::vector<std::vector<Action>>& rows)
      : shape_(shape), device_(device), rows_(rows), row_(rows[device]) {
    for (uint32_t s = 0; s < shape.stages.size(); ++s) {
      if (replica(s, device) >= 0) live_ += shape.stages[s].fixed_bytes;
    }
  }

  /// The first thing that goes wrong on this row, whatever the others do; empty: nothing.
  std::string run() {
    if (over(live_)) return "memory";
    for (at_ = 0; at_ < row_.size(); ++at_) {
      if (std::string fault = step(row_[at_]); !fault.empty()) return to_string(row_[at_]) + ": " + fault;
    }
    return leftovers();
  }

  const std::map<uint32_t, std::string>& computed() const { return computed_; }

 private:
  using Key = std::pair<uint32_t, uint32_t>;  // (stage or route, micro-batch)
  enum class State { kNone, kSaved, kRecomputed, kPending, kDone };

  int replica(uint32_t stage, uint32_t device) const {
    const auto& devices = shape_.stages[stage].devices;
    for (size_t r = 0; r < devices.size(); ++r) {
      if (devices[r].index() == device) return static_cast<int>(r);
    }
    return -1;
  }

  std::set<int64_t> samples(uint32_t stage, uint32_t device, uint32_t mb) const {
    std::set<int64_t> own;
    const int r = replica(stage, device);
    const auto n = static_cast<int64_t>(shape_.stages[stage].devices.size());
    const int64_t b = shape_.micro_batches[mb];
    for (int64_t x = 0; r >= 0 && x < b; ++x) {
      if (x >= b * r / n && x < b * (r + 1) / n) own.insert(x);
    }
    return own;
  }

  std::set<int64_t> common(uint32_t route, uint32_t mb, uint32_t producer_device, uint32_t consumer_device) const {
    std::set<int64_t> both;
    const auto theirs = samples(shape_.routes[route].consumer.index(), consumer_device, mb);
    for (int64_t x : samples(shape_.routes[route].producer.index(), producer_device, mb)) {
      if (theirs.count(x)) both.insert(x);
    }
    return both;
  }

  bool over(int64_t bytes) const {
    return device_ < shape_.memory_bytes.size() && shape_.memory_bytes[device_] > 0 &&
           bytes > shape_.memory_bytes[device_];
  }

  bool plain(const Action& a, bool route, bool micro_batch, bool peer) const {
    return (route || a.route == Action::kNone) && (micro_batch || a.micro_batch == 0) && (peer || !a.peer.valid()) &&
           a.stage.valid() && a.stage.index() < shape_.stages.size() && replica(a.stage.index(), device_) >= 0;
  }

  std::string step(const Action& a) {
    switch (a.kind) {
      case ActionKind::kForward:
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
      case ActionKind::kWeightGradient:
      case ActionKind::kRecompute:
        if (!plain(a, false, true, false) || a.micro_batch >= shape_.micro_batches.size()) return "malformed";
        return compute(a.kind, a.stage.index(), a.micro_batch);
      case ActionKind::kAllReduce:
      case ActionKind::kReduceScatter:
        if (!plain(a, false, false, false)) return "malformed";
        return reduce(a.stage.index(), a.kind == ActionKind::kReduceScatter);
      case ActionKind::kStep:
      case ActionKind::kUpdateShare:
        if (!plain(a, false, false, false)) return "malformed";
        return optimizer_step(a.stage.index(), a.kind == ActionKind::kUpdateShare);
      case ActionKind::kAllGather:
        if (!plain(a, false, false, false)) return "malformed";
        return gather(a.stage.index());
      case ActionKind::kReduceShared:
        if (!plain(a, true, false, false) || a.route >= shape_.shared.size()) return "malformed";
        return reduce_shared(a);
      default:
        if (!plain(a, true, true, true) || a.route >= shape_.routes.size()) return "malformed";
        if (a.micro_batch >= shape_.micro_batches.size()) return "malformed";
        if (!a.peer.valid() || a.peer.index() >= shape_.devices || a.peer.index() == device_) return "malformed";
        return transfer(a);
    }
  }

  /// Bytes of messages to (or from) other devices over the routes that leave (or enter) a stage.
  int64_t traffic(uint32_t stage, uint32_t mb, bool outgoing_route, bool gradient) const {
    int64_t bytes = 0;
    for (uint32_t r = 0; r < shape_.routes.size(); ++r) {
      const RouteShape& route = shape_.routes[r];
      if ((outgoing_route ? route.producer : route.consumer).index() != stage || (gradient && !route.gradient))
        continue;
      for (uint32_t d = 0; d < shape_.devices; ++d) {
        if (d == device_) continue;
        bytes += route.bytes_per_sample *
                 static_cast<int64_t>((outgoing_route ? common(r, mb, device_, d) : common(r, mb, d, device_)).size());
      }
    }
    return bytes;
  }

  bool will_recompute(uint32_t stage, uint32_t mb) const {
    for (const Action& a : row_) {
      if (a.kind == ActionKind::kRecompute && a.stage.index() == stage && a.micro_batch == mb) return true;
    }
    return false;
  }

  std::string compute(ActionKind kind, uint32_t s, uint32_t mb) {
    const StageShape& stage = shape_.stages[s];
    const auto own = samples(s, device_, mb);
    const auto size = static_cast<int64_t>(own.size());
    State& state = states_[{s, mb}];
    drop_taken();
    computed_[s] += std::string(letters(kind)) + std::to_string(mb) + " ";
    if (kind != ActionKind::kForward && !shape_.training) return "no backward pass in inference";
    int64_t freed = 0;
    if (kind == ActionKind::kForward) {
      if (state != State::kNone) return "computed twice";
      if (stepped_.count(s)) return "reads updated weights";
      if (!covered(s, mb, own, true)) return "an input is not there";
      state = State::kSaved;
      const int64_t kept = !shape_.training ? 0 : size * (will_recompute(s, mb) ? stage.kept_bytes : stage.saved_bytes);
      held_[{s, mb}] += kept;
      live_ += kept + traffic(s, mb, true, false);
      freed = traffic(s, mb, false, false);
    } else if (kind == ActionKind::kRecompute) {
      if (!stage.recompute) return "not planned";
      if (state != State::kSaved || recomputed_.count({s, mb})) return "nothing to recompute";
      recomputed_.insert({s, mb});
      state = State::kRecomputed;
      // What was kept for it becomes part of what is saved.
      held_[{s, mb}] += size * (stage.saved_bytes - stage.kept_bytes);
      live_ += size * (stage.saved_bytes - stage.kept_bytes);
    } else if (kind == ActionKind::kWeightGradient) {
      if (state != State::kPending) return "no input gradient before";
      if (const std::string fault = contribute(s, mb); !fault.empty()) return fault;
      state = State::kDone;
      freed = held_[{s, mb}];
    } else {
      if (state != State::kSaved && state != State::kRecomputed) return "nothing saved";
      if (!covered(s, mb, own, false)) return "an output's gradient is not there";
      gradients_.insert({s, mb});
      live_ += traffic(s, mb, false, true);
      freed = traffic(s, mb, true, true);
      state = State::kPending;
      if (kind == ActionKind::kBackward) {
        if (const std::string fault = contribute(s, mb); !fault.empty()) return fault;
        state = State::kDone;
        freed += held_[{s, mb}];
      } else {
        held_[{s, mb}] += size * stage.pending_bytes;
        const int64_t before = live_;
        live_ += size * stage.pending_bytes;
        if (over(before - traffic(s, mb, false, true) + size * stage.temporary_bytes)) return "memory";
      }
    }
    if (over(live_ + size * stage.temporary_bytes)) return "memory";
    live_ -= freed;
    return {};
  }

  /// Whether every sample of every input (or of every output's gradient) is on the device.
  bool covered(uint32_t s, uint32_t mb, const std::set<int64_t>& own, bool forward) const {
    for (uint32_t r = 0; r < shape_.routes.size(); ++r) {
      const RouteShape& route = shape_.routes[r];
      if ((forward ? route.consumer : route.producer).index() != s || (!forward && !route.gradient)) continue;
      std::set<int64_t> have;
      const auto& received = forward ? activations_ : output_gradients_;
      if (auto it = received.find({r, mb}); it != received.end()) have = it->second;
      const uint32_t other = (forward ? route.producer : route.consumer).index();
      const bool there = forward ? states_.count({other, mb}) && states_.at({other, mb}) != State::kNone
                                 : gradients_.count({other, mb}) > 0;
      if (there) {
        for (int64_t x : samples(other, device_, mb)) have.insert(x);
      }
      for (int64_t x : own) {
        if (!have.count(x)) return false;
      }
    }
    return true;
  }

  std::string contribute(uint32_t s, uint32_t mb) {
    if (reduced_.count(s) || stepped_.count(s)) return "too late for the gradient";
    for (uint32_t g = 0; g < shape_.shared.size(); ++g) {
      if (shared_.count(g) && holds(g, s)) return "too late for the shared gradient";
    }
    return contributions_.insert({s, mb}).second ? "" : "counted twice";
  }

  bool holds(uint32_t group, uint32_t stage) const {
    for (StageId member : shape_.shared[group].stages) {
      if (member.index() == stage) return true;
    }
    return false;
  }

  bool complete(uint32_t s) const {
    for (uint32_t mb = 0; mb < shape_.micro_batches.size(); ++mb) {
      if (!contributions_.count({s, mb})) return false;
    }
    return true;
  }

  std::string reduce(uint32_t s, bool to_shares) {
    if (!shape_.training || shape_.stages[s].devices.size() < 2) return "no group";
    if (to_shares != shape_.stages[s].sharded) return "reduced to the wrong place";
    if (!complete(s)) return "gradient is not complete";
    return reduced_.insert(s).second ? "" : "reduced twice";
  }

  std::string reduce_shared(const Action& a) {
    uint32_t first = ~0u;
    for (StageId stage : shape_.shared[a.route].stages) {
      if (replica(stage.index(), device_) < 0) continue;
      first = std::min(first, stage.index());
      if (!complete(stage.index())) return "gradient is not complete";
    }
    if (!shape_.training || first != a.stage.index() || a.micro_batch != 0 || a.peer.valid()) return "malformed";
    return shared_.insert(a.route).second ? "" : "reduced twice";
  }

  std::string optimizer_step(uint32_t s, bool of_share) {
    if (of_share != shape_.stages[s].sharded) return "updates the wrong part";
    if (!shape_.training || !complete(s)) return "gradient is not complete";
    if (shape_.stages[s].devices.size() > 1 && !reduced_.count(s)) return "gradient is not reduced";
    for (uint32_t g = 0; g < shape_.shared.size(); ++g) {
      if (holds(g, s) && !shared_.count(g)) return "shared gradient is not reduced";
    }
    return stepped_.insert(s).second ? "" : "stepped twice";
  }

  std::string gather(uint32_t s) {
    if (!shape_.training || !shape_.stages[s].sharded) return "nothing to gather";
    if (!stepped_.count(s)) return "its share is not updated";
    return gathered_.insert(s).second ? "" : "gathered twice";
  }

  /// Frees what peers have certainly taken when the messages for the computation at `at_` are here.
  void drop_taken() {
    if (!shape_.training) return;
    for (uint32_t peer = 0; peer < shape_.devices; ++peer) {
      const size_t posted = peer == device_ ? 0 : posted_by(peer);
      auto& sent = on_their_way_[peer];
      for (; taken_[peer] < std::min(posted, sent.size()); ++taken_[peer]) live_ -= sent[taken_[peer]];
    }
  }

  /// Receives from this device that a peer has posted: those before, and directly behind, the latest of its messages
  /// that a computation up to now needed. A recomputation between them has had time to end if the message came earlier.
  size_t posted_by(uint32_t peer) const {
    size_t most = 0;
    const std::vector<Action>& theirs = rows_[peer];
    for (size_t i = 0; i <= at_; ++i) {
      const Action& mine = row_[i];
      const bool forward = mine.kind == ActionKind::kForward;
      if (!forward && mine.kind != ActionKind::kBackward && mine.kind != ActionKind::kInputGradient) continue;
      for (uint32_t r = 0; r < shape_.routes.size(); ++r) {
        const RouteShape& route = shape_.routes[r];
        if ((forward ? route.consumer : route.producer) != mine.stage || (!forward && !route.gradient)) continue;
        const auto message =
            forward ? common(r, mine.micro_batch, peer, device_) : common(r, mine.micro_batch, device_, peer);
        if (message.empty()) continue;
        const ActionKind send = forward ? ActionKind::kSendActivation : ActionKind::kSendGradient;
        const auto found = std::find_if(theirs.begin(), theirs.end(), [&](const Action& a) {
          return a.kind == send && a.route == r && a.micro_batch == mine.micro_batch && a.peer.index() == device_;
        });
        if (found == theirs.end()) continue;
        const auto from_here = [&](const Action& a) { return is_receive(a.kind) && a.peer.index() == device_; };
        auto posted = static_cast<size_t>(std::count_if(theirs.begin(), found, from_here));
        for (auto next = found + 1; next != theirs.end(); ++next) {
          if (next->kind == ActionKind::kRecompute && i < at_) continue;
          if (!is_receive(next->kind)) break;
          posted += from_here(*next) ? 1 : 0;
        }
        most = std::max(most, posted);
      }
    }
    return most;
  }

  std::string transfer(const Action& a) {
    const RouteShape& route = shape_.routes[a.route];
    const bool gradient = a.kind == ActionKind::kSendGradient || a.kind == ActionKind::kReceiveGradient;
    const bool at_producer = a.kind == ActionKind::kSendActivation || a.kind == ActionKind::kReceiveGradient;
    if (a.stage != (at_producer ? route.producer : route.consumer)) return "malformed";
    if (gradient && (!route.gradient || !shape_.training)) return "no gradient flows here";
    const uint32_t peer = a.peer.index();
    const auto message =
        at_producer ? common(a.route, a.micro_batch, device_, peer) : common(a.route, a.micro_batch, peer, device_);
    if (message.empty()) return "no samples";
    const int64_t bytes = route.bytes_per_sample * static_cast<int64_t>(message.size());
    const Key own{a.stage.index(), a.micro_batch};
    if (is_send(a.kind)) {
      if (gradient ? !gradients_.count(own) : states_[own] == State::kNone) return "nothing to send";
      if (!sent_.insert({a.route, a.micro_batch, peer, gradient}).second) return "sent twice";
      if (shape_.training) {
        on_their_way_[peer].push_back(bytes);
      } else {
        live_ -= bytes;
      }
      return {};
    }
    if (gradient ? gradients_.count(own) > 0 : states_[own] != State::kNone) return "nobody reads it any more";
    for (int64_t x : message) {
      if (!(gradient ? output_gradients_ : activations_)[{a.route, a.micro_batch}].insert(x).second)
        return "received twice";
    }
    live_ += bytes;
    return over(live_) ? "memory" : "";
  }

  std::string leftovers() const {
    for (uint32_t s = 0; s < shape_.stages.size(); ++s) {
      if (replica(s, device_) < 0) continue;
      for (uint32_t mb = 0; mb < shape_.micro_batches.size(); ++mb) {
        const auto it = states_.find({s, mb});
        const State state = it == states_.end() ? State::kNone : it->second;
        if (state != (shape_.training ? State::kDone : State::kSaved)) return "a micro-batch is unfinished";
      }
      if (shape_.training && !stepped_.count(s)) return "a stage has not stepped";
      if (shape_.training && shape_.stages[s].sharded && !gathered_.count(s)) return "a stage lacks updated shares";
    }
    return {};
  }

  const PipelineShape& shape_;
  const uint32_t device_;
  const std::vector<std::vector<Action>>& rows_;
  const std::vector<Action>& row_;
  size_t at_ = 0;
  std::map<uint32_t, std::vector<int64_t>> on_their_way_;  // bytes of what was sent, by peer
  std::map<uint32_t, size_t> taken_;                       // how many of them peers have certainly taken
  std::map<Key, State> states_;
  std::map<Key, int64_t> held_;
  std::map<Key, std::set<int64_t>> activations_, output_gradients_;  // by route
  std::set<Key> gradients_, contributions_, recomputed_;
  std::set<std::tuple<uint32_t, uint32_t, uint32_t, bool>> sent_;
  std::set<uint32_t> reduced_, shared_, stepped_, gathered_;
  std::map<uint32_t, std::string> computed_;  // by stage: what ran, in order
  int64_t live_ = 0;
};

/// Every state that blocking rows can reach; says whether one of them is stuck before the end.
class Explorer {
 public:
  Explorer(const PipelineShape& shape, const Schedule& schedule) : shape_(shape), rows_(schedule.rows) {}

  bool can_get_stuck() {
    std::vector<std::vector<uint8_t>> open{std::vector<uint8_t>(rows_.size(), 0)};
    seen_.insert(code(open[0]));
    while (!open.empty()) {
      const std::vector<uint8_t> state = open.back();
      open.pop_back();
      bool moved = false, ended = true;
      for (uint32_t d = 0; d < rows_.size(); ++d) {
        if (state[d] == rows_[d].size()) continue;
        ended = false;
        std::vector<uint8_t> next = state;
        if (!move(d, next)) continue;
        moved = true;
        if (seen_.insert(code(next)).second) open.push_back(next);
      }
      if (!moved && !ended) return true;
    }
    return false;
  }

 private:
  uint64_t code(const std::vector<uint8_t>& state) const {
    uint64_t result = 0;
    for (uint8_t position : state) result = result * 256 + position;
    return result;
  }

  const Action* at(uint32_t d, const std::vector<uint8_t>& state) const {
    return state[d] < rows_[d].size() ? &rows_[d][state[d]] : nullptr;
  }

  /// Takes the device's next action, together with everyone it needs; false: not possible now.
  bool move(uint32_t d, std::vector<uint8_t>& state) const {
    const Action& a = *at(d, state);
    std::set<uint32_t> together{d};
    if (is_send(a.kind) || is_receive(a.kind)) {
      const Action* other = at(a.peer.index(), state);
      const auto kind = static_cast<int>(a.kind), offset = is_send(a.kind) ? 1 : -1;
      if (!other || static_cast<int>(other->kind) != kind + offset || other->route != a.route ||
          other->micro_batch != a.micro_batch || other->peer != DeviceId(d)) {
        return false;
      }
      together.insert(a.peer.index());
    } else if (is_collective(a.kind)) {
      std::vector<StageId> stages{a.stage};
      if (a.kind == ActionKind::kReduceShared) stages = shape_.shared[a.route].stages;
      for (StageId stage : stages) {
        for (DeviceId device : shape_.stages[stage.index()].devices) together.insert(device.index());
      }
      for (uint32_t member : together) {
        const Action* other = at(member, state);
        if (!other || other->kind != a.kind || other->route != a.route) return false;
        if (a.kind != ActionKind::kReduceShared && other->stage != a.stage) return false;
      }
    }
    for (uint32_t member : together) ++state[member];
    return true;
  }

  const PipelineShape& shape_;
  const std::vector<std::vector<Action>>& rows_;
  std::unordered_set<uint64_t> seen_;
};

/// Whether the schedule works: on every row alone, for the replicas together, and in every order of events.
inline std::string fault(const PipelineShape& shape, const Schedule& schedule) {
  if (schedule.rows.size() != shape.devices) return "rows";
  std::map<uint32_t, std::set<std::string>> computed;
  for (uint32_t d = 0; d < shape.devices; ++d) {
    Machine machine(shape, d, schedule.rows);
    if (std::string fault = machine.run(); !fault.empty()) return "d" + std::to_string(d) + " " + fault;
    for (const auto& [stage, order] : machine.computed()) computed[stage].insert(order);
  }
  for (const auto& [stage, orders] : computed) {
    if (orders.size() > 1) return "replicas of stage " + std::to_string(stage) + " differ";
  }
  return Explorer(shape, schedule).can_get_stuck() ? "deadlock" : "";
}

}  // namespace rannc::ir::oracle
