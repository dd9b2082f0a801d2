#include "partition/stages/dapple.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "partition/stages/device_sets.h"
#include "partition/stages/internal/finish.h"
#include "partition/stages/internal/plan_moves.h"
#include "partition/stages/judge.h"

namespace rannc::partition {

size_t pivot_stage(const std::vector<LatencyStage>& stages, uint64_t micro_batches) {
  const double steady = static_cast<double>(micro_batches - 1);
  size_t pivot = stages.size() - 1;
  double between = 0;  // stages after s and before the pivot
  for (size_t s = pivot; s-- > 0;) {
    const double here = stages[s].forward + stages[s].backward;
    const double there = stages[pivot].forward + stages[pivot].backward;
    if (steady * here > steady * there + between) {
      pivot = s;
      between = 0;
    } else {
      between += here;
    }
  }
  return pivot;
}

double pipeline_latency(const std::vector<LatencyStage>& stages, uint64_t micro_batches) {
  const size_t pivot = pivot_stage(stages, micro_batches);
  double warm_up = 0;
  for (size_t s = 0; s <= pivot; ++s) warm_up += stages[s].forward;
  const double steady = static_cast<double>(micro_batches - 1) * (stages[pivot].forward + stages[pivot].backward);
  double ending = 0, rest = 0;
  for (size_t s = pivot + 1; s-- > 0;) {
    rest += stages[s].backward;
    ending = std::max(ending, stages[s].all_reduce + rest);
  }
  double credit = stages[pivot].backward;
  for (size_t s = pivot + 1; s < stages.size(); ++s) {
    credit += stages[s].backward;
    ending = std::max(ending, stages[s].all_reduce - credit);
  }
  return warm_up + steady + ending;
}

namespace {

constexpr size_t kBeam = 2;    ///< prefixes kept per (blocks, devices)
constexpr size_t kCuts = 48;   ///< cuts tried on longer chains
constexpr size_t kPlans = 128;  ///< plans kept per micro-batch count

/// Planned stages for the first blocks; hops lie between them.
struct Prefix {
  std::vector<PlannedStage> stages;
  std::vector<LatencyStage> times;  ///< computations and hops
  std::vector<char> used;
  double latency = 0;               ///< with all the rest as one stage on all free devices
};

class DappleSearch {
 public:
  DappleSearch(const StageProblem& problem, const RangeCosts& ranges, uint64_t micro_batches)
      : problem_(problem), ranges_(ranges), micro_batches_(micro_batches),
        samples_((problem.mini_batch + micro_batches - 1) / micro_batches) {
    const uint32_t devices = problem.cluster.size();
    const uint32_t per_node = static_cast<uint32_t>(problem.cluster.nodes.front().devices.size());
    for (uint32_t m = 1; m <= devices; ++m) {
      const bool round = (m & (m - 1)) == 0 || (per_node > 1 && m % per_node == 0);
      if (round) counts_.push_back(m);
    }
  }

  /// Cuts to try: all, or on long chains the cheapest to send across in each of `kCuts` equal parts of the work.
  static std::vector<char> cuts_of(const StageProblem& problem, const RangeCosts& ranges, const std::vector<double>& work) {
    std::vector<char> open(problem.blocks + 1, 0);
    std::vector<uint32_t> best(kCuts, 0);
    for (uint32_t cut = 1; cut < problem.blocks; ++cut) {
      if (!ranges.cut_allowed(cut)) continue;
      if (problem.blocks <= kCuts + 1) {
        open[cut] = 1;
        continue;
      }
      const double share = work.back() > 0 ? work[cut] / work.back() : 0;
      uint32_t& held = best[std::min<size_t>(kCuts - 1, static_cast<size_t>(share * kCuts))];
      if (held == 0 || ranges.sent(0, cut).at(1) < ranges.sent(0, held).at(1)) held = cut;
    }
    for (const uint32_t cut : best) {
      if (cut != 0) open[cut] = 1;
    }
    return open;
  }

  /// The best plans in order of L.
  std::multimap<double, StagePlan> run() {
    Prefix none;
    none.used.assign(problem_.cluster.size(), 0);
    const std::vector<DeviceId> all = free_devices(none.used);
    times_.clear();
    if (append_times(0, problem_.blocks, all, nullptr)) {
      record(pipeline_latency(times_, micro_batches_), none, {}, all);
    }
    const Sums& work = sums(problem_.cluster.devices.front().kind, samples_);
    std::vector<double> total(work.first);
    for (size_t b = 0; b < total.size(); ++b) total[b] += work.second[b];
    open_ = cuts_of(problem_, ranges_, total);
    layers_.resize(problem_.blocks);
    layers_[0][none.used].push_back(none);
    for (uint32_t j = 0; j < problem_.blocks; ++j) {
      for (const auto& [used, prefixes] : layers_[j]) {
        for (const Prefix& prefix : prefixes) extend(j, prefix);
      }
      layers_[j].clear();
    }
    return std::move(plans_);
  }

 private:
  void extend(uint32_t j, const Prefix& prefix) {
    const size_t free = static_cast<size_t>(std::count(prefix.used.begin(), prefix.used.end(), 0));
    const bool first = prefix.stages.empty();
    for (uint32_t m = 1; m < free && m <= samples_; ++m) {  // the last stage needs one
      if (!first && free - m > 2 && !std::binary_search(counts_.begin(), counts_.end(), m)) continue;
      std::vector<std::vector<DeviceId>> sets;
      for (const DevicePolicy policy :
           {DevicePolicy::kFreshFirst, DevicePolicy::kAppendFirst, DevicePolicy::kScatterFirst}) {
        auto set = pick_devices(problem_.cluster, prefix.used, m, policy);
        if (!set.empty() && std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(std::move(set));
      }
      for (const auto& set : sets) {
        std::vector<char> used = prefix.used;
        for (const DeviceId device : set) used[device.index()] = 1;
        const std::vector<DeviceId> rest = free_devices(used);
        for (uint32_t end = j + 1; end < problem_.blocks; ++end) {
          if (open_[end]) add(j, end, set, prefix, layers_[end][used], rest);
        }
      }
    }
  }

  /// Prices the prefix with one more stage; keeps it if it is among the few best for its blocks and devices.
  void add(uint32_t first, uint32_t end, const std::vector<DeviceId>& devices, const Prefix& before,
           std::vector<Prefix>& kept, const std::vector<DeviceId>& rest) {
    times_ = before.times;
    if (!append_times(first, end, devices, before.stages.empty() ? nullptr : &before.stages.back().devices)) return;
    const size_t planned = times_.size();
    // The rest may be too large for its devices as one stage; it can still be parted.
    const bool whole = append_times(end, problem_.blocks, rest, &devices);
    const double latency = pipeline_latency(times_, micro_batches_);
    if (whole) record(latency, before, {first, end, devices}, rest);
    const auto place = std::upper_bound(kept.begin(), kept.end(), latency,
                                        [](double value, const Prefix& other) { return value < other.latency; });
    if (place == kept.end() && kept.size() == kBeam) return;
    Prefix next = before;
    next.times.assign(times_.begin(), times_.begin() + static_cast<std::ptrdiff_t>(planned));
    next.stages.push_back({first, end, devices});
    next.latency = latency;
    for (const DeviceId device : devices) next.used[device.index()] = 1;
    kept.insert(place, std::move(next));
    if (kept.size() > kBeam) kept.pop_back();
  }

  /// Adds a stage and the hop before it to `times_`; false: it can never fit memory.
  bool append_times(uint32_t first, uint32_t end, const std::vector<DeviceId>& devices,
                    const std::vector<DeviceId>* before) {
    for (const DeviceId device : devices) {
      if (ranges_.resident(first, end) > memory_of(problem_, device)) return false;
    }
    if (before != nullptr) {
      const Link& link = problem_.cluster.link(before->back(), devices.front());
      const size_t fewer = std::min(before->size(), devices.size());
      const double share = static_cast<double>((samples_ + fewer - 1) / fewer);
      times_.push_back({link.transfer_ns(ranges_.received(first, end).at(share)),
                        link.transfer_ns(ranges_.returned(first, end).at(share)), 0});
    }
    times_.push_back(compute(first, end, devices));
    return true;
  }

  LatencyStage compute(uint32_t first, uint32_t end, const std::vector<DeviceId>& devices) {
    const Group& group = group_of(devices);
    LatencyStage time;
    for (const Sums* sums : group.sums) {
      time.forward = std::max(time.forward, sums->first[end] - sums->first[first]);
      time.backward = std::max(time.backward, sums->second[end] - sums->second[first]);
    }
    if (problem_.recompute == RecomputeRule::kAlways) time.backward += time.forward;
    if (devices.size() > 1) time.all_reduce = all_reduce_ns(ranges_.parameters(first, end), devices.size(), group.link);
    return time;
  }

  using Sums = std::pair<std::vector<double>, std::vector<double>>;

  /// What the price of a stage on a device set depends on.
  struct Group {
    std::vector<const Sums*> sums;  ///< of the kinds among its devices, at their share
    Link link;                      ///< slowest among its devices
  };

  const Group& group_of(const std::vector<DeviceId>& devices) {
    const auto [entry, fresh] = groups_.try_emplace(devices);
    if (!fresh) return entry->second;
    const uint64_t share = (samples_ + devices.size() - 1) / devices.size();
    std::vector<char> seen(problem_.times.size(), 0);
    for (const DeviceId device : devices) {
      const uint32_t kind = problem_.cluster.devices[device.index()].kind;
      if (!seen[kind]++) entry->second.sums.push_back(&sums(kind, share));
    }
    if (devices.size() > 1) entry->second.link = problem_.cluster.slowest_link(devices);
    return entry->second;
  }

  const Sums& sums(uint32_t kind, uint64_t share) {
    const auto [entry, fresh] = sums_.try_emplace({kind, share});
    if (fresh) {
      const TimeTable& table = problem_.times[kind];
      const TimeTable::Blend blend = table.blend(share);
      auto& [forward, backward] = entry->second;
      forward.assign(1, 0);
      backward.assign(1, 0);
      for (uint32_t b = 0; b < problem_.blocks; ++b) {
        const auto at = [&](const auto& rows) { return blend.low_weight * rows[blend.low][b] + blend.high_weight * rows[blend.high][b]; };
        forward.push_back(forward.back() + at(table.forward));
        backward.push_back(backward.back() + at(table.backward));
      }
    }
    return entry->second;
  }

  /// Remembers a whole plan when it is among the best so far.
  void record(double latency, const Prefix& before, const PlannedStage& stage, const std::vector<DeviceId>& rest) {
    if (plans_.size() >= kPlans && latency >= plans_.rbegin()->first) return;
    StagePlan plan;
    plan.micro_batches = micro_batches_;
    plan.schedule = "1f1b";
    plan.stages = before.stages;
    if (stage.end > stage.first) plan.stages.push_back(stage);
    plan.stages.push_back({plan.stages.empty() ? 0 : plan.stages.back().end, problem_.blocks, rest});
    for (PlannedStage& each : plan.stages) each.recompute = problem_.recompute == RecomputeRule::kAlways;
    plans_.emplace(latency, std::move(plan));
    if (plans_.size() > kPlans) plans_.erase(std::prev(plans_.end()));
  }

  /// All free devices, as many as there are samples.
  std::vector<DeviceId> free_devices(const std::vector<char>& used) const {
    std::vector<DeviceId> rest;
    for (uint32_t d = 0; d < used.size() && rest.size() < samples_; ++d) {
      if (!used[d]) rest.push_back(DeviceId(d));
    }
    return rest;
  }

  const StageProblem& problem_;
  const RangeCosts& ranges_;
  uint64_t micro_batches_, samples_;
  std::vector<uint32_t> counts_;  ///< what a stage behind the first asks for, beside all but one or two
  std::vector<std::map<std::vector<char>, std::vector<Prefix>>> layers_;
  std::vector<char> open_;  ///< per cut: whether it is tried
  std::vector<LatencyStage> times_;
  std::multimap<double, StagePlan> plans_;
  std::map<std::pair<uint32_t, uint64_t>, Sums> sums_;
  std::map<std::vector<DeviceId>, Group> groups_;
};

class DapplePlanner final : public StagePlanner {
 public:
  std::string name() const override { return "dapple"; }

 private:
  StageOutcome search(const StageProblem& problem, std::stop_token /*stop*/) const override {
    if (problem.blocks > 128 || problem.cluster.size() > 64) {
      return Infeasible{"the search over device sets takes at most 128 blocks and 64 devices", 0, "planner rannc or auto"};
    }
    PlanJudge judge(problem);
    std::optional<StagePlan> best;
    double best_latency = 0;
    std::string why = "no plan keeps the constraints";
    for (const uint64_t micro_batches : micro_batch_candidates(problem)) {
      // L rises with bubbles that it leaves out where micro-batches are few: plans of different counts are compared by
      // simulation, plans of one count by L.
      for (auto& [latency, plan] : DappleSearch(problem, judge.ranges(), micro_batches).run()) {
        if (!keeps_constraints(problem, plan) || !judge.judge(plan, &why)) continue;
        if (!best || plan.objective < best->objective) {
          best = std::move(plan);
          best_latency = latency;
        }
        break;
      }
    }
    if (!best) return Infeasible{"no plan of DAPPLE's fits: " + why, 0, "recompute, more devices, planner rannc or auto"};
    best->lower_bound = judge.lower_bound(&best->bound_name);
    best->bottleneck = bottleneck_of(*best);
    best->notes.push_back(fmt::format("pipeline latency L = {:.3f} ms by Formulas 1 and 2", best_latency / 1e6));
    return *best;
  }
};

}  // namespace

std::unique_ptr<StagePlanner> dapple_planner() { return std::make_unique<DapplePlanner>(); }

}  // namespace rannc::partition
