/// Computes arrival times of the messages of a simulated schedule.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "ir/schedule/dependencies.h"
#include "partition/schedule/simulate.h"
#include "partition/schedule/steady_state.h"

namespace rannc::partition {

/// Stores when activations and gradients arrive, by route, micro-batch and pair of replicas.
class Messages {
 public:
  Messages(const ir::Dependencies& dependencies, const ScheduleCosts& costs, const SimulationOptions& options);

  /// When all inputs of a computation from other stages have arrived; infinity: some message has not been sent.
  double arrival(DeviceId device, const ir::Action& action) const {
    double time = 0;
    dependencies_.each_producer(device, action, [&](const ir::Message& m, const ir::Action& needed) {
      const auto& arrivals = ir::is_forward(needed.kind) ? activations_ : gradients_;
      time = std::max(time, arrivals[slot(m, action.micro_batch)]);
    });
    return time;
  }

  /// Arrival time of the message of a send or receive.
  double arrival_of(const ir::Message& m, ir::ActionKind kind, uint32_t micro_batch) const {
    return (ir::is_activation(kind) ? activations_ : gradients_)[slot(m, micro_batch)];
  }

  /// Delivers at once a message with both ends on one device.
  void hand_over(const ir::Message& m, ir::ActionKind kind, uint32_t micro_batch, double time) {
    (ir::is_activation(kind) ? activations_ : gradients_)[slot(m, micro_batch)] = time;
    if (!unread_.empty()) unread_[m.peer.index()].push_back({pair(m), ir::is_activation(kind), micro_batch, time});
  }

  /// Sends at `time`, after contended resources are free. Returns the arrival.
  double send(DeviceId from, const ir::Message& m, ir::ActionKind kind, uint32_t micro_batch, double time);

  /// Occupies the resources of a ring through `members` for `duration`, from `time` on or once they are free. Returns
  /// the beginning. Of ports, a ring uses the same as messages between all pairs would.
  double occupy(const std::vector<DeviceId>& members, double time, double duration);

  /// Marks the inputs of a computation as read. Only if periods may be skipped.
  void take(DeviceId device, const ir::Action& action);
  /// Stores the state of messages in `standing`.
  void describe(Standing& standing) const;
  /// Shifts all messages in progress by `times` periods.
  void move_on(const Standing& earlier, const Period& period, uint64_t times);

 private:
  struct Channel {
    uint32_t producer = std::numeric_limits<uint32_t>::max();  ///< producer of the cached link
    LinkCost cost;
    std::vector<Hold> resources;
  };

  std::vector<Hold> resources(DeviceId from, DeviceId to) const;
  double free_from(const std::vector<Hold>& holds, double time);
  /// Pairs of replicas that share samples differ in the sum of their indices.
  size_t pair(const ir::Message& m) const { return first_pair_[m.route] + m.producer + m.consumer; }
  size_t slot(const ir::Message& m, uint32_t micro_batch) const {
    return pair(m) * dependencies_.shape().micro_batch_count() + micro_batch;
  }

  const ir::Dependencies& dependencies_;
  const ScheduleCosts& costs_;
  const bool contention_;
  const double grain_;
  std::vector<size_t> first_pair_;  ///< by route
  std::vector<double> activations_, gradients_;
  std::vector<Channel> forward_channels_, backward_channels_;  ///< by pair
  std::vector<Port> ports_;                                    ///< by resource
  std::vector<std::vector<UnreadMessage>> unread_;             ///< by device; empty unless periods may be skipped
};

}  // namespace rannc::partition
