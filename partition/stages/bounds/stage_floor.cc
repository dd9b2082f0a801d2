// Runs two dynamic programs over (blocks, devices): from the end, the least time that a micro-batch is away after a
// block; from the start, the stages that can be reached in time.
//
// Cost of memory for a stage. Let M micro-batches pass a stage whose forward pass and input gradient take f and b, and
// let each be away for at least w between them: it must pass the later stages and come back.
//   1 A stage that repeats a share r of a forward pass spends r f on it. It need not if the backward pass directly
//     follows the forward pass in its row, but then nothing else runs in between. Each micro-batch costs
//     f + b + min(r f, w) or more.
//   2 A stage that holds at most h micro-batches at once has to fit micro-batch times of M * (f + w + b) into h slots.
//   3 Until its first input gradient starts, w after its first forward pass, it runs at most h forward passes. After
//     its last forward pass it runs at most h input gradients, the last of them w later. If M > h these periods are
//     disjoint, and between them lie (M - h) of each: 2 w + f + b + (M - h) (f + b) in total.
// h is the remaining memory divided by the bytes of a micro-batch in flight, so all three hold for every schedule,
// stage count and placement. A stage with a rebuild hull has a choice of r and h. Its points are relaxed to pairs of
// the least r and the largest h in each quarter of the shares. These times lie between the passes of earlier and of
// later stages, so they add to both.
//
// Cost of gradient sums. They run beside backward passes, but a gradient is final only in the last B or W of the stage
// on a device, and a sum begins once it is on all replicas. Consider the last replica, which has ⌈B / n⌉ samples of
// every micro-batch, so that none of its passes is empty. It begins its last B or W after `ahead`, after all its other
// passes, and after all that it repeats or waits for by 1, since an R precedes its B.
//   4 All passes but that one take `work` - β or more, where β is the largest backward time of one micro-batch among
//     those that `work` adds up. (Beside a W there is an I of the same micro-batch.) So a step takes
//     ahead + work + repeated - β + A + update or more, where A is the least time of all sums. It also takes
//     ahead + work + repeated + update or more.
//   5 Blocks are passed from the last to the first. Of the n sums of a block, the gradients of the first are final when
//     a part 1 / n of its backward pass is over, those of the last at its end. So all sums up to block i do not begin
//     before the last B or W has only the blocks before i and a part 1 - 1 / n of block i ahead of it, and the last sum
//     of block i not before it has only the blocks before i. By the same argument β may be these times if A is that of
//     these sums. Each block in β counts on the slowest kind, so that a slower device makes the rest of its B no
//     shorter than `work` has it.
// `tail` is the largest of these, max(0, A - β) + update. The gather of a sharded stage follows the update and is
// hidden by nothing. A pipeline that is always full hides sums completely, but they occupy the ports of its devices.
#include "partition/stages/bounds/stage_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rannc::partition {
namespace {

/// Position of a stage in time.
struct Place {
  double ahead = 0;   ///< least time before its first forward pass
  double around = 0;  ///< that and the least time after its last input gradient
  double away = 0;    ///< least time of a micro-batch in the stages behind it
  double limit = 0;   ///< of the step
};

/// Whether the stage meets the limit with this many slots if it repeats this share of its forward passes (see the start
/// of the file).
bool meets_with(const FloorEntry& entry, double count, double slots, double share, const Place& place) {
  if (slots == 0) return false;
  const double once = entry.forward + entry.backward;
  const double repeated = count * std::min(share * entry.forward, place.away);
  double chain = std::max(count * once + repeated, count * (once + place.away) / slots);
  if (count > slots) chain = std::max(chain, 2 * place.away + once + (count - slots) * once);
  return place.around + chain <= place.limit && place.ahead + entry.work + repeated + entry.tail <= place.limit;
}

}  // namespace

struct StageFloor::Query {
  Limits limits;
  double limit = 0;  ///< of the step
  double busy = 0;   ///< no stage works longer
  FloorEntries::Band band;
  BoundBudget& budget;
  std::vector<double> away;  ///< see `measure_away`
  Objective objective;
  double count = 0;     ///< micro-batches
  bool priced = true;   ///< whether memory is priced
  bool overlap = true;  ///< whether sums run beside backward passes

  bool meets(const FloorEntry& entry, const Place& place) const {
    if (!priced) return meets_with(entry, count, kInfinity, 0, place);
    if (meets_with(entry, count, entry.slots, 0, place)) return true;
    if (meets_with(entry, count, entry.repeated_slots, 1, place)) return true;
    return entry.trades != nullptr &&
           std::any_of(entry.trades->begin(), entry.trades->end(), [&](const FloorTrade& trade) {
             return meets_with(entry, count, trade.slots, trade.share, place);
           });
  }
  bool within(const FloorEntry& entry) const {
    if (entry.work + entry.tail > limit || entry.port > limit || entry.bytes > limits.memory_bytes) return false;
    const FloorEntry::Full& full = entry.full;
    const double work = full.work + entry.update;
    if (objective == Objective::kPeriod) {
      return std::max(work + (overlap ? 0 : entry.sums), full.port + (overlap ? entry.sums : 0)) <= limits.time_ns;
    }
    if (objective == Objective::kLargestLoad) return work + entry.sums + full.messages <= limits.time_ns;
    return true;
  }
};

StageFloor::StageFloor(const StageProblem& problem, const RangeCosts& ranges, const BestLinks& links,
                       uint64_t micro_batches, Recompute recompute)
    : problem_(problem), entries_(problem, ranges, links, micro_batches), recompute_(recompute) {}

void StageFloor::measure_away(Query& query) {
  const uint32_t k = problem_.blocks, units = entries_.units();
  query.away.assign(at(k, units) + 1, kInfinity);
  std::fill(query.away.begin() + static_cast<std::ptrdiff_t>(at(k, 0)), query.away.end(), 0);
  for (uint32_t a = k; a-- > 0;) {
    if (query.band.least[a] > query.band.most[a]) continue;
    const uint32_t fewest = units - query.band.most[a], most = units - query.band.least[a];
    double* here = query.away.data() + at(a, 0);
    const auto entries = entries_.from(a, query.busy, query.budget);
    if (!query.budget.take(entries.size() * (1 + most - fewest))) return;
    for (const FloorEntry& entry : entries) {
      if (!query.within(entry)) continue;
      const FloorEntries::Joint& joint = entries_.joint(a, entry.replicas);
      const double* behind = query.away.data() + at(entry.end, 0);
      for (uint32_t left = std::max<uint32_t>(fewest, entry.units); left <= most; ++left) {
        const double away = behind[left - entry.units];
        if (away == kInfinity || !query.meets(entry, {0, 0, away, query.limit})) continue;
        const double back = entry.forward + away + entry.backward + joint.both;
        here[left] = std::min(here[left], joint.returns ? back : 0);
      }
    }
    for (uint32_t left = fewest; left < most; ++left) here[left + 1] = std::min(here[left + 1], here[left]);
  }
}

bool StageFloor::search(const Limits& limits, BoundBudget& budget, std::vector<Step>* last) {
  Query query{limits,
              limits.step_ns,
              kInfinity,
              {},
              budget,
              {},
              problem_.objective,
              entries_.micro_batches(),
              recompute_ == Recompute::kPriced,
              problem_.overlap_sums};
  if (problem_.objective == Objective::kStepTime) query.limit = std::min(limits.time_ns, limits.step_ns);
  const bool peak = problem_.objective == Objective::kPeakMemory;
  query.busy = peak ? limits.step_ns : std::min(limits.time_ns, limits.step_ns);
  query.band = entries_.band(query.busy);
  const uint32_t k = problem_.blocks, units = entries_.units();
  measure_away(query);
  if (budget.spent()) return true;
  if (query.away[at(0, units)] == kInfinity) return false;
  // Least time before a stage at block a on all units so far: in both directions, and forward only.
  std::vector<double> both(query.away.size(), kInfinity), there(both);
  both[0] = there[0] = 0;
  if (last != nullptr) last->assign(both.size(), {});
  for (uint32_t a = 0; a < k; ++a) {
    if (query.band.least[a] > query.band.most[a]) continue;
    const double *from = both.data() + at(a, 0), *from_there = there.data() + at(a, 0);
    const auto entries = entries_.from(a, query.busy, budget);
    if (!budget.take(entries.size() * (1 + query.band.most[a] - query.band.least[a]))) return true;
    for (const FloorEntry& entry : entries) {
      if (!query.within(entry)) continue;
      const FloorEntries::Joint& joint = entries_.joint(a, entry.replicas);
      for (uint32_t d = query.band.least[a]; d <= query.band.most[a] && d + entry.units <= units; ++d) {
        const double away = query.away[at(entry.end, units - d - entry.units)];
        if (from[d] == kInfinity || away == kInfinity) continue;
        const double ahead = joint.follows ? from_there[d] + joint.there : 0;
        const double around = joint.returns ? from[d] + joint.there + joint.back : ahead;
        if (!query.meets(entry, {ahead, around, away, query.limit})) continue;
        if (joint.follows && from_there[d] + joint.joined + entry.forward + entry.backward > query.limit) continue;
        const size_t to = at(entry.end, d + entry.units);
        const double passed = around + entry.forward + entry.backward;
        if (passed < both[to]) {
          both[to] = passed;
          if (last != nullptr) (*last)[to] = {&entry, a};
        }
        there[to] = std::min(there[to], ahead + entry.forward);
      }
    }
  }
  return std::any_of(both.begin() + static_cast<std::ptrdiff_t>(at(k, 0)), both.end(),
                     [](double time) { return time < kInfinity; });
}

std::vector<StageOutline> StageFloor::stages(const Limits& limits, BoundBudget& budget) {
  std::vector<Step> last;
  if (!search(limits, budget, &last) || budget.spent()) return {};
  std::vector<StageOutline> stages;
  uint32_t block = problem_.blocks, units = 0;
  while (last[at(block, units)].entry == nullptr) ++units;
  while (block > 0) {
    const auto [entry, first] = last[at(block, units)];
    stages.push_back({first, block, std::max(1u, entry->units * entries_.unit())});
    block = first;
    units -= entry->units;
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

}  // namespace rannc::partition
