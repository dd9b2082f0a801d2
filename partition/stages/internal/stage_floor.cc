#include "partition/stages/internal/stage_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partition/stages/internal/cover.h"
#include "partition/transfers.h"

namespace rannc::partition {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint32_t kOneByOne = 16;      ///< replica counts up to here are told apart
constexpr double kReplicaStep = 1.125;  ///< beyond, those up to this factor apart count as one
constexpr double kSteps = 8e6;          ///< of a query, as far as counting devices in larger units can help

Link faster(const Link& a, const Link& b) {
  return {std::max(a.bytes_per_second, b.bytes_per_second), std::min(a.latency_ns, b.latency_ns)};
}

/// What prices need of a problem, for micro-batches of `samples`.
StageProblem timed(const StageProblem& problem, uint64_t samples, bool inputs_alone) {
  StageProblem part;
  part.blocks = problem.blocks;
  part.times = problem.times;
  part.mini_batch = samples;
  part.in_flight = InFlight::kOne;
  part.recompute = problem.recompute;
  for (TimeTable& table : part.times) {
    if (!inputs_alone || table.weight_gradient.empty()) continue;
    for (size_t i = 0; i < table.backward.size(); ++i) {
      for (size_t b = 0; b < table.backward[i].size(); ++b) table.backward[i][b] -= table.weight_gradient[i][b];
    }
  }
  return part;
}

double replica_counts(uint32_t devices) {
  return std::min<double>(devices,
                          kOneByOne + std::log(std::max(1.0, devices / double{kOneByOne})) / std::log(kReplicaStep));
}

/// Devices that count as one, so that a query stays within kSteps.
uint32_t device_unit(const StageProblem& problem) {
  const uint32_t devices = problem.cluster.size();
  const double ranges = 0.5 * problem.blocks * problem.blocks * replica_counts(devices);
  const double units = std::clamp(kSteps / ranges, 16.0, 256.0);
  return static_cast<uint32_t>(std::ceil(devices / units));
}

uint32_t devices_of(const StageProblem& problem) { return problem.cluster.size(); }

struct Pass {
  double forward = kInfinity, backward = kInfinity;
};

/// Each on the kind of device that is best at it.
Pass least(const StagePrices& prices, uint32_t a, uint32_t b, size_t share, size_t kinds) {
  Pass pass;
  for (uint32_t kind = 0; kind < kinds; ++kind) {
    pass.forward = std::min(pass.forward, prices.forward(a, b, share, kind));
    pass.backward = std::min(pass.backward, prices.backward(a, b, share, kind));
  }
  return pass;
}

/// The share of `replicas`, or the smallest there is.
size_t share_at(const StagePrices& prices, uint64_t replicas) {
  return std::min(prices.share_of(static_cast<uint32_t>(replicas)), prices.shares().size() - 1);
}

}  // namespace

double StageFloor::steps(const StageProblem& problem) {
  const uint32_t devices = problem.cluster.size();
  return 0.5 * problem.blocks * problem.blocks * replica_counts(devices) * std::ceil(devices / device_unit(problem));
}

BestLinks::BestLinks(const Cluster& cluster) {
  bool some = false, between = false;
  const auto take = [](Link& best, bool& first, const Link& link) {
    best = first ? faster(best, link) : link;
    first = true;
  };
  if (cluster.nodes.size() > 1) take(between_, between, cluster.between);
  for (const auto& [ends, link] : cluster.node_links) take(between_, between, link);
  for (const auto& [ends, link] : cluster.device_links) take(between_, between, link);
  if (between) take(any_, some, between_);
  for (const ClusterNode& node : cluster.nodes) {
    largest_node_ = std::max<uint64_t>(largest_node_, node.devices.size());
    if (node.devices.size() > 1) take(any_, some, node.inside);
  }
}

StageFloor::StageFloor(const StageProblem& problem, const RangeCosts& ranges, const BestLinks& links,
                       uint64_t micro_batches)
    : problem_(problem),
      ranges_(ranges),
      links_(links),
      micro_batches_(micro_batches),
      more_(problem.mini_batch % micro_batches),
      small_(timed(problem, problem.mini_batch / micro_batches, false), ranges, 1, devices_of(problem), 1),
      large_(timed(problem, problem.mini_batch / micro_batches + (more_ > 0), false), ranges, 1, devices_of(problem),
             1),
      inputs_(timed(problem, problem.mini_batch / micro_batches, true), ranges, 1, devices_of(problem), 1),
      joining_(problem.blocks),
      returning_(problem.blocks),
      follows_(problem.blocks, 0),
      returns_(problem.blocks, 0) {
  const uint32_t devices = problem.cluster.size(), k = problem.blocks;
  unit_ = device_unit(problem);
  units_ = (devices + unit_ - 1) / unit_;
  for (uint32_t d = 0; d < devices; ++d) memory_ = std::max(memory_, memory_of(problem, DeviceId(d)));
  for (const DeviceKind& kind : problem.cluster.kinds) rate_ = std::max(rate_, kind.bytes_per_second);
  for (const BlockValue& value : problem.values) {
    if (value.readers.empty() || value.readers.front() != value.producer + 1) continue;
    const uint32_t reader = value.readers.front();
    follows_[reader] = 1;
    returns_[reader] |= value.gradient;
    for (auto* bytes : {&joining_, &returning_}) {
      if (bytes == &returning_ && !value.gradient) continue;
      (*bytes)[reader].fixed += value.bytes;
      (*bytes)[reader].per_sample += value.bytes_per_sample;
    }
  }
  const uint64_t most = std::min<uint64_t>(devices, problem.mini_batch / micro_batches + (more_ > 0));
  for (uint32_t a = 0; a < k; ++a) {
    if (a > 0 && !ranges.cut_allowed(a)) continue;
    for (uint32_t b = a + 1; b <= k; ++b) {
      if (b < k && !ranges.cut_allowed(b)) continue;
      for (uint64_t from = 1, to; from <= most; from = to + 1) {
        to = from < kOneByOne ? from : std::min(most, static_cast<uint64_t>(static_cast<double>(from) * kReplicaStep));
        add(a, b, from, to);
      }
    }
  }
}

void StageFloor::add(uint32_t a, uint32_t b, uint64_t least_replicas, uint64_t most_replicas) {
  const size_t kinds = problem_.times.size();
  const size_t share = share_at(small_, most_replicas);
  Entry entry;
  entry.first = a;
  entry.end = b;
  entry.units = static_cast<uint32_t>(least_replicas / unit_);
  entry.bytes = kInfinity;
  for (const bool recompute : recompute_choices(problem_.recompute)) {
    entry.bytes = std::min(entry.bytes, small_.peak_bytes(a, b, share, recompute, 1));
  }
  if (entry.bytes > memory_) return;
  const Pass pass = least(small_, a, b, share, kinds), inputs = least(inputs_, a, b, share, kinds);
  const Pass larger = least(large_, a, b, share_at(large_, most_replicas), kinds);
  const double more = static_cast<double>(more_);
  const double count = static_cast<double>(micro_batches_), even = count - more;
  // A stage that holds one micro-batch at a time never recomputes: no price for it here.
  entry.forward = pass.forward;
  entry.backward = inputs.backward;
  entry.work = even * (pass.forward + pass.backward) + more * (larger.forward + larger.backward);
  entry.chain = count * (entry.forward + entry.backward);
  const double samples = static_cast<double>(small_.shares()[share].samples);
  const Link& link = links_.any();
  const double received = ranges_.received(a, b).at(samples), returned = ranges_.returned(a, b).at(samples);
  const double sent = ranges_.sent(a, b).at(samples);
  entry.there = link.transfer_ns(joining_[a].at(samples));
  entry.back = link.transfer_ns(returning_[a].at(samples));
  entry.port = count * received * 1e9 / link.bytes_per_second;
  entry.joined = count * joining_[a].at(samples) * 1e9 / link.bytes_per_second;
  entry.messages = count * (received + returned + sent) * 1e9 / link.bytes_per_second;
  const double parameters = ranges_.parameters(a, b);
  entry.tail = all_reduce_ns(parameters, least_replicas, links_.of_group(least_replicas)) +
               optimizer_pass_ns(parameters, problem_.optimizer_factor, rate_);
  entries_.push_back(entry);
}

bool StageFloor::within(const Entry& entry, const Limits& limits) const {
  if (entry.bytes > limits.memory_bytes) return false;
  switch (problem_.objective) {
    case Objective::kPeriod:
      return std::max(entry.work + entry.tail, entry.port) <= limits.time_ns;
    case Objective::kLargestLoad:
      return entry.work + entry.tail + entry.messages <= limits.time_ns;
    case Objective::kStepTime:
    case Objective::kPeakMemory:
      return true;
  }
  return true;
}

bool StageFloor::search(const Limits& limits, std::vector<uint32_t>* last) const {
  const bool step = problem_.objective == Objective::kStepTime;
  const double limit = step ? std::min(limits.time_ns, limits.step_ns) : limits.step_ns;
  const uint32_t k = problem_.blocks, columns = units_ + 1;
  // Least time before a stage at block a on all units so far: there and back, and there alone.
  std::vector<double> both(static_cast<size_t>(k + 1) * columns, kInfinity), there(both);
  both[0] = there[0] = 0;
  if (last != nullptr) last->assign(both.size(), UINT32_MAX);
  for (uint32_t e = 0; e < entries_.size(); ++e) {
    const Entry& entry = entries_[e];
    if (entry.work + entry.tail > limit || entry.port > limit || !within(entry, limits)) continue;
    const bool follows = entry.first > 0 && follows_[entry.first], returns = follows && returns_[entry.first];
    const double *from = both.data() + static_cast<size_t>(entry.first) * columns,
                 *from_there = there.data() + static_cast<size_t>(entry.first) * columns;
    double *to = both.data() + static_cast<size_t>(entry.end) * columns,
           *to_there = there.data() + static_cast<size_t>(entry.end) * columns;
    for (uint32_t d = 0; d + entry.units <= units_; ++d) {
      if (from[d] == kInfinity) continue;
      const double ahead = follows ? from_there[d] + entry.there : 0;
      const double around = returns ? from[d] + entry.there + entry.back : ahead;
      if (around + entry.chain > limit || ahead + entry.work + entry.tail > limit) continue;
      if (follows && from_there[d] + entry.joined + entry.forward + entry.backward > limit) continue;
      const uint32_t at = d + entry.units;
      const double passed = around + entry.forward + entry.backward;
      if (passed < to[at]) {
        to[at] = passed;
        if (last != nullptr) (*last)[static_cast<size_t>(entry.end) * columns + at] = e;
      }
      to_there[at] = std::min(to_there[at], ahead + entry.forward);
    }
  }
  const double* end = both.data() + static_cast<size_t>(k) * columns;
  return std::any_of(end, end + columns, [](double time) { return time < kInfinity; });
}

std::vector<StageOutline> StageFloor::stages(const Limits& limits) const {
  std::vector<uint32_t> last;
  if (!search(limits, &last)) return {};
  const uint32_t columns = units_ + 1;
  std::vector<StageOutline> stages;
  uint32_t block = problem_.blocks, units = 0;
  while (last[static_cast<size_t>(block) * columns + units] == UINT32_MAX) ++units;
  while (block > 0) {
    const Entry& entry = entries_[last[static_cast<size_t>(block) * columns + units]];
    stages.push_back({entry.first, entry.end, std::max(1u, entry.units * unit_)});
    block = entry.first;
    units -= entry.units;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

}  // namespace rannc::partition
