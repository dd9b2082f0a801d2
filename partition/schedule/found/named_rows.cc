#include "partition/schedule/found/named_rows.h"

#include <algorithm>

#include "partition/schedule/make_schedule.h"

namespace rannc::partition::found {
namespace {

using ir::ActionKind;

/// Times of the stages as a chain, by their first slots.
ChainTimes chain_times(const RowProblem& problem) {
  ChainTimes times;
  for (uint32_t s = 0; s < problem.slots.size(); ++s) {
    const Slot& slot = problem.slots[s];
    if (slot.stage.index() < times.forward.size()) continue;
    const ByKind<double>& time = slot.time[0];
    times.forward.push_back(time[index_of(ActionKind::kForward)]);
    times.backward.push_back(time[index_of(ActionKind::kBackward)] +
                             (slot.recompute ? time[index_of(ActionKind::kRecompute)] : 0));
    double hop = 0;
    for (const Feed& feed : slot.inputs) {
      if (problem.slots[feed.slot].stage.index() + 1 == slot.stage.index()) hop = std::max(hop, feed.delay[0]);
    }
    if (slot.stage.index() > 0) times.hop.push_back(hop);
  }
  return times;
}

}  // namespace

std::vector<NamedRows> named_rows(const RowProblem& problem) {
  std::vector<NamedRows> result;
  const ChainTimes times = chain_times(problem);
  const auto add = [&](const ScheduleSpec& spec) {
    auto schedule = make_schedule(*problem.shape, spec);
    if (schedule.ok()) result.push_back({spec.name, *std::move(schedule)});
  };
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.needs == ScheduleFamily::Needs::kTable || family.needs == ScheduleFamily::Needs::kWarmUp) continue;
    if (family.held == InFlight::kOne) continue;  // below
    if (family.splits_backward && problem.parts == BackwardParts::kWhole) continue;
    ScheduleSpec spec{.name = std::string(family.name), .recomputed = problem.recomputed};
    if (family.needs != ScheduleFamily::Needs::kTimes) {
      add(spec);
      continue;
    }
    spec.times = times;
    add(spec);
    spec.times.hop.clear();
    add(spec);
  }
  for (uint32_t k = 1; k <= times.forward.size() && k < problem.micro_batches; k *= 2) {
    add({.name = "k-periodic", .times = times, .k = k, .recomputed = problem.recomputed});
  }
  const std::vector<uint32_t> depths = warmup_by_latency(times);
  for (uint32_t more = 1; more <= problem.slots.size() && more < problem.micro_batches; more *= 2) {
    ScheduleSpec spec{.name = "warmup", .warmup = depths, .recomputed = problem.recomputed};
    for (uint32_t& depth : spec.warmup) depth += more;
    add(spec);
  }
  add({.name = "serial", .recomputed = problem.recomputed});
  return result;
}

}  // namespace rannc::partition::found
