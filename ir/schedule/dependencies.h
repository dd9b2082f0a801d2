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

  /// Calls `visit(const Message&, const Action& needed)` for each message from other stages that an F, B or I needs.
  /// `needed` runs on the message's peer: an F, or an I (a B satisfies it too).
  template <class Visit>
  void each_producer(DeviceId device, const Action& action, Visit&& visit) const;

  /// Calls `visit(DeviceAction)` once for each action that must be done before `action` may run on `device` in a
  /// lowered schedule, in the order of routes and replicas. An action outside the shape has no dependencies.
  ///   F   RA of each message it reads, or the producer's F on the same device
  ///   R   F
  ///   B I F; RG of each message it sent, or the consumer's I on the same device
  ///   W   I
  ///   SA  F        RA  the peer's SA       SG  I        RG  the peer's SG
  ///   AR SC  W of every micro-batch of the stage; RS the same for every stage of the group on this device
  ///   S   AR if the stage has replicas, RS of its groups, W of every micro-batch
  ///   U   SC, RS of the stage's groups, W of every micro-batch
  ///   AG  U
  /// Members of one collective also wait for each other; see `members`.
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
  template <class Visit>
  void each_weight_gradient(DeviceId device, StageId stage, Visit&& visit) const;

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
  if (action.kind == ActionKind::kForward) {
    for (uint32_t route : routes_into(action.stage)) {
      const Action needed = compute_action(ActionKind::kForward, shape_.routes[route].producer, action.micro_batch);
      each_incoming(route, action.micro_batch, device, [&](const Message& m) { visit(m, needed); });
    }
  } else if (action.kind == ActionKind::kInputGradient || action.kind == ActionKind::kBackward) {
    for (uint32_t route : routes_from(action.stage)) {
      if (!shape_.routes[route].gradient) continue;
      const Action needed =
          compute_action(ActionKind::kInputGradient, shape_.routes[route].consumer, action.micro_batch);
      each_outgoing(route, action.micro_batch, device, [&](const Message& m) { visit(m, needed); });
    }
  }
}

template <class Visit>
void Dependencies::each_weight_gradient(DeviceId device, StageId stage, Visit&& visit) const {
  for (uint32_t mb = 0; mb < shape_.micro_batch_count(); ++mb) {
    visit({device, compute_action(ActionKind::kWeightGradient, stage, mb)});
  }
}

template <class Visit>
void Dependencies::each(DeviceId device, const Action& action, Visit&& visit) const {
  const auto own = [&](ActionKind kind) {
    visit(DeviceAction{device, compute_action(kind, action.stage, action.micro_batch)});
  };
  const auto peer = [&](ActionKind kind) {
    visit(DeviceAction{action.peer, transfer_action(shape_, kind, action.route, action.micro_batch, device)});
  };
  const auto arrivals = [&](ActionKind receive) {
    each_producer(device, action, [&](const Message& m, const Action& needed) {
      const bool here = m.peer == device;
      visit(
          DeviceAction{device, here ? needed : transfer_action(shape_, receive, m.route, action.micro_batch, m.peer)});
    });
  };
  switch (action.kind) {
    case ActionKind::kForward:
      return arrivals(ActionKind::kReceiveActivation);
    case ActionKind::kRecompute:
    case ActionKind::kSendActivation:
      return own(ActionKind::kForward);
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
      own(ActionKind::kForward);
      return arrivals(ActionKind::kReceiveGradient);
    case ActionKind::kWeightGradient:
    case ActionKind::kSendGradient:
      return own(ActionKind::kInputGradient);
    case ActionKind::kReceiveActivation:
      return peer(ActionKind::kSendActivation);
    case ActionKind::kReceiveGradient:
      return peer(ActionKind::kSendGradient);
    case ActionKind::kAllReduce:
    case ActionKind::kReduceScatter:
      return each_weight_gradient(device, action.stage, visit);
    case ActionKind::kReduceShared:
      for (StageId stage : shape_.shared[action.route].stages) {
        if (replica(stage, device) >= 0) each_weight_gradient(device, stage, visit);
      }
      return;
    case ActionKind::kAllGather:
      return visit(DeviceAction{device, stage_action(ActionKind::kUpdateShare, action.stage)});
    case ActionKind::kStep:
    case ActionKind::kUpdateShare:
      if (const StageShape& stage = shape_.stages[action.stage.index()]; stage.devices.size() > 1) {
        visit(DeviceAction{device, stage_action(reduction_kind(stage), action.stage)});
      }
      for (uint32_t group : groups_of(action.stage))
        visit(DeviceAction{device, reduce_shared_action(shape_, group, device)});
      return each_weight_gradient(device, action.stage, visit);
  }
}

}  // namespace rannc::ir
