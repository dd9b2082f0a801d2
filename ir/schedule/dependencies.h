/// Dependencies between the actions of a schedule, shared by simulator, verifier and executor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule/schedule.h"

namespace rannc::ir {

/// An action on a device. As dependencies, `kInputGradient` and `kWeightGradient` are also satisfied by a B.
struct DeviceAction {
  DeviceId device;
  Action action;
  bool operator==(const DeviceAction&) const = default;
};

/// Samples that one replica of a route's producer sends to one replica of its consumer.
struct Message {
  uint32_t route = 0;
  uint32_t producer = 0, consumer = 0;  ///< replicas; their sum differs between the messages of one micro-batch
  DeviceId peer;        ///< device of the other end; if it is the querying device itself, nothing is sent
  SampleRange samples;  ///< within the micro-batch; never empty
};

/// Index of routes by stage and of replicas by device, built once per shape. Keeps a reference to the shape.
class Dependencies {
 public:
  explicit Dependencies(const PipelineShape& shape);

  const PipelineShape& shape() const { return shape_; }
  /// Stages on a device, ascending.
  std::span<const StageId> stages_on(DeviceId device) const;
  /// The replica of the stage that a device runs; -1: none.
  int replica(StageId stage, DeviceId device) const;
  /// Routes that end in a stage, and routes that start from it; ascending.
  std::span<const uint32_t> routes_into(StageId stage) const;
  std::span<const uint32_t> routes_from(StageId stage) const;
  /// Groups of shared parameters that a stage belongs to, ascending.
  std::span<const uint32_t> groups_of(StageId stage) const;
  /// Devices of a collective action (AR, RS, SC, AG), in the order of stages and replicas, without duplicates.
  std::vector<DeviceId> members(const Action& action) const;

  /// Calls `visit(const Message&)` for each producer's replica whose samples this consumer's replica reads.
  template <class Visit>
  void each_incoming(uint32_t route, uint32_t micro_batch, DeviceId consumer, Visit&& visit) const;
  /// Calls `visit(const Message&)` for each consumer's replica that reads samples of this producer's replica.
  template <class Visit>
  void each_outgoing(uint32_t route, uint32_t micro_batch, DeviceId producer, Visit&& visit) const;

  /// Calls `visit(const Message&)` for the message of a send or receive on `device`; never if the two share no samples.
  template <class Visit>
  void each_message(DeviceId device, const Action& action, Visit&& visit) const;
  /// Calls `visit(const Message&, ActionKind send)` for each message to other stages with a result of an F, B or I.
  template <class Visit>
  void each_result(DeviceId device, const Action& action, Visit&& visit) const;

  /// Calls `visit(const Message&, const Action& needed)` for each message from other stages that an F, B or I needs.
  /// `needed` runs on the message's peer: an F, or an I (a B satisfies it too).
  template <class Visit>
  void each_producer(DeviceId device, const Action& action, Visit&& visit) const;

  /// Calls `visit(DeviceAction)` once for each action that must be done before `action` may run on `device` in a
  /// lowered schedule: of each kind that the table of kinds names, in the order of routes and replicas.
  ///   F B I  the receive of each message that it reads; the F or I that made it, if that is on the same device
  ///   RA RG  the peer's send
  ///   AR SC RS S U  W of every micro-batch of the stage, or of every stage of the group on this device
  ///   S U    every AR or SC if the stage has replicas, and RS of its groups
  /// All else is of the same stage and micro-batch. Members of one collective also wait for each other; see `members`.
  template <class Visit>
  void each(DeviceId device, const Action& action, Visit&& visit) const;

 private:
  struct Rows {
    std::vector<uint32_t> offsets;
    std::vector<uint32_t> items;
    std::span<const uint32_t> row(size_t i) const { return {items.data() + offsets[i], items.data() + offsets[i + 1]}; }
  };
  /// Calls `visit(own replica, other replica, SampleRange)` for each pair of replicas that share samples.
  template <class Visit>
  void each_overlap(StageId stage, StageId other_stage, uint32_t micro_batch, DeviceId device, Visit&& visit) const;
  /// The part of `each` that concerns needed actions of one kind.
  template <class Visit>
  void each_needed(DeviceId device, const Action& action, ActionKind needed, Visit&& visit) const;
  template <class Visit>
  void each_micro_batch(DeviceId device, StageId stage, ActionKind needed, Visit&& visit) const;

  const PipelineShape& shape_;
  Rows into_, from_, groups_;
  std::vector<uint32_t> stage_offsets_;
  std::vector<StageId> stages_;     ///< by device
  std::vector<uint32_t> replicas_;  ///< parallel to stages_
};

/// `Dependencies(shape).each(…)` as a list, for single queries.
std::vector<DeviceAction> dependencies(const PipelineShape& shape, DeviceId device, const Action& action);

// Implementation of the templates.

template <class Visit>
void Dependencies::each_incoming(uint32_t route, uint32_t micro_batch, DeviceId consumer, Visit&& visit) const {
  const RouteShape& r = shape_.routes[route];
  each_overlap(r.consumer, r.producer, micro_batch, consumer, [&](uint32_t own, uint32_t other, SampleRange both) {
    visit(Message{route, other, own, shape_.stages[r.producer.index()].devices[other], both});
  });
}

template <class Visit>
void Dependencies::each_outgoing(uint32_t route, uint32_t micro_batch, DeviceId producer, Visit&& visit) const {
  const RouteShape& r = shape_.routes[route];
  each_overlap(r.producer, r.consumer, micro_batch, producer, [&](uint32_t own, uint32_t other, SampleRange both) {
    visit(Message{route, own, other, shape_.stages[r.consumer.index()].devices[other], both});
  });
}

template <class Visit>
void Dependencies::each_overlap(StageId stage, StageId other_stage, uint32_t micro_batch, DeviceId device,
                                Visit&& visit) const {
  const int64_t samples = shape_.micro_batches[micro_batch];
  const size_t replicas = shape_.stages[stage.index()].devices.size();
  const size_t others = shape_.stages[other_stage.index()].devices.size();
  const int own = replica(stage, device);
  if (own < 0) return;
  const SampleRange mine = replica_samples(samples, static_cast<size_t>(own), replicas);
  if (mine.empty()) return;
  // The owner of sample x is the last replica whose range starts at or before x.
  for (size_t i = sample_owner(samples, mine.first, others); i < others; ++i) {
    const SampleRange theirs = replica_samples(samples, i, others);
    if (theirs.first >= mine.last) break;
    const SampleRange both{std::max(mine.first, theirs.first), std::min(mine.last, theirs.last)};
    if (!both.empty()) visit(static_cast<uint32_t>(own), static_cast<uint32_t>(i), both);
  }
}

template <class Visit>
void Dependencies::each_producer(DeviceId device, const Action& action, Visit&& visit) const {
  if (is_forward(action.kind)) {
    for (uint32_t route : routes_into(action.stage)) {
      const Action needed = compute_action(ActionKind::kForward, shape_.routes[route].producer, action.micro_batch);
      each_incoming(route, action.micro_batch, device, [&](const Message& m) { visit(m, needed); });
    }
  } else if (computes_input_gradient(action.kind)) {
    for (uint32_t route : routes_from(action.stage)) {
      if (!shape_.routes[route].gradient) continue;
      const Action needed =
          compute_action(ActionKind::kInputGradient, shape_.routes[route].consumer, action.micro_batch);
      each_outgoing(route, action.micro_batch, device, [&](const Message& m) { visit(m, needed); });
    }
  }
}

template <class Visit>
void Dependencies::each_message(DeviceId device, const Action& action, Visit&& visit) const {
  const auto to_peer = [&](const Message& m) {
    if (m.peer == action.peer) visit(m);
  };
  if (is_at_producer(action.kind)) {
    each_outgoing(action.route, action.micro_batch, device, to_peer);
  } else {
    each_incoming(action.route, action.micro_batch, device, to_peer);
  }
}

template <class Visit>
void Dependencies::each_result(DeviceId device, const Action& action, Visit&& visit) const {
  if (is_forward(action.kind)) {
    for (uint32_t route : routes_from(action.stage)) {
      each_outgoing(route, action.micro_batch, device,
                    [&](const Message& m) { visit(m, ActionKind::kSendActivation); });
    }
  } else if (computes_input_gradient(action.kind)) {
    for (uint32_t route : routes_into(action.stage)) {
      if (!shape_.routes[route].gradient) continue;
      each_incoming(route, action.micro_batch, device, [&](const Message& m) { visit(m, ActionKind::kSendGradient); });
    }
  }
}

template <class Visit>
void Dependencies::each_micro_batch(DeviceId device, StageId stage, ActionKind needed, Visit&& visit) const {
  for (uint32_t mb = 0; mb < shape_.micro_batch_count(); ++mb) visit({device, compute_action(needed, stage, mb)});
}

template <class Visit>
void Dependencies::each_needed(DeviceId device, const Action& action, ActionKind needed, Visit&& visit) const {
  const StageId stage = action.stage;
  switch (traits(needed).scope) {
    case ActionScope::kMicroBatch:
      if (has_micro_batch(action.kind)) return visit({device, compute_action(needed, stage, action.micro_batch)});
      if (!is_of_group(action.kind)) return each_micro_batch(device, stage, needed, visit);
      for (StageId member : shape_.shared[action.route].stages) {
        if (replica(member, device) >= 0) each_micro_batch(device, member, needed, visit);
      }
      return;
    case ActionScope::kActivation:
    case ActionScope::kGradient:
      if (is_send(needed)) {
        return visit({action.peer, transfer_action(shape_, needed, action.route, action.micro_batch, device)});
      }
      return each_producer(device, action, [&](const Message& m, const Action& made) {
        const bool here = m.peer == device;
        visit({device, here ? made : transfer_action(shape_, needed, m.route, action.micro_batch, m.peer)});
      });
    case ActionScope::kStage:
      if (is_reduction(needed) && shape_.stages[stage.index()].devices.size() < 2) return;
      for (uint32_t i = 0; i < action_count(shape_.stages[stage.index()], needed); ++i)
        visit({device, stage_action(needed, stage, i)});
      return;
    case ActionScope::kGroup:
      for (uint32_t group : groups_of(stage)) visit({device, reduce_shared_action(shape_, group, device)});
  }
}

template <class Visit>
void Dependencies::each(DeviceId device, const Action& action, Visit&& visit) const {
  const auto visit_one = [&](const DeviceAction& one) { visit(one); };
  for (const ActionKind needed : traits(action.kind).needs) each_needed(device, action, needed, visit_one);
}

}  // namespace rannc::ir
