#include "partition/stages/search/plan_moves.h"

#include <algorithm>
#include <numeric>

#include "partition/stages/search/arrangements.h"

namespace rannc::partition {
namespace {

class Moves {
 public:
  Moves(const StageProblem& problem, const std::vector<uint64_t>& micro_batches, const StagePlan& plan,
        const std::function<bool(StagePlan)>& visit)
      : problem_(problem), micro_batches_(micro_batches), plan_(plan), visit_(visit), places_(places_of(plan)) {}

  /// Moves that change two stages, or recompute of one, by the least.
  bool any_small() { return cuts(1) || recomputes() || single_devices(); }
  bool any() {
    return cuts(problem_.blocks) || counts() || devices() || merges() || splits() || changes_of_place() || recomputes();
  }

 private:
  bool offer(StagePlan plan) { return keeps_constraints(problem_, plan) && visit_(std::move(plan)); }

  bool cuts(uint32_t most) {
    for (size_t s = 0; s + 1 < plan_.stages.size(); ++s) {
      for (uint32_t step = 1; step < problem_.blocks && step <= most; step *= 2) {
        if (plan_.stages[s].end - plan_.stages[s].first > step && move_cut(s, plan_.stages[s].end - step)) return true;
        if (plan_.stages[s + 1].end - plan_.stages[s + 1].first > step && move_cut(s, plan_.stages[s].end + step))
          return true;
      }
    }
    return false;
  }

  bool move_cut(size_t s, uint32_t cut) {
    StagePlan next = plan_;
    next.stages[s].end = next.stages[s + 1].first = cut;
    return offer(std::move(next));
  }

  bool counts() {
    const auto here = std::lower_bound(micro_batches_.begin(), micro_batches_.end(), plan_.micro_batches);
    const auto at = here - micro_batches_.begin();
    for (const int64_t step : {1, -1, 2, -2}) {
      const int64_t other = at + step;
      if (other < 0 || other >= static_cast<int64_t>(micro_batches_.size())) continue;
      StagePlan next = plan_;
      next.micro_batches = micro_batches_[static_cast<size_t>(other)];
      if (offer(std::move(next))) return true;
    }
    return false;
  }

  std::vector<size_t> sizes_of_places() const {
    std::vector<size_t> sizes;
    for (const uint32_t first : places_.first_stage) sizes.push_back(plan_.stages[first].devices.size());
    return sizes;
  }

  /// One device to another place; of many places, to a neighbour.
  bool single_devices() {
    constexpr size_t kMany = 8;
    const std::vector<size_t> sizes = sizes_of_places();
    const size_t reach = sizes.size() > kMany ? 1 : sizes.size();
    for (size_t to = 0; to < sizes.size(); ++to) {
      for (size_t from = 0; from < sizes.size(); ++from) {
        const size_t distance = from < to ? to - from : from - to;
        if (from != to && distance <= reach && sizes[from] > 1 && shift(sizes, from, to, 1)) return true;
      }
    }
    return false;
  }

  bool devices() {
    const size_t places = places_.count();
    const std::vector<size_t> sizes = sizes_of_places();
    const size_t used = std::accumulate(sizes.begin(), sizes.end(), size_t{0});
    for (size_t step = 1; step <= std::max<size_t>(1, used / 4); step *= 2) {
      for (size_t to = 0; to < places; ++to) {
        if (used + step <= problem_.cluster.size() && shift(sizes, places, to, step)) return true;
        for (size_t from = 0; from < places; ++from) {
          if (from != to && sizes[from] > step && shift(sizes, from, to, step)) return true;
        }
      }
    }
    for (size_t from = 0; from < places; ++from) {
      if (sizes[from] > 1 && shift(sizes, from, places, 1)) return true;
    }
    return false;
  }

  /// Moves `count` devices between places. Place number `count()` represents the idle devices.
  bool shift(std::vector<size_t> sizes, size_t from, size_t to, size_t count) {
    if (from < sizes.size()) sizes[from] -= count;
    if (to < sizes.size()) sizes[to] += count;
    StagePlan next = plan_;
    lay_consecutively(next, places_, sizes);
    return offer(std::move(next));
  }

  bool merges() {
    for (size_t s = 0; s + 1 < plan_.stages.size(); ++s) {
      const bool same_place = places_.of_stage[s] == places_.of_stage[s + 1];
      if (places_.shared() && !same_place) continue;
      StagePlan next = plan_;
      PlannedStage& kept = next.stages[s];
      const PlannedStage& gone = next.stages[s + 1];
      kept.end = gone.end;
      if (!same_place) kept.devices.insert(kept.devices.end(), gone.devices.begin(), gone.devices.end());
      kept.recompute |= gone.recompute;
      next.stages.erase(next.stages.begin() + static_cast<std::ptrdiff_t>(s) + 1);
      if (offer(std::move(next))) return true;
    }
    return false;
  }

  bool splits() {
    if (places_.shared()) return false;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      const PlannedStage& stage = plan_.stages[s];
      const uint32_t length = stage.end - stage.first;
      const size_t replicas = stage.devices.size();
      if (length < 2 || replicas < 2) continue;
      for (const uint32_t cut : {stage.first + length / 2, stage.first + 1, stage.end - 1}) {
        for (const size_t left : {replicas / 2, replicas - 1, size_t{1}}) {
          if (split(s, cut, left)) return true;
        }
      }
    }
    return false;
  }

  bool split(size_t s, uint32_t cut, size_t left) {
    StagePlan next = plan_;
    PlannedStage tail = next.stages[s];
    tail.first = next.stages[s].end = cut;
    tail.devices.erase(tail.devices.begin(), tail.devices.begin() + static_cast<std::ptrdiff_t>(left));
    next.stages[s].devices.resize(left);
    next.stages.insert(next.stages.begin() + static_cast<std::ptrdiff_t>(s) + 1, std::move(tail));
    return offer(std::move(next));
  }

  /// Moves a stage to the devices of another, in plans whose stages already share devices.
  bool changes_of_place() {
    if (!places_.shared()) return false;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      for (uint32_t place = 0; place < places_.count(); ++place) {
        if (place == places_.of_stage[s]) continue;
        StagePlan next = plan_;
        next.stages[s].devices = plan_.stages[places_.first_stage[place]].devices;
        const StagePlaces changed = places_of(next);
        if (changed.most_stages() > shared_stages(problem_)) continue;
        std::vector<size_t> sizes;
        for (const uint32_t first : changed.first_stage) sizes.push_back(next.stages[first].devices.size());
        lay_consecutively(next, changed, sizes);
        if (offer(std::move(next))) return true;
      }
    }
    return false;
  }

  bool recomputes() {
    if (problem_.recompute != RecomputeRule::kChoose) return false;
    for (size_t s = 0; s < plan_.stages.size(); ++s) {
      StagePlan next = plan_;
      next.stages[s].recompute = !next.stages[s].recompute;
      if (offer(std::move(next))) return true;
    }
    return false;
  }

  const StageProblem& problem_;
  const std::vector<uint64_t>& micro_batches_;
  const StagePlan& plan_;
  const std::function<bool(StagePlan)>& visit_;
  const StagePlaces places_;
};

}  // namespace

bool keeps_constraints(const StageProblem& problem, const StagePlan& plan) {
  const StageConstraints& given = problem.constraints;
  const size_t count = plan.stages.size();
  if ((given.stages && count != *given.stages) || (given.max_stages && count > *given.max_stages)) return false;
  for (size_t s = 0; s < count; ++s) {
    if (std::binary_search(given.forbidden_cuts.begin(), given.forbidden_cuts.end(), plan.stages[s].first))
      return false;
    if (!given.replicas.empty() && given.replicas[s] != plan.stages[s].devices.size()) return false;
  }
  if (given.stages_per_device && places_of(plan).most_stages() != *given.stages_per_device) return false;
  return std::all_of(given.pins.begin(), given.pins.end(), [&](const StagePin& pin) {
    const PlannedStage& stage = plan.stages[pin.stage];
    return stage.first <= pin.block && pin.block < stage.end;
  });
}

void lay_consecutively(StagePlan& plan, const StagePlaces& places, const std::vector<size_t>& sizes) {
  uint32_t next = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const uint32_t place = places.of_stage[s], first = places.first_stage[place];
    std::vector<DeviceId>& devices = plan.stages[s].devices;
    if (first != s) {
      devices = plan.stages[first].devices;
      continue;
    }
    devices.resize(sizes[place]);
    for (DeviceId& device : devices) device = DeviceId(next++);
  }
}

bool any_small_move(const StageProblem& problem, const StagePlan& plan, const std::function<bool(StagePlan)>& visit) {
  return Moves(problem, {}, plan, visit).any_small();
}

bool any_move(const StageProblem& problem, const std::vector<uint64_t>& micro_batches, const StagePlan& plan,
              const std::function<bool(StagePlan)>& visit) {
  return Moves(problem, micro_batches, plan, visit).any();
}

}  // namespace rannc::partition
