#include "partition/stages/papers/device_sets.h"

#include <algorithm>

namespace rannc::partition {
namespace {

/// Free devices of each machine, ascending.
struct Machine {
  std::vector<DeviceId> free;
  bool fresh = true;
};

std::vector<Machine> machines_of(const Cluster& cluster, const std::vector<char>& used) {
  std::vector<Machine> machines(cluster.nodes.size());
  for (size_t n = 0; n < machines.size(); ++n) {
    for (const DeviceId device : cluster.nodes[n].devices) {
      if (used[device.index()])
        machines[n].fresh = false;
      else
        machines[n].free.push_back(device);
    }
  }
  return machines;
}

/// Takes from the machines one after the other.
void fill(const std::vector<const Machine*>& machines, uint32_t count, std::vector<DeviceId>& picked) {
  for (const Machine* machine : machines) {
    for (const DeviceId device : machine->free) {
      if (picked.size() == count) return;
      picked.push_back(device);
    }
  }
}

/// Takes one from each machine in turn.
void deal(const std::vector<const Machine*>& machines, uint32_t count, std::vector<DeviceId>& picked) {
  for (size_t round = 0; picked.size() < count; ++round) {
    const size_t before = picked.size();
    for (const Machine* machine : machines) {
      if (round < machine->free.size() && picked.size() < count) picked.push_back(machine->free[round]);
    }
    if (picked.size() == before) return;
  }
}

}  // namespace

std::vector<DeviceId> pick_devices(const Cluster& cluster, const std::vector<char>& used, uint32_t count,
                                   DevicePolicy policy) {
  const std::vector<Machine> machines = machines_of(cluster, used);
  std::vector<const Machine*> fresh, begun, all;
  for (const Machine& machine : machines) {
    (machine.fresh ? fresh : begun).push_back(&machine);
    all.push_back(&machine);
  }
  std::vector<DeviceId> picked;
  switch (policy) {
    case DevicePolicy::kFreshFirst:
      fill(fresh, count, picked);
      fill(begun, count, picked);
      break;
    case DevicePolicy::kAppendFirst:
      fill(begun, count, picked);
      fill(fresh, count, picked);
      break;
    case DevicePolicy::kScatterFirst:
      deal(begun.empty() ? all : begun, count, picked);
      if (!begun.empty()) deal(fresh, count, picked);
      break;
  }
  if (picked.size() < count) return {};
  std::sort(picked.begin(), picked.end());
  return picked;
}

}  // namespace rannc::partition
