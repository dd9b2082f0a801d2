// Formulas 3-5: T_PL(j, m, g) over the blocks planned and the devices in use.
#include "partition/stages/papers/dapple_search.h"

#include <algorithm>
#include <limits>

#include "partition/stages/search/plan_moves.h"

namespace rannc::partition {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
/// A stage at the end of a planned part, with the hop before it.
struct Prefix {
  uint32_t before = kNone;  ///< the prefix it extends
  uint32_t first = 0, end = 0;
  uint32_t group = kNone, set = 0;
  uint32_t stages = 0;
  LatencyStage hop, stage;
  double latency = kInfinity;  ///< if all free devices share the rest equally
};

class Search {
 public:
  Search(const StageProblem& problem, const RangeCosts& ranges, const DeviceSetGraph& graph, GroupLinks& links,
         const std::vector<uint32_t>& cuts, uint64_t micro_batches, const DappleSearchOptions& options)
      : problem_(problem),
        graph_(graph),
        links_(links),
        cuts_(cuts),
        options_(options),
        micro_batches_(micro_batches),
        samples_((problem.mini_batch + micro_batches - 1) / micro_batches),
        ranges_(ranges),
        prices_(problem, ranges, micro_batches, problem.cluster.size(), 1),
        depths_(problem.constraints.stages.value_or(0) + 1) {
    for (uint32_t set = 0; set < graph.sets(); ++set) rests_.push_back(priced(graph.rest(set)));
    for (uint32_t group = 0; group < graph.groups(); ++group) {
      const bool fits = graph.group(group).size() <= samples_;
      groups_.push_back(fits ? priced(graph.group(group)) : Priced());
    }
  }

  std::multimap<double, StagePlan> run() {
    times_.assign(1, compute(0, problem_.blocks, rests_[0]));
    consider(Prefix(), pipeline_latency(times_, micro_batches_, options_.credit));
    best_.resize((cuts_.size() + 1) * graph_.sets() * depths_);
    extend(Prefix(), kNone, 0);
    for (size_t at = 0; at < cuts_.size(); ++at) {
      for (size_t state = 0; state < graph_.sets() * depths_; ++state) {
        for (Prefix& prefix : best_[at * graph_.sets() * depths_ + state]) {
          const uint32_t id = static_cast<uint32_t>(arena_.size());
          arena_.push_back(prefix);
          extend(prefix, id, at + 1);
        }
      }
    }
    return std::move(found_);
  }

 private:
  /// Properties of a group that determine the time of a stage.
  struct Priced {
    uint32_t size = 0;
    size_t share = 0;
    uint64_t share_samples = 1;  ///< of the largest share
    std::vector<uint32_t> kinds;
    Link link;          ///< slowest inside
    double memory = 0;  ///< of the smallest device
  };

  /// Returns a group, or as many of its first devices as there are samples.
  Priced priced(const std::vector<DeviceId>& devices) const {
    Priced one;
    one.size = static_cast<uint32_t>(std::min<uint64_t>(devices.size(), samples_));
    if (one.size == 0) return one;
    const std::vector<DeviceId> some(devices.begin(), devices.begin() + one.size);
    one.share = prices_.share_of(one.size);
    one.share_samples = prices_.shares()[one.share].samples;
    one.memory = kInfinity;
    for (const DeviceId device : some) {
      const uint32_t kind = problem_.cluster.devices[device.index()].kind;
      if (std::find(one.kinds.begin(), one.kinds.end(), kind) == one.kinds.end()) one.kinds.push_back(kind);
      one.memory = std::min(one.memory, memory_of(problem_, device));
    }
    if (one.size > 1) one.link = problem_.cluster.slowest_link(some);
    return one;
  }

  LatencyStage compute(uint32_t first, uint32_t end, const Priced& on) const {
    LatencyStage time;
    for (const uint32_t kind : on.kinds) {
      time.forward = std::max(time.forward, prices_.forward(first, end, on.share, kind));
      time.backward = std::max(time.backward, prices_.backward(first, end, on.share, kind));
    }
    if (options_.recompute) time.backward += time.forward;
    if (on.size > 1) time.all_reduce = all_reduce_ns(ranges_.gradients(first, end), on.size, on.link);
    return time;
  }

  /// Time between two stages. Each sends or receives through as many links as the smaller of them has devices.
  LatencyStage hop(uint32_t first, uint32_t end, uint32_t senders, uint32_t receivers, const Link& link) const {
    const uint64_t fewer = std::min(senders, receivers);
    const double share = static_cast<double>((samples_ + fewer - 1) / fewer);
    return {link.transfer_ns(ranges_.received(first, end).at(share)),
            link.transfer_ns(ranges_.returned(first, end).at(share)), 0};
  }

  /// Assigns the blocks after `prefix` up to every cut from `at` on to a stage of their own.
  void extend(const Prefix& prefix, uint32_t id, size_t at) {
    const StageConstraints& given = problem_.constraints;
    if (prefix.stages + 2 > std::min(given.stages.value_or(kNone), given.max_stages.value_or(kNone))) return;
    head_.clear();
    for (const Prefix* one = &prefix; one->group != kNone; one = &arena_[one->before]) {
      head_.push_back(one->stage);
      if (one->before == kNone) break;
      head_.push_back(one->hop);
    }
    std::reverse(head_.begin(), head_.end());
    const double passed = head_.empty() ? 0 : head_.front().forward + head_.front().backward;
    const auto& demanded = given.replicas;
    for (const DeviceSetGraph::Pick& pick : graph_.picks(prefix.set)) {
      const Priced& on = groups_[pick.group];
      if (on.size == 0 || (prefix.stages < demanded.size() && demanded[prefix.stages] != on.size)) continue;
      extend_on(prefix, id, at, pick, passed);
    }
  }

  void extend_on(const Prefix& prefix, uint32_t id, size_t at, const DeviceSetGraph::Pick& pick, double passed) {
    const Priced &on = groups_[pick.group], &rest = rests_[pick.set];
    const bool first = prefix.group == kNone;
    const Link none{}, &inward = first ? none : links_.between(prefix.group, pick.group);
    const Link& onward = links_.to_rest(pick.group, pick.set);
    const double steady = static_cast<double>(micro_batches_ - 1);
    Prefix next{id, prefix.end, 0, pick.group, pick.set, prefix.stages + 1, {}, {}, 0};
    for (; at < cuts_.size(); ++at) {
      next.end = cuts_[at];
      if (ranges_.resident(next.first, next.end) > on.memory) break;
      next.stage = compute(next.first, next.end, on);
      // L is at least the steady phase of any stage plus the first stage once, for every pivot.
      if (passed + steady * (next.stage.forward + next.stage.backward) > worst_) break;
      times_ = head_;
      if (!first) {
        next.hop = hop(next.first, next.end, groups_[prefix.group].size, on.size, inward);
        if (passed + steady * (next.hop.forward + next.hop.backward) > worst_) continue;
        times_.push_back(next.hop);
      }
      times_.push_back(next.stage);
      times_.push_back(hop(next.end, problem_.blocks, on.size, rest.size, onward));
      times_.push_back(compute(next.end, problem_.blocks, rest));
      consider(next, pipeline_latency(times_, micro_batches_, options_.credit));
      // The rest can still be split, so it is not restricted to whole samples per device yet.
      const double part =
          static_cast<double>(samples_) / static_cast<double>(rest.share_samples * graph_.rest(pick.set).size());
      times_.back().forward *= part;
      times_.back().backward *= part;
      next.latency = pipeline_latency(times_, micro_batches_, options_.credit);
      keep(next, at);
    }
  }

  void keep(const Prefix& next, size_t at) {
    const size_t depth = depths_ > 1 ? std::min<size_t>(next.stages, depths_ - 1) : 0;
    auto& kept = best_[(at * graph_.sets() + next.set) * depths_ + depth];
    if (kept.size() == options_.prefixes && next.latency >= kept.back().latency) return;
    const auto place = std::upper_bound(kept.begin(), kept.end(), next.latency,
                                        [](double value, const Prefix& other) { return value < other.latency; });
    kept.insert(place, next);
    if (kept.size() > options_.prefixes) kept.pop_back();
  }

  /// Keeps the plan that ends with one stage on the rest if it is among the best that fit.
  void consider(const Prefix& last, double latency) {
    if (latency >= worst_) return;
    StagePlan plan;
    plan.micro_batches = micro_batches_;
    plan.schedule = "1f1b";
    std::vector<size_t> shares;
    const auto add = [&](uint32_t first, uint32_t end, const std::vector<DeviceId>& devices, const Priced& on) {
      PlannedStage& stage = plan.stages.emplace_back();
      stage.first = first;
      stage.end = end;
      stage.devices.assign(devices.begin(), devices.begin() + on.size);
      stage.recompute = options_.recompute;
      stage.peak_bytes =
          prices_.peak_bytes(first, end, on.share, options_.recompute, static_cast<uint32_t>(plan.stages.size()));
      return stage.peak_bytes <= on.memory;
    };
    // From the last stage to the first, as `peak_bytes` counts them.
    bool fits = add(last.end, problem_.blocks, graph_.rest(last.set), rests_[last.set]);
    for (const Prefix* one = &last; fits && one->group != kNone; one = &arena_[one->before]) {
      fits = add(one->first, one->end, graph_.group(one->group), groups_[one->group]);
      if (one->before == kNone) break;
    }
    if (!fits) return;
    std::reverse(plan.stages.begin(), plan.stages.end());
    if (!keeps_constraints(problem_, plan)) return;
    found_.emplace(latency, std::move(plan));
    if (found_.size() > options_.plans) found_.erase(std::prev(found_.end()));
    if (found_.size() == options_.plans) worst_ = found_.rbegin()->first;
  }

  const StageProblem& problem_;
  const DeviceSetGraph& graph_;
  GroupLinks& links_;
  const std::vector<uint32_t>& cuts_;
  const DappleSearchOptions& options_;
  uint64_t micro_batches_, samples_;
  const RangeCosts& ranges_;
  StagePrices prices_;
  size_t depths_;  ///< states are distinguished by their stages if the number of stages is demanded
  std::vector<Priced> groups_, rests_;
  std::vector<Prefix> arena_;              ///< prefixes that were extended
  std::vector<std::vector<Prefix>> best_;  ///< [(cut * sets + set) * depths + depth], by latency
  std::vector<LatencyStage> head_, times_;
  std::multimap<double, StagePlan> found_;
  double worst_ = kInfinity;  ///< a plan must stay below this
};

}  // namespace

const Link& GroupLinks::between(uint32_t from, uint32_t to) {
  const auto [entry, fresh] = pairs_.try_emplace({from, to});
  if (fresh) entry->second = slowest_link_between(cluster_, graph_.group(from), graph_.group(to));
  return entry->second;
}

const Link& GroupLinks::to_rest(uint32_t from, uint32_t set) {
  const auto [entry, fresh] = rests_.try_emplace({from, set});
  if (fresh) entry->second = slowest_link_between(cluster_, graph_.group(from), graph_.rest(set));
  return entry->second;
}

std::multimap<double, StagePlan> dapple_search(const StageProblem& problem, const RangeCosts& ranges,
                                               const DeviceSetGraph& graph, GroupLinks& links,
                                               const std::vector<uint32_t>& cuts, uint64_t micro_batches,
                                               const DappleSearchOptions& options) {
  return Search(problem, ranges, graph, links, cuts, micro_batches, options).run();
}

DappleCuts dapple_cuts(const StageProblem& problem, const RangeCosts& ranges, size_t most) {
  const TimeTable& table = problem.times[problem.cluster.devices.front().kind];
  std::vector<double> work(problem.blocks + 1, 0);
  for (uint32_t b = 0; b < problem.blocks; ++b) work[b + 1] = work[b] + table.forward[0][b] + table.backward[0][b];
  const auto cheaper = [&](uint32_t a, uint32_t b) { return ranges.sent(0, a).at(1) < ranges.sent(0, b).at(1); };
  std::vector<uint32_t> cuts;
  for (uint32_t cut = 1; cut < problem.blocks; ++cut) {
    if (!ranges.cut_allowed(cut)) continue;
    const bool empty = !cuts.empty() && work[cut] == work[cuts.back()] && ranges.parameters(cuts.back(), cut) == 0;
    if (!empty)
      cuts.push_back(cut);
    else if (cheaper(cut, cuts.back()))
      cuts.back() = cut;
  }
  if (cuts.size() <= most) return {std::move(cuts), 0};
  std::vector<uint32_t> best(most, 0), few;
  for (const uint32_t cut : cuts) {
    const double share = work.back() > 0 ? work[cut] / work.back() : static_cast<double>(cut) / problem.blocks;
    uint32_t& held = best[std::min(most - 1, static_cast<size_t>(share * static_cast<double>(most)))];
    if (held == 0 || cheaper(cut, held)) held = cut;
  }
  std::copy_if(best.begin(), best.end(), std::back_inserter(few), [](uint32_t cut) { return cut != 0; });
  return {few, cuts.size() - few.size()};
}

}  // namespace rannc::partition
