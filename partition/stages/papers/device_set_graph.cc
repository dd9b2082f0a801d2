#include "partition/stages/papers/device_set_graph.h"

#include <algorithm>
#include <limits>
#include <map>

#include "partition/stages/papers/device_sets.h"

namespace rannc::partition {
namespace {

std::vector<DeviceId> free_of(const std::vector<char>& used) {
  std::vector<DeviceId> rest;
  for (uint32_t d = 0; d < used.size(); ++d) {
    if (!used[d]) rest.push_back(DeviceId(d));
  }
  return rest;
}

}  // namespace

DeviceSetGraph::DeviceSetGraph(const Cluster& cluster, size_t most_picks) {
  for (const Offer offer : {Offer::kAll, Offer::kRoundLater, Offer::kRound, Offer::kFresh}) {
    all_counts_ = offer == Offer::kAll;
    if (build(cluster, offer, offer == Offer::kFresh ? std::numeric_limits<size_t>::max() : most_picks)) return;
  }
}

bool DeviceSetGraph::build(const Cluster& cluster, Offer offer, size_t most_picks) {
  const uint32_t per_node = static_cast<uint32_t>(cluster.nodes.front().devices.size());
  const auto offered = [&](uint32_t count, size_t free, bool first) {
    if (offer == Offer::kAll || (offer == Offer::kRoundLater && first) || free - count <= 2) return true;
    return (count & (count - 1)) == 0 || (per_node > 1 && count % per_node == 0);
  };
  std::vector<DevicePolicy> policies{DevicePolicy::kFreshFirst, DevicePolicy::kAppendFirst,
                                     DevicePolicy::kScatterFirst};
  if (offer == Offer::kFresh) policies.resize(1);
  picks_.clear();
  rest_.clear();
  groups_.clear();
  all_picks_ = 0;
  std::map<std::vector<char>, uint32_t> known;
  std::map<std::vector<DeviceId>, uint32_t> groups;
  std::vector<std::vector<char>> sets{std::vector<char>(cluster.size(), 0)};
  known[sets[0]] = 0;
  for (uint32_t set = 0; set < sets.size(); ++set) {
    rest_.push_back(free_of(sets[set]));
    picks_.emplace_back();
    const size_t free = rest_.back().size();
    for (uint32_t count = 1; count < free; ++count) {
      if (!offered(count, free, set == 0)) continue;
      for (const DevicePolicy policy : policies) {
        const std::vector<DeviceId> devices = pick_devices(cluster, sets[set], count, policy);
        const uint32_t group = groups.try_emplace(devices, static_cast<uint32_t>(groups.size())).first->second;
        if (group == groups_.size()) groups_.push_back(devices);
        std::vector<char> used = sets[set];
        for (const DeviceId device : devices) used[device.index()] = 1;
        const auto [entry, fresh] = known.try_emplace(used, static_cast<uint32_t>(sets.size()));
        if (fresh) sets.push_back(std::move(used));
        const bool again =
            std::any_of(picks_[set].begin(), picks_[set].end(), [&](const Pick& pick) { return pick.group == group; });
        if (!again) picks_[set].push_back({group, entry->second});
      }
    }
    all_picks_ += picks_.back().size();
    if (all_picks_ > most_picks) return false;
  }
  return true;
}

Link slowest_link_between(const Cluster& cluster, const std::vector<DeviceId>& a, const std::vector<DeviceId>& b) {
  Link slowest{std::numeric_limits<double>::infinity(), 0};
  const auto join = [&](const Link& link) {
    slowest.bytes_per_second = std::min(slowest.bytes_per_second, link.bytes_per_second);
    slowest.latency_ns = std::max(slowest.latency_ns, link.latency_ns);
  };
  if (!cluster.node_links.empty() || !cluster.device_links.empty()) {
    for (const DeviceId x : a) {
      for (const DeviceId y : b) join(cluster.link(x, y));
    }
    return slowest;
  }
  const auto node = [&](DeviceId device) { return cluster.devices[device.index()].node.index(); };
  const auto several = [&](const auto& set) { return node(set.front()) != node(set.back()); };
  if (several(a) || several(b) || node(a.front()) != node(b.front())) join(cluster.between);
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {  // both ascend, so do their nodes
    if (node(a[i]) == node(b[j]))
      join(cluster.nodes[node(a[i++])].inside);
    else if (node(a[i]) < node(b[j]))
      ++i;
    else
      ++j;
  }
  return slowest;
}

}  // namespace rannc::partition
