/// What an action of a schedule waits for: the one relation that simulator, verifier and executor share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule.h"

namespace rannc::ir {

/// An action on a device. As a dependency, `kInputGradient` is also met by a B, and so is `kWeightGradient`.
struct DeviceAction {
  DeviceId device;
  Action action;
  bool operator==(const DeviceAction&) const = default;
};

/// Samples that one replica of a route's producer hands to one replica of its consumer.
struct Message {
  uint32_t route = 0;
  DeviceId peer;        ///< where the other end lives; may be the asking device itself: then nothing is sent
  SampleRange samples;  ///< within the micro-batch; never empty
};

/// Routes by stage and replicas by device, looked up once per shape. Keeps a reference to the shape.
class Dependencies {
 public:
  explicit Dependencies(const PipelineShape& shape);

  const PipelineShape& shape() const { return shape_; }
  /// Stages on a device, ascending.
  std::span<const StageId> stages_on(DeviceId device) const;
  /// Which replica of the stage a device runs; -1: none.
  int replica(StageId stage, DeviceId device) const;
  /// Routes that end in, and that start from, a stage; ascending.
  std::span<const uint32_t> routes_into(StageId stage) const;
  std::span<const uint32_t> routes_from(StageId stage) const;
  /// Groups of shared parameters that a stage belongs to, ascending.
  std::span<const uint32_t> groups_of(StageId stage) const;
  /// Devices of a collective action (AR, RS), in the order of stages and replicas, without repeats.
  std::vector<DeviceId> members(const Action& action) const;

  /// Calls `visit(const Message&)` for each producer's replica whose samples this consumer's replica reads.
  template <class Visit>
  void each_incoming(uint32_t route, uint32_t micro_batch, DeviceId consumer, Visit&& visit) const;
  /// Calls `visit(const Message&)` for each consumer's replica that reads samples of this producer's replica.
  template <class Visit>
  void each_outgoing(uint32_t route, uint32_t micro_batch, DeviceId producer, Visit&& visit) const;

  /// Calls `visit(DeviceAction)` for everything that must be done before `action` may run on `device` in a lowered
  /// schedule; an action outside the shape has none. Each appears once. Order: as routes and replicas are numbered.
  ///   F   RA of each message it reads, or the producer's F on the same device
  ///   R   F
  ///   B I F; RG of each message it sent, or the consumer's I on the same device
  ///   W   I
  ///   SA  F        RA  the peer's SA       SG  I        RG  the peer's SG
  ///   AR  W of every micro-batch of the stage; RS the same for every stage of the group on this device
  ///   S   AR where the stage has replicas, RS of its groups, W of every micro-batch
  /// Members of one collective also wait for each other; see `members`.
  template <class Visit>
  void each(DeviceId device, const Action& action, Visit&& visit) const;

 private:
  struct Rows {
    std::vector<uint32_t> offsets;
    std::vector<uint32_t> items;
    std::span<const uint32_t> row(size_t i) const { return {items.data() + offsets[i], items.data() + offsets[i + 1]}; }
  };
  template <class Visit>
  void each_input(DeviceId device, const Action& action, Visit&& visit) const;
  template <class Visit>
  void each_output_gradient(DeviceId device, const Action& action, Visit&& visit) const;
  template <class Visit>
  void each_weight_gradient(DeviceId device, StageId stage, Visit&& visit) const;

  const PipelineShape& shape_;
  Rows into_, from_, groups_;
  std::vector<uint32_t> stage_offsets_;
  std::vector<StageId> stages_;  ///< by device
};

/// `Dependencies(shape).each(…)` as a list, for single questions.
std::vector<DeviceAction> dependencies(const PipelineShape& shape, DeviceId device, const Action& action);

// Implementation of the templates.

template <class Visit>
void Dependencies::each_incoming(uint32_t route, uint32_t micro_batch, DeviceId consumer, Visit&& visit) const {
  const RouteShape& r = shape_.routes[route];
  const auto& from = shape_.stages[r.producer.index()].devices;
  const auto& to = shape_.stages[r.consumer.index()].devices;
  const int64_t samples = shape_.micro_batches[micro_batch];
  const int own = replica(r.consumer, consumer);
  if (own < 0) return;
  const SampleRange mine = replica_samples(samples, static_cast<size_t>(own), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const SampleRange theirs = replica_samples(samples, i, from.size());
    const SampleRange both{std::max(mine.first, theirs.first), std::min(mine.last, theirs.last)};
    if (!both.empty()) visit(Message{route, from[i], both});
  }
}

template <class Visit>
void Dependencies::each_outgoing(uint32_t route, uint32_t micro_batch, DeviceId producer, Visit&& visit) const {
  const RouteShape& r = shape_.routes[route];
  const auto& from = shape_.stages[r.producer.index()].devices;
  const auto& to = shape_.stages[r.consumer.index()].devices;
  const int64_t samples = shape_.micro_batches[micro_batch];
  const int own = replica(r.producer, producer);
  if (own < 0) return;
  const SampleRange mine = replica_samples(samples, static_cast<size_t>(own), from.size());
  for (size_t i = 0; i < to.size(); ++i) {
    const SampleRange theirs = replica_samples(samples, i, to.size());
    const SampleRange both{std::max(mine.first, theirs.first), std::min(mine.last, theirs.last)};
    if (!both.empty()) visit(Message{route, to[i], both});
  }
}

template <class Visit>
void Dependencies::each_input(DeviceId device, const Action& action, Visit&& visit) const {
  for (uint32_t route : routes_into(action.stage)) {
    each_incoming(route, action.micro_batch, device, [&](const Message& m) {
      if (m.peer == device) {
        visit({device, compute_action(ActionKind::kForward, shape_.routes[route].producer, action.micro_batch)});
      } else {
        visit({device, transfer_action(shape_, ActionKind::kReceiveActivation, route, action.micro_batch, m.peer)});
      }
    });
  }
}

template <class Visit>
void Dependencies::each_output_gradient(DeviceId device, const Action& action, Visit&& visit) const {
  for (uint32_t route : routes_from(action.stage)) {
    if (!shape_.routes[route].gradient) continue;
    each_outgoing(route, action.micro_batch, device, [&](const Message& m) {
      if (m.peer == device) {
        visit({device, compute_action(ActionKind::kInputGradient, shape_.routes[route].consumer, action.micro_batch)});
      } else {
        visit({device, transfer_action(shape_, ActionKind::kReceiveGradient, route, action.micro_batch, m.peer)});
      }
    });
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
  switch (action.kind) {
    case ActionKind::kForward:
      return each_input(device, action, visit);
    case ActionKind::kRecompute:
    case ActionKind::kSendActivation:
      return own(ActionKind::kForward);
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
      own(ActionKind::kForward);
      return each_output_gradient(device, action, visit);
    case ActionKind::kWeightGradient:
    case ActionKind::kSendGradient:
      return own(ActionKind::kInputGradient);
    case ActionKind::kReceiveActivation:
      return peer(ActionKind::kSendActivation);
    case ActionKind::kReceiveGradient:
      return peer(ActionKind::kSendGradient);
    case ActionKind::kAllReduce:
      return each_weight_gradient(device, action.stage, visit);
    case ActionKind::kReduceShared:
      for (StageId stage : shape_.shared[action.route].stages) {
        if (replica(stage, device) >= 0) each_weight_gradient(device, stage, visit);
      }
      return;
    case ActionKind::kStep:
      if (shape_.stages[action.stage.index()].devices.size() > 1) {
        visit(DeviceAction{device, stage_action(ActionKind::kAllReduce, action.stage)});
      }
      for (uint32_t group : groups_of(action.stage))
        visit(DeviceAction{device, reduce_shared_action(shape_, group, device)});
      return each_weight_gradient(device, action.stage, visit);
  }
}

}  // namespace rannc::ir
