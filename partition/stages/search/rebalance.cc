#include "partition/stages/search/rebalance.h"

#include <algorithm>
#include <limits>

namespace rannc::partition {
namespace {

constexpr double kRoom = 1.01;            ///< multiple of the least largest load, for the second pass
constexpr uint64_t kMostStates = 20'000;  ///< blocks * stages

}  // namespace

bool other_devices(const StagePlan& a, const StagePlan& b) {
  return !std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                     [](const auto& one, const auto& other) { return one.devices.size() == other.devices.size(); });
}

/// Parameters of a stage's load besides its blocks.
struct Rebalancer::Place {
  const StagePrices* prices = nullptr;
  size_t share = 0;
  uint64_t micro_batches = 1, replicas = 1;
  std::vector<uint32_t> kinds;
  Link inside, inward;  ///< among the replicas, and from the stage before
  bool recompute = false;
};

const StagePrices& Rebalancer::prices(uint64_t micro_batches) {
  return prices_.try_emplace(micro_batches, problem_, ranges_, micro_batches, problem_.cluster.size(), 1).first->second;
}

Rebalancer::Place Rebalancer::place_of(const StagePlan& plan, size_t s) {
  const PlannedStage& stage = plan.stages[s];
  Place place;
  place.prices = &prices(plan.micro_batches);
  place.replicas = stage.devices.size();
  place.share = place.prices->share_of(static_cast<uint32_t>(place.replicas));
  place.micro_batches = plan.micro_batches;
  place.recompute = stage.recompute;
  for (const DeviceId device : stage.devices) place.kinds.push_back(problem_.cluster.devices[device.index()].kind);
  std::sort(place.kinds.begin(), place.kinds.end());
  place.kinds.erase(std::unique(place.kinds.begin(), place.kinds.end()), place.kinds.end());
  std::vector<DeviceId> members = stage.devices;
  std::sort(members.begin(), members.end());
  if (members.size() > 1) place.inside = problem_.cluster.slowest_link(members);
  const bool stays = s > 0 && plan.stages[s - 1].devices == stage.devices;
  if (stays) place.inward = {kInfinity, 0};
  if (s > 0 && !stays) place.inward = problem_.cluster.link(plan.stages[s - 1].devices.back(), stage.devices.front());
  return place;
}

double Rebalancer::work(const Place& place, uint32_t first, uint32_t end) const {
  double once = 0, last = 0;
  for (const uint32_t kind : place.kinds) {
    const double forward = place.prices->forward(first, end, place.share, kind);
    const double backward = place.prices->backward(first, end, place.share, kind);
    once = std::max(once, backward + forward * (place.recompute ? 2 : 1));
    last = std::max(last, backward);
  }
  const double all = once * static_cast<double>(place.micro_batches);
  if (place.replicas < 2) return all;
  const double sums = all_reduce_ns(ranges_.gradients(first, end), place.replicas, place.inside);
  return all + std::max(0.0, problem_.overlap_sums ? sums - last : sums);
}

double Rebalancer::messages(const Place& place, uint32_t first, uint32_t end) const {
  if (first == 0) return 0;
  const double samples = static_cast<double>(place.prices->shares()[place.share].samples);
  return ranges_.received(first, end).at(samples) * 1e9 / place.inward.bytes_per_second *
         static_cast<double>(place.micro_batches);
}

/// Adds one stage after each way of cutting the blocks so far. `least[b]` is the best largest load of the stages that
/// hold the blocks before b. Returns where that stage then begins. Within a limit on loads `least` is the least sum of
/// their squares instead.
std::vector<uint32_t> Rebalancer::extend(const Place& place, uint32_t s, uint32_t left, double limit,
                                         std::vector<double>& least) const {
  const uint32_t blocks = problem_.blocks;
  std::vector<double> next(blocks + 1, kInfinity);
  std::vector<uint32_t> from(blocks + 1, 0);
  const bool bounded = limit < kInfinity;
  for (uint32_t end = left == 0 ? blocks : s + 1; end + left <= blocks; ++end) {
    if (end < blocks && !ranges_.cut_allowed(end)) continue;
    for (uint32_t first = end; first-- > s;) {
      const double own = work(place, first, end);
      if (own >= (bounded ? limit : next[end])) break;  // more blocks take no less
      if (least[first] == kInfinity || !ranges_.stage_allowed(first, end, left + 1)) continue;
      const double in = messages(place, first, end);
      if (in > limit) continue;
      const double value = bounded ? least[first] + own * own + in * in : std::max({least[first], own, in});
      if (value >= next[end]) continue;
      next[end] = value;
      from[end] = first;
    }
  }
  least.swap(next);
  return from;
}

StagePlan Rebalancer::balanced(const StagePlan& plan) {
  const size_t stages = plan.stages.size();
  if (stages < 2 || stages > problem_.blocks || stages * problem_.blocks > kMostStates) return plan;
  std::vector<Place> places;
  for (size_t s = 0; s < stages; ++s) {
    places.push_back(place_of(plan, s));
    if (places.back().share == places.back().prices->shares().size()) return plan;
  }
  double limit = kInfinity;
  std::vector<std::vector<uint32_t>> from;
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<double> least(problem_.blocks + 1, kInfinity);
    least[0] = 0;
    from.clear();
    for (uint32_t s = 0; s < stages; ++s) {
      from.push_back(extend(places[s], s, static_cast<uint32_t>(stages) - s - 1, limit, least));
    }
    if (least.back() == kInfinity) return plan;
    limit = least.back() * kRoom;
  }
  StagePlan moved = plan;
  for (uint32_t s = static_cast<uint32_t>(stages), end = problem_.blocks; s-- > 0; end = from[s][end]) {
    moved.stages[s].end = end;
    moved.stages[s].first = from[s][end];
  }
  return moved;
}

StagePlan Rebalancer::arranged(StageLayout layout, uint32_t stages, const std::vector<uint32_t>& replicas,
                               uint64_t micro_batches) {
  StagePlan plan;
  plan.micro_batches = micro_batches;
  const auto ranks = static_cast<uint32_t>(replicas.size());
  uint32_t device = 0;
  for (uint32_t s = 0; s < stages; ++s) {
    PlannedStage stage;
    stage.first = s;
    stage.end = s + 1 == stages ? problem_.blocks : s + 1;
    stage.recompute = problem_.recompute == RecomputeRule::kAlways;
    for (uint32_t r = 0; s < ranks && r < replicas[s]; ++r) stage.devices.push_back(DeviceId(device++));
    if (s >= ranks) stage.devices = plan.stages[rank_of(layout, ranks, s)].devices;
    plan.stages.push_back(std::move(stage));
  }
  return balanced(plan);
}

}  // namespace rannc::partition
