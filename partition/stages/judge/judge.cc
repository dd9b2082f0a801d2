#include "partition/stages/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "partition/schedule/family.h"
#include "partition/schedule/make_schedule.h"
#include "partition/schedule/simulate.h"
#include "partition/stages/bounds/bounds.h"
#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/judge/judge_run.h"
#include "partition/stages/pricing/stage_bytes.h"
#include "partition/transfers.h"

namespace rannc::partition {
namespace {

/// Rounds a number to its first 30 bits, so that numbers that differ by rounding are equal. With a tolerance instead, a
/// and b as well as b and c could be equal while a and c are not.
double leading_bits(double value) {
  if (!std::isfinite(value)) return value;
  int exponent = 0;
  const double part = std::frexp(value, &exponent);
  return std::ldexp(std::round(std::ldexp(part, 30)), exponent);
}

/// Times of the smallest micro-batch, given those of each size, largest first. Its forward pass and whole backward pass
/// are shorter than others; the parts of the backward pass need not be.
ComputeTimes least_times(const std::vector<ComputeTimes>& times) {
  ComputeTimes time = times.back();
  const ComputeTimes& larger = times.front();
  const double backward =
      std::min(time.input_gradient + time.weight_gradient, larger.input_gradient + larger.weight_gradient);
  time.input_gradient = std::min(time.input_gradient, larger.input_gradient);
  time.weight_gradient = backward - time.input_gradient;
  return time;
}

}  // namespace

double one_way_ns(const ir::RouteShape& route, const LinkCost& link, uint64_t samples) {
  return link.latency + static_cast<double>(route.bytes_per_sample) * static_cast<double>(samples) * link.per_byte;
}

PlanJudge::PlanJudge(const StageProblem& problem)
    : problem_(problem), ranges_(std::make_unique<RangeCosts>(problem)), hulls_(problem) {}

PlanJudge::~PlanJudge() = default;

std::string_view objective_name(Objective objective) {
  switch (objective) {
    case Objective::kStepTime:
      return "simulated time of a mini-batch, ns";
    case Objective::kPeriod:
      return "time of a mini-batch in a pipeline that is always full, ns";
    case Objective::kLargestLoad:
      return "work and messages of the busiest device in a mini-batch, ns";
    case Objective::kPeakMemory:
      return "bytes on the fullest device";
  }
  return "";
}

bool better(const StagePlan& a, const StagePlan& b) {
  const double objective = leading_bits(a.objective), other = leading_bits(b.objective);
  if (objective != other) return objective < other;
  return leading_bits(a.step_ns) < leading_bits(b.step_ns);
}

void PlanJudge::add_routes(const StagePlan& plan, Run& run) const {
  const size_t stages = plan.stages.size();
  std::vector<uint32_t> stage_of(problem_.blocks);
  for (size_t s = 0; s < stages; ++s) {
    for (uint32_t b = plan.stages[s].first; b < plan.stages[s].end; ++b) stage_of[b] = static_cast<uint32_t>(s);
  }
  const double largest = static_cast<double>(run.largest);
  struct Crossing {
    double bytes[2] = {0, 0};  // without and with gradient
    bool any[2] = {false, false};
  };
  run.shape.routes = value_routes(problem_, plan, run.shape.micro_batches);
  std::map<std::pair<uint32_t, uint32_t>, Crossing> crossings;
  for (const BlockValue& value : problem_.values) {
    const uint32_t from = stage_of[value.producer];
    uint32_t before = from;
    for (const uint32_t reader : value.readers) {
      if (stage_of[reader] == before) continue;
      before = stage_of[reader];
      Crossing& crossing = crossings[{from, before}];
      crossing.bytes[value.gradient] += value.bytes_per_sample + value.bytes / largest;
      crossing.any[value.gradient] = true;
    }
  }
  const uint32_t places = run.places.count();
  run.ways.resize(size_t{places} * places);
  StageWays ways(problem_.cluster);
  for (const auto& [ends, crossing] : crossings) {
    const auto& [from, to] = ends;
    const auto &sender = plan.stages[from].devices, &receiver = plan.stages[to].devices;
    const StageId first(run.places.of_stage[from]), second(run.places.of_stage[to]);
    if (first != second) {
      run.way(from, to) = ways.between(first, sender, second, receiver, run.largest, places);
      run.way(to, from) = ways.between(second, receiver, first, sender, run.largest, places);
    }
    for (const bool gradient : {true, false}) {
      if (!crossing.any[gradient]) continue;
      // A whole number of bytes, at least one: the reader waits even for an empty value.
      const double whole = std::clamp(std::ceil(crossing.bytes[gradient]), 1.0, 9e15 / largest);
      run.sums.push_back({StageId(from), StageId(to), static_cast<int64_t>(whole), gradient});
    }
  }
}

/// Returns a grain for which no time of the simulation has more than 52 bits. Sums are then exact, and periods are
/// detected.
double PlanJudge::grain_of(const StagePlan& plan, const Run& run) {
  double once = std::accumulate(run.costs.begin.begin(), run.costs.begin.end(), 0.0);
  for (const auto& times : run.costs.compute) {
    for (const ComputeTimes& time : times)
      once += time.forward + time.recompute + time.input_gradient + time.weight_gradient;
  }
  for (const ir::RouteShape& route : run.shape.routes) {
    const uint32_t from = route.producer.index(), to = route.consumer.index();
    once +=
        one_way_ns(route, run.way(from, to).cost, run.largest) + one_way_ns(route, run.way(to, from).cost, run.largest);
  }
  // Rounding adds at most as much again.
  const double most = 2 * once * static_cast<double>(plan.micro_batches);
  return most > 0 && std::isfinite(most) ? std::ldexp(1, std::ilogb(most) - 51) : 0;
}

ir::Schedule PlanJudge::rows_of(const StagePlan& plan, const Run& run) const {
  auto schedule = make_schedule(run.shape, schedule_of(problem_, *ranges_, plan));
  RANNC_CHECK(schedule.ok()) << schedule.diagnostic().str();
  return *std::move(schedule);
}

double PlanJudge::simulated(const StagePlan& plan, Run& run) {
  const uint32_t places = run.places.count();
  const auto way = [&run, places](DeviceId from, DeviceId to) -> const StageWay& {
    return run.ways[from.index() * places + to.index()];
  };
  run.costs.link = [way](DeviceId from, DeviceId to) { return way(from, to).cost; };
  run.costs.resources = [way](DeviceId from, DeviceId to) { return way(from, to).holds; };
  const bool whole = run.rows && run.shape.micro_batch_count() == plan.micro_batches;
  const ir::Schedule schedule = whole ? *std::exchange(run.rows, std::nullopt) : rows_of(plan, run);
  SimulationOptions options;
  options.memory = options.spans = false;
  options.contention = options.skip_periods = true;
  options.grain = grain_of(plan, run);
  const auto timeline = simulate(run.shape, schedule, run.costs, options);
  RANNC_CHECK(timeline.ok()) << timeline.diagnostic().str();
  spent_ += (timeline->simulated + 1) / 2;
  std::vector<double> ends;
  for (const DeviceTimeline& place : timeline->devices) ends.push_back(place.last);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    ends[run.places.of_stage[s]] += run.costs.gradients[s] + plan.stages[s].exposed_ns + run.steps[s];
  }
  return *std::max_element(ends.begin(), ends.end());
}

double PlanJudge::objective(const StagePlan& plan, const Run& run) const {
  if (problem_.objective == Objective::kStepTime) return plan.step_ns;
  if (problem_.objective == Objective::kPeakMemory) {
    double largest = 0;
    for (const PlannedStage& stage : plan.stages) largest = std::max(largest, stage.peak_bytes);
    return largest;
  }
  const size_t places = run.places.count();
  std::vector<double> out(places, 0), in(places, 0), work(places, 0), sums(places, 0);
  for (const ir::RouteShape& route : run.sums) {
    const uint32_t producer = route.producer.index(), consumer = route.consumer.index();
    const uint32_t from = run.places.of_stage[producer], to = run.places.of_stage[consumer];
    if (from == to) continue;
    const double there = one_way_ns(route, run.way(producer, consumer).cost, run.largest);
    out[from] += there;
    in[to] += there;
    if (!route.gradient) continue;
    const double back = one_way_ns(route, run.way(consumer, producer).cost, run.largest);
    out[to] += back;
    in[from] += back;
  }
  const double count = static_cast<double>(plan.micro_batches);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    work[run.places.of_stage[s]] += count * (stage.forward_ns + stage.backward_ns) + run.once(s);
    sums[run.places.of_stage[s]] += stage.all_reduce_ns;
  }
  double largest = 0;
  for (size_t place = 0; place < places; ++place) {
    const bool load = problem_.objective == Objective::kLargestLoad;
    // Beside the passes of an always full pipeline, sums occupy ports alone.
    const double beside = problem_.overlap_sums ? sums[place] : 0, after = sums[place] - beside;
    largest = load ? std::max(largest, work[place] + sums[place] + count * (out[place] + in[place]))
                   : std::max({largest, work[place] + after, count * out[place] + beside, count * in[place] + beside});
  }
  return largest;
}

double PlanJudge::least_step(const StagePlan& plan, const Run& run) const {
  const size_t stages = plan.stages.size();
  // Before a stage's first forward pass, after its last input gradient, and before the last message in has come.
  std::vector<double> head(stages, 0), tail(stages, 0), port(stages, 0);
  const double count = static_cast<double>(plan.micro_batches);
  const double samples = static_cast<double>(problem_.mini_batch / plan.micro_batches);
  const auto least = [&run](size_t s) { return least_times(run.costs.compute[s]); };
  double step = 0;
  std::vector<double> start(run.places.count(), kInfinity), work(start.size(), 0);
  for (uint32_t s = 0; s < stages; ++s) {
    for (const ir::RouteShape& route : run.sums) {
      if (route.consumer.index() != s) continue;
      const uint32_t from = route.producer.index();
      const double left = head[from] + least(from).forward,
                   bytes = static_cast<double>(route.bytes_per_sample) * samples;
      const LinkCost &there = run.way(from, s).cost, &back = run.way(s, from).cost;
      head[s] = std::max(head[s], left + there.latency + bytes * there.per_byte);
      port[s] = std::max(port[s], left + there.latency + count * bytes * there.per_byte);
      if (!route.gradient) continue;
      tail[s] = std::max(tail[s], back.latency + bytes * back.per_byte + least(from).input_gradient + tail[from]);
    }
    const ComputeTimes time = least(s);
    const double once = time.forward + time.input_gradient;
    step = std::max({step, head[s] + count * once + tail[s], port[s] + once + tail[s],
                     head[s] + count * (once + time.weight_gradient) + plan.stages[s].exposed_ns + run.once(s)});
    const uint32_t place = run.places.of_stage[s];
    start[place] = std::min(start[place], head[s]);
    work[place] += count * (once + time.weight_gradient) + run.once(s);
  }
  for (size_t place = 0; run.places.shared() && place < work.size(); ++place)
    step = std::max(step, start[place] + work[place]);
  return step * (1 - 1e-9);
}

std::optional<Refusal> PlanJudge::too_slow(const StagePlan& plan) const {
  if (!problem_.step_limit_ns || plan.step_ns <= *problem_.step_limit_ns) return std::nullopt;
  return Refusal{Refusal::Reason::kTime, 0, plan.step_ns, *problem_.step_limit_ns};
}

std::optional<Refusal> PlanJudge::too_fast(const StagePlan& plan, const Run& run) const {
  if (problem_.schedule_parameters.period_ns <= 0) return std::nullopt;
  const ScheduleSpec spec = schedule_of(problem_, *ranges_, plan);
  if (spec.period <= 0) return std::nullopt;
  const double least = smallest_period(run.shape, spec.times);
  if (spec.period >= least * (1 - 1e-9)) return std::nullopt;
  return Refusal{Refusal::Reason::kPeriod, 0, least, spec.period};
}

std::optional<Refusal> PlanJudge::beaten(const StagePlan& plan, const Run& run, double beat) const {
  if (problem_.objective != Objective::kStepTime || least_step(plan, run) < beat) return std::nullopt;
  return Refusal{};
}

std::optional<Refusal> PlanJudge::begin(StagePlan& plan, Run& run, double beat) {
  if (const auto refusal = lay_out(plan, run)) return refusal;
  add_routes(plan, run);
  for (const PlannedStage& stage : plan.stages) spent_ += stage.devices.size();
  if (const auto refusal = beaten(plan, run, beat)) return refusal;
  if (const auto refusal = too_fast(plan, run)) return refusal;
  if (run.peaks_known) return std::nullopt;
  if (!run.rows) run.rows = rows_of(plan, run);
  return add_peaks(plan, run, *run.rows);
}

JudgedPlan PlanJudge::judge(StagePlan plan, double beat) {
  Run run;
  if (const auto refusal = begin(plan, run, beat)) return *refusal;
  plan.step_ns = simulated(plan, run);
  return conclude(std::move(plan), run);
}

JudgedPlan PlanJudge::estimate(StagePlan plan, double beat) {
  // Both of the shorter mini-batches are whole periods of rows that repeat.
  const uint64_t twice = plan.pattern.empty() ? 2 : 2 * uint64_t{counts_of(plan.pattern).period};
  const uint64_t all = plan.micro_batches, some = (64 + 4 * plan.stages.size() + twice - 1) / twice * twice;
  if (all <= 3 * some || problem_.mini_batch % all != 0) return judge(std::move(plan), beat);
  Run run;
  if (const auto refusal = begin(plan, run, beat)) return *refusal;
  const std::vector<uint32_t> sizes = run.shape.micro_batches;
  run.shape.micro_batches.resize(some / 2);
  const double half = simulated(plan, run);
  run.shape.micro_batches.assign(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(some));
  const double whole = simulated(plan, run);
  plan.step_ns = whole + (whole - half) / static_cast<double>(some - some / 2) * static_cast<double>(all - some);
  return conclude(std::move(plan), run);
}

JudgedPlan PlanJudge::conclude(StagePlan plan, const Run& run) const {
  if (const auto refusal = too_slow(plan)) return *refusal;
  plan.objective_name = objective_name(problem_.objective);
  plan.objective = objective(plan, run);
  return plan;
}

Result<ir::Schedule> PlanJudge::rows(StagePlan plan) {
  Run run;
  if (const auto refusal = begin(plan, run, kInfinity)) return error(refusal->str());
  return run.rows ? *std::move(run.rows) : rows_of(plan, run);
}

Bound PlanJudge::lower_bound(const BoundEffort& effort) const {
  return partition::lower_bound(problem_, *ranges_, effort);
}

std::string Refusal::str() const {
  switch (reason) {
    case Reason::kSamples:
      return fmt::format("{:.0f} replicas of stage {} share {:.0f} samples", found, stage, allowed);
    case Reason::kMemory:
      return fmt::format("stage {} needs {:.0f} bytes of {:.0f}", stage, found, allowed);
    case Reason::kTime:
      return fmt::format("a step takes {:.3f} ms of {:.3f} ms", found / 1e6, allowed / 1e6);
    case Reason::kPeriod:
      return fmt::format("the busiest device needs {:.3f} ms a period of {:.3f} ms", found / 1e6, allowed / 1e6);
    case Reason::kNoRows:
      return "no rows were found that fit the memory and repeat";
    case Reason::kBeaten:
      break;
  }
  return "its stages alone take longer";
}

std::string JudgedPlan::why() const {
  const auto* refusal = std::get_if<Refusal>(&value_);
  return refusal != nullptr ? refusal->str() : "";
}

}  // namespace rannc::partition
