#include "partition/schedule/found/policies.h"

#include <algorithm>
#include <cmath>

#include "partition/schedule/found/row_bound.h"

namespace rannc::partition::found {
namespace {

using ir::ActionKind;
using Depths = std::vector<uint32_t>;

/// Time per micro-batch of the busiest lane.
double busiest(const RowProblem& problem) {
  double most = 0;
  for (const Lane& lane : problem.lanes) {
    double load = 0;
    for (const uint32_t s : lane.slots) {
      const auto& time = problem.slots[s].time[0];
      load += time[index_of(ActionKind::kForward)] + time[index_of(ActionKind::kBackward)];
    }
    most = std::max(most, load);
  }
  return most;
}

/// Forward passes that fit between an F and its W, one each period.
Depths by_latency(const RowProblem& problem, const SlotPaths& paths, double period) {
  Depths depths;
  for (uint32_t s = 0; s < problem.slots.size(); ++s) {
    const double stay =
        paths.gradient[s] + problem.slots[s].time[0][index_of(ActionKind::kBackward)] - paths.forward[s];
    depths.push_back(period > 0 ? std::max(1u, static_cast<uint32_t>(std::ceil(stay / period - 1e-9))) : 1);
  }
  return depths;
}

Depths by_position(const RowProblem& problem, uint32_t times) {
  Depths depths;
  const auto count = static_cast<uint32_t>(problem.slots.size());
  for (uint32_t s = 0; s < count; ++s) depths.push_back(times * (count - s) - (times - 1));
  return depths;
}

Depths plus(Depths depths, uint32_t more) {
  for (uint32_t& depth : depths) depth += more;
  return depths;
}

/// Times of a pipeline in which micro-batches follow each other after `period`.
std::vector<double> steady_times(const RowProblem& problem, const SlotPaths& paths, double period) {
  std::vector<double> target(problem.slots.size() * kKinds * problem.micro_batches, 0);
  for (uint32_t s = 0; s < problem.slots.size(); ++s) {
    const auto& time = problem.slots[s].time[0];
    for (uint32_t k = 0; k < problem.micro_batches; ++k) {
      const auto set = [&](ActionKind kind, double at) { target[target_cell(problem, s, kind, k)] = at + k * period; };
      set(ActionKind::kForward, paths.forward[s]);
      set(ActionKind::kRecompute, paths.gradient[s] - time[index_of(ActionKind::kRecompute)]);
      set(ActionKind::kInputGradient, paths.gradient[s]);
      set(ActionKind::kBackward, paths.gradient[s]);
      set(ActionKind::kWeightGradient, paths.gradient[s] + time[index_of(ActionKind::kInputGradient)]);
    }
  }
  return target;
}

}  // namespace

std::vector<Policy> first_policies(const RowProblem& problem) {
  const SlotPaths paths = slot_paths(problem);
  const double period = busiest(problem);
  const auto slots = static_cast<uint32_t>(problem.slots.size());
  const Depths by_wait = by_latency(problem, paths, period);
  // The last one needs least memory: one micro-batch after the other.
  const std::vector<Depths> depths{Depths(slots, problem.micro_batches),
                                   by_position(problem, 1),
                                   by_position(problem, 2),
                                   by_wait,
                                   plus(by_wait, 1),
                                   plus(by_wait, 2),
                                   Depths(slots, 1)};
  std::vector<Depths> lags{Depths(slots, problem.micro_batches)};
  if (problem.parts == BackwardParts::kSplit) {
    lags.push_back(Depths(slots, 0));
    lags.push_back(Depths(slots, 1));
    Depths positions;
    for (uint32_t s = 0; s < slots; ++s) positions.push_back(s);
    lags.push_back(positions);
  }
  std::vector<Policy> policies;
  for (const Depths& ahead : depths) {
    for (const Depths& lag : lags) {
      for (const auto first : {Policy::First::kGradient, Policy::First::kAlternate, Policy::First::kForward}) {
        for (const double patience : {1.0, 0.3}) policies.push_back({first, ahead, lag, patience, {}});
      }
      policies.push_back({Policy::First::kTarget, ahead, lag, 1, steady_times(problem, paths, period)});
    }
  }
  return policies;
}

Policy changed(const RowProblem& problem, const Policy& policy, Random& random) {
  Policy result = policy;
  const auto slots = static_cast<uint32_t>(problem.slots.size());
  const auto change = [&](std::vector<uint32_t>& numbers, uint32_t least) {
    // One slot, or all from a slot on.
    const uint32_t from = random.below(slots), to = random.below(3) == 0 ? slots : from + 1;
    const bool more = random.below(2) == 0;
    for (uint32_t s = from; s < to; ++s) {
      uint32_t& number = numbers[s];
      number = more ? std::min(number + 1, problem.micro_batches) : std::max(number, least + 1) - 1;
    }
  };
  const uint32_t changes = 1 + random.below(2);
  for (uint32_t i = 0; i < changes; ++i) {
    switch (random.below(problem.parts == BackwardParts::kSplit ? 8 : 4)) {
      case 0:
        result.first = static_cast<Policy::First>(random.below(result.target.empty() ? 3 : 4));
        break;
      case 7:
        result.patience = 0.25 * random.below(6);
        break;
      case 4:
      case 5:
      case 6:
        change(result.lag, 0);
        break;
      default:
        change(result.ahead, 1);
    }
  }
  return result;
}

Policy by_times(const RowProblem& problem, const LaneRows& rows, const NoisyTimes& given, Random& random) {
  Policy policy;
  policy.first = Policy::First::kTarget;
  policy.ahead.assign(problem.slots.size(), problem.micro_batches);
  policy.lag = policy.ahead;
  policy.target.assign(problem.slots.size() * kKinds * problem.micro_batches, 0);
  for (size_t l = 0; l < rows.size(); ++l) {
    for (size_t i = 0; i < rows[l].size(); ++i) {
      const Letter& letter = rows[l][i];
      const double time = given.times[l][i];
      const bool changes = time >= given.first && time <= given.last;
      policy.target[target_cell(problem, letter.slot, letter.kind, letter.micro_batch)] =
          time + (changes ? given.noise * random.unit() : 0);
    }
  }
  return policy;
}

}  // namespace rannc::partition::found
