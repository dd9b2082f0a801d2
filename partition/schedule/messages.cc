/// Prices the messages of a simulated schedule.
#include "partition/schedule/messages.h"

#include <algorithm>

namespace rannc::partition {

Messages::Messages(const ir::Dependencies& dependencies, const ScheduleCosts& costs, bool contention)
    : dependencies_(dependencies), costs_(costs), contention_(contention) {
  const ir::PipelineShape& shape = dependencies.shape();
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

double Messages::send(DeviceId from, const ir::Message& m, ir::ActionKind kind, uint32_t micro_batch, double time) {
  double arrival = time;
  if (costs_.link) {
    Channel& channel = (is_activation(kind) ? forward_channels_ : backward_channels_)[pair(m)];
    if (channel.producer != m.producer) {
      channel.producer = m.producer;
      channel.cost = costs_.link(from, m.peer);
      if (contention_) {
        channel.resources = costs_.resources ? costs_.resources(from, m.peer)
                                             : std::vector<uint32_t>{2 * from.index(), 2 * m.peer.index() + 1};
      }
    }
    const int64_t bytes = m.samples.size() * dependencies_.shape().routes[m.route].bytes_per_sample;
    double start = time;
    for (uint32_t resource : channel.resources) {
      if (resource >= free_.size()) free_.resize(resource + 1, 0);
      start = std::max(start, free_[resource]);
    }
    const double sent = start + static_cast<double>(bytes) * channel.cost.per_byte;
    for (uint32_t resource : channel.resources) free_[resource] = sent;
    arrival = sent + channel.cost.latency;
  }
  hand_over(m, kind, micro_batch, arrival);
  return arrival;
}

}  // namespace rannc::partition
