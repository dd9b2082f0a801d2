#include "partition/stages/pricing/stage_ways.h"

#include <algorithm>
#include <utility>

#include "ir/schedule/schedule.h"
#include "partition/transfers.h"

namespace rannc::partition {

StageWays::StageWays(const Cluster& cluster) : cluster_(cluster), busy_(port_count(cluster), 0) {}

void StageWays::occupy(DeviceId from, DeviceId to, double time) {
  each_port(cluster_, from, to, [&](uint32_t port) {
    if (busy_[port] == 0) used_.push_back(port);
    busy_[port] += time;
  });
}

StageWay StageWays::between(StageId from, const std::vector<DeviceId>& senders, StageId to,
                            const std::vector<DeviceId>& receivers, uint64_t samples, size_t stages) {
  StageWay way;
  const auto count = static_cast<int64_t>(samples);
  for (size_t i = 0, j = 0; i < senders.size() && j < receivers.size();) {
    const ir::SampleRange sent = ir::replica_samples(count, i, senders.size());
    const ir::SampleRange read = ir::replica_samples(count, j, receivers.size());
    const int64_t shared = std::min(sent.last, read.last) - std::max(sent.first, read.first);
    if (shared > 0) {
      const Link& link = cluster_.link(senders[i], receivers[j]);
      way.cost.latency = std::max(way.cost.latency, link.latency_ns);
      occupy(senders[i], receivers[j], static_cast<double>(shared) * 1e9 / link.bytes_per_second);
    }
    const bool next_sender = sent.last <= read.last, next_reader = read.last <= sent.last;
    i += next_sender;
    j += next_reader;
  }
  double longest = 0, out = 0, in = 0;
  const uint32_t own = 2 * cluster_.size(), first = static_cast<uint32_t>(2 * stages);
  for (const uint32_t port : used_) {
    const double time = std::exchange(busy_[port], 0);
    longest = std::max(longest, time);
    double& side = port % 2 == 0 ? out : in;
    if (port < own)
      side = std::max(side, time);
    else
      way.holds.push_back({first + port - own, time});
  }
  used_.clear();
  way.holds.push_back({2 * from.index(), out});
  way.holds.push_back({2 * to.index() + 1, in});
  for (Hold& hold : way.holds) hold.share = longest > 0 ? hold.share / longest : 1;
  way.cost.per_byte = longest / static_cast<double>(samples);
  return way;
}

}  // namespace rannc::partition
