/// Prices the messages of a simulated schedule.
#include "partition/schedule/messages.h"

#include <algorithm>

namespace rannc::partition {

Messages::Messages(const ir::Dependencies& dependencies, const ScheduleCosts& costs, const SimulationOptions& options)
    : dependencies_(dependencies), costs_(costs), contention_(options.contention), grain_(options.grain) {
  const ir::PipelineShape& shape = dependencies.shape();
  if (options.skip_periods) unread_.resize(shape.devices);
  size_t pairs = 0;
  for (const ir::RouteShape& route : shape.routes) {
    first_pair_.push_back(pairs);
    pairs +=
        shape.stages[route.producer.index()].devices.size() + shape.stages[route.consumer.index()].devices.size() - 1;
  }
  activations_.assign(pairs * shape.micro_batch_count(), std::numeric_limits<double>::infinity());
  if (shape.training) gradients_ = activations_;
  if (!costs.link) return;
  forward_channels_.resize(pairs);
  backward_channels_.resize(pairs);
}

std::vector<Hold> Messages::resources(DeviceId from, DeviceId to) const {
  if (costs_.resources) return costs_.resources(from, to);
  return {{2 * from.index()}, {2 * to.index() + 1}};
}

double Messages::free_from(const std::vector<Hold>& holds, double time) {
  for (const Hold& hold : holds) {
    if (hold.resource >= ports_.size()) ports_.resize(hold.resource + 1);
    time = std::max(time, ports_[hold.resource].free);
  }
  return time;
}

double Messages::occupy(const std::vector<DeviceId>& members, double time, double duration) {
  std::vector<Hold> used;
  for (size_t i = 0; i < members.size(); ++i) {
    const std::vector<Hold> hop = resources(members[i], members[(i + 1) % members.size()]);
    used.insert(used.end(), hop.begin(), hop.end());
  }
  const double start = free_from(used, time);
  for (const Hold& hold : used) {
    Port& port = ports_[hold.resource];
    port.free = start + duration;
    ++port.uses;
  }
  return start;
}

double Messages::send(DeviceId from, const ir::Message& m, ir::ActionKind kind, uint32_t micro_batch, double time) {
  double arrival = time;
  if (costs_.link) {
    Channel& channel = (ir::is_activation(kind) ? forward_channels_ : backward_channels_)[pair(m)];
    if (channel.producer != m.producer) {
      channel.producer = m.producer;
      channel.cost = costs_.link(from, m.peer);
      if (contention_) channel.resources = resources(from, m.peer);
    }
    const int64_t bytes = m.samples.size() * dependencies_.shape().routes[m.route].bytes_per_sample;
    const double start = free_from(channel.resources, time);
    const double length = static_cast<double>(bytes) * channel.cost.per_byte;
    for (const Hold& hold : channel.resources) {
      Port& port = ports_[hold.resource];
      port.free = start + in_grains(length * hold.share, grain_);
      ++port.uses;
    }
    arrival = start + in_grains(length, grain_) + in_grains(channel.cost.latency, grain_);
  }
  hand_over(m, kind, micro_batch, arrival);
  return arrival;
}

void Messages::take(DeviceId device, const ir::Action& action) {
  if (unread_.empty()) return;
  auto& unread = unread_[device.index()];
  dependencies_.each_producer(device, action, [&](const ir::Message& m, const ir::Action& needed) {
    const bool activation = ir::is_forward(needed.kind);
    const auto at = std::find_if(unread.begin(), unread.end(), [&](const UnreadMessage& one) {
      return one.micro_batch == action.micro_batch && one.activation == activation && one.pair == pair(m);
    });
    if (at != unread.end()) unread.erase(at);
  });
}

void Messages::describe(Standing& standing) const {
  standing.unread = unread_;
  standing.ports = ports_;
}

void Messages::move_on(const Standing& earlier, const Period& period, uint64_t times) {
  const double later = static_cast<double>(times) * period.time;
  const int64_t shift = static_cast<int64_t>(times) * period.micro_batches;
  const size_t count = dependencies_.shape().micro_batch_count();
  for (auto& unread : unread_) {
    for (UnreadMessage& message : unread) {
      message.micro_batch = static_cast<uint32_t>(message.micro_batch + shift);
      message.arrival += later;
      (message.activation ? activations_ : gradients_)[message.pair * count + message.micro_batch] = message.arrival;
    }
  }
  for (size_t p = 0; p < ports_.size(); ++p) {
    if (p >= earlier.ports.size() || ports_[p].uses != earlier.ports[p].uses) ports_[p].free += later;
  }
}

}  // namespace rannc::partition
