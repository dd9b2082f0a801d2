#include "partition/stages/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

std::vector<double> blended(const std::vector<std::vector<double>>& rows, const TimeTable::Blend& blend,
                            uint32_t blocks) {
  std::vector<double> sums(blocks + 1, 0);
  if (rows.empty()) return sums;
  for (size_t b = 0; b < blocks; ++b) {
    sums[b + 1] = sums[b] + blend.low_weight * rows[blend.low][b] + blend.high_weight * rows[blend.high][b];
  }
  return sums;
}

double peak_bytes(const StagePlan& plan, size_t stage, const StageBytes& bytes) {
  const uint64_t all = plan.micro_batches, held = held_micro_batches(plan, stage);
  const ScheduleFamily* family = find_schedule(plan.schedule);
  if (family == nullptr || !family->splits_backward) {
    return bytes.peak(static_cast<double>(held), static_cast<double>(all));
  }
  const auto from_end = static_cast<uint32_t>(plan.stages.size() - stage);
  const uint64_t flying = std::min(held, in_flight(family->held, from_end, all));
  return bytes.parted_peak(static_cast<double>(flying), static_cast<double>(held - flying));
}

/// Rounds a number to its first 30 bits, so that numbers that differ by rounding are equal. With a tolerance instead, a
/// and b as well as b and c could be equal while a and c are not.
double leading_bits(double value) {
  if (!std::isfinite(value)) return value;
  int exponent = 0;
  const double part = std::frexp(value, &exponent);
  return std::ldexp(std::round(std::ldexp(part, 30)), exponent);
}

/// One direction of a route, per micro-batch.
double one_way_ns(const ir::RouteShape& route, const LinkCost& link, uint64_t samples) {
  return link.latency + static_cast<double>(route.bytes_per_sample) * static_cast<double>(samples) * link.per_byte;
}

}  // namespace

PlanJudge::PlanJudge(const StageProblem& problem) : problem_(problem), ranges_(std::make_unique<RangeCosts>(problem)) {}

PlanJudge::~PlanJudge() = default;

uint64_t held_micro_batches(const StagePlan& plan, size_t stage) {
  const ScheduleFamily* family = find_schedule(plan.schedule);
  if (family == nullptr) return plan.micro_batches;
  if (family->needs == ScheduleFamily::Needs::kWarmUp && stage < plan.warm_up.size()) {
    return std::min<uint64_t>(plan.micro_batches, plan.warm_up[stage]);
  }
  const auto stages = static_cast<uint32_t>(plan.stages.size());
  const uint32_t from_end = family->splits_backward ? stages : stages - static_cast<uint32_t>(stage);
  return in_flight(family->held, from_end, plan.micro_batches);
}

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

const PlanJudge::Sums& PlanJudge::sums(uint64_t samples) {
  const auto [entry, fresh] = sums_.try_emplace(samples);
  if (fresh) {
    for (const TimeTable& table : problem_.times) {
      const TimeTable::Blend blend = table.blend(samples);
      entry->second.forward.push_back(blended(table.forward, blend, problem_.blocks));
      entry->second.backward.push_back(blended(table.backward, blend, problem_.blocks));
      entry->second.weight.push_back(blended(table.weight_gradient, blend, problem_.blocks));
    }
  }
  return entry->second;
}

std::optional<Refusal> PlanJudge::price(StagePlan& plan, Run& run) {
  const size_t classes = problem_.mini_batch % plan.micro_batches == 0 ? 1 : 2;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    PlannedStage& stage = plan.stages[s];
    const uint64_t replicas = stage.devices.size();
    if (replicas > run.largest)
      return Refusal{Refusal::Reason::kSamples, s, static_cast<double>(replicas), static_cast<double>(run.largest)};
    double memory = std::numeric_limits<double>::infinity();
    std::vector<char> kinds(problem_.times.size(), 0);
    for (const DeviceId device : stage.devices) {
      memory = std::min(memory, memory_of(problem_, device));
      kinds[problem_.cluster.devices[device.index()].kind] = 1;
    }
    auto& times = run.costs.compute.emplace_back();
    for (size_t c = 0; c < classes; ++c) {
      const Sums& at = sums(ceil_div(run.largest - c, replicas));
      ComputeTimes time;
      for (size_t kind = 0; kind < kinds.size(); ++kind) {
        if (!kinds[kind]) continue;
        const auto part = [&](const auto& sums) { return sums[kind][stage.end] - sums[kind][stage.first]; };
        time.forward = std::max(time.forward, part(at.forward));
        time.weight_gradient = std::max(time.weight_gradient, part(at.weight));
        time.input_gradient = std::max(time.input_gradient, part(at.backward) - part(at.weight));
      }
      time.recompute = time.forward;
      times.push_back(time);
    }
    const double n = static_cast<double>(ceil_div(run.largest, replicas));
    const uint32_t a = stage.first, b = stage.end;
    const StageBytes bytes =
        stage_bytes(*ranges_, a, b, n, stage.recompute ? RecomputeRule::kAlways : RecomputeRule::kNever);
    stage.peak_bytes = peak_bytes(plan, s, bytes);
    if (stage.peak_bytes > memory) return Refusal{Refusal::Reason::kMemory, s, stage.peak_bytes, memory};
    stage.forward_ns = times[0].forward;
    stage.backward_ns = times[0].input_gradient + times[0].weight_gradient + (stage.recompute ? times[0].recompute : 0);
    stage.all_reduce_ns = stage_all_reduce_ns(problem_, ranges_->gradients(a, b), stage.devices);
    run.steps.push_back(optimizer_ns(problem_, ranges_->parameters(a, b), ranges_->gradients(a, b), stage.devices));
  }
  return std::nullopt;
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
  run.ways.resize(stages * stages);
  StageWays ways(problem_.cluster);
  for (const auto& [ends, crossing] : crossings) {
    const auto& [from, to] = ends;
    const auto &sender = plan.stages[from].devices, &receiver = plan.stages[to].devices;
    const StageId first(from), second(to);
    run.ways[from * stages + to] = ways.between(first, sender, second, receiver, run.largest, stages);
    run.ways[to * stages + from] = ways.between(second, receiver, first, sender, run.largest, stages);
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
  const size_t stages = plan.stages.size();
  double once = 0;
  for (const auto& times : run.costs.compute) {
    for (const ComputeTimes& time : times)
      once += time.forward + time.recompute + time.input_gradient + time.weight_gradient;
  }
  for (const ir::RouteShape& route : run.shape.routes) {
    const size_t from = route.producer.index(), to = route.consumer.index();
    once += one_way_ns(route, run.ways[from * stages + to].cost, run.largest) +
            one_way_ns(route, run.ways[to * stages + from].cost, run.largest);
  }
  // Rounding adds at most as much again.
  const double most = 2 * once * static_cast<double>(plan.micro_batches);
  return most > 0 && std::isfinite(most) ? std::ldexp(1, std::ilogb(most) - 51) : 0;
}

double PlanJudge::simulated(const StagePlan& plan, Run& run) {
  const uint32_t stages = static_cast<uint32_t>(plan.stages.size());
  const auto way = [&run, stages](DeviceId from, DeviceId to) -> const StageWay& {
    return run.ways[from.index() * stages + to.index()];
  };
  run.costs.link = [way](DeviceId from, DeviceId to) { return way(from, to).cost; };
  run.costs.resources = [way](DeviceId from, DeviceId to) { return way(from, to).holds; };
  const auto schedule = make_schedule(run.shape, schedule_of(plan));
  RANNC_CHECK(schedule.ok()) << schedule.diagnostic().str();
  SimulationOptions options;
  options.memory = options.spans = false;
  options.contention = options.skip_periods = true;
  options.grain = grain_of(plan, run);
  const auto timeline = simulate(run.shape, *schedule, run.costs, options);
  RANNC_CHECK(timeline.ok()) << timeline.diagnostic().str();
  spent_ += (timeline->simulated + 1) / 2;
  double step = 0;
  for (uint32_t s = 0; s < stages; ++s) {
    step = std::max(step, timeline->devices[s].last + plan.stages[s].all_reduce_ns + run.steps[s]);
  }
  return step;
}

double PlanJudge::objective(const StagePlan& plan, const Run& run) const {
  if (problem_.objective == Objective::kStepTime) return plan.step_ns;
  const size_t stages = plan.stages.size();
  std::vector<double> out(stages, 0), in(stages, 0);
  for (const ir::RouteShape& route : run.sums) {
    const size_t from = route.producer.index(), to = route.consumer.index();
    const double there = one_way_ns(route, run.ways[from * stages + to].cost, run.largest);
    out[from] += there;
    in[to] += there;
    if (!route.gradient) continue;
    const double back = one_way_ns(route, run.ways[to * stages + from].cost, run.largest);
    out[to] += back;
    in[from] += back;
  }
  const double count = static_cast<double>(plan.micro_batches);
  double largest = 0;
  for (size_t s = 0; s < stages; ++s) {
    const PlannedStage& stage = plan.stages[s];
    const double work = count * (stage.forward_ns + stage.backward_ns) + stage.all_reduce_ns + run.steps[s];
    switch (problem_.objective) {
      case Objective::kPeakMemory:
        largest = std::max(largest, stage.peak_bytes);
        break;
      case Objective::kLargestLoad:
        largest = std::max(largest, work + count * (out[s] + in[s]));
        break;
      default:
        largest = std::max({largest, work, count * out[s], count * in[s]});
    }
  }
  return largest;
}

double PlanJudge::least_step(const StagePlan& plan, const Run& run) const {
  const size_t stages = plan.stages.size();
  // Before a stage's first forward pass, after its last input gradient, and before the last message in has come.
  std::vector<double> head(stages, 0), tail(stages, 0), port(stages, 0);
  const double count = static_cast<double>(plan.micro_batches);
  const double samples = static_cast<double>(problem_.mini_batch / plan.micro_batches);
  // Forward passes and whole backward passes of a smaller micro-batch are shorter; the parts of one need not be.
  const auto least = [&](size_t s) {
    ComputeTimes time = run.costs.compute[s].back();
    const ComputeTimes& larger = run.costs.compute[s].front();
    const double backward =
        std::min(time.input_gradient + time.weight_gradient, larger.input_gradient + larger.weight_gradient);
    time.input_gradient = std::min(time.input_gradient, larger.input_gradient);
    time.weight_gradient = backward - time.input_gradient;
    return time;
  };
  double step = 0;
  for (size_t s = 0; s < stages; ++s) {
    for (const ir::RouteShape& route : run.sums) {
      if (route.consumer.index() != s) continue;
      const size_t from = route.producer.index();
      const double left = head[from] + least(from).forward,
                   bytes = static_cast<double>(route.bytes_per_sample) * samples;
      const LinkCost &there = run.ways[from * stages + s].cost, &back = run.ways[s * stages + from].cost;
      head[s] = std::max(head[s], left + there.latency + bytes * there.per_byte);
      port[s] = std::max(port[s], left + there.latency + count * bytes * there.per_byte);
      if (!route.gradient) continue;
      tail[s] = std::max(tail[s], back.latency + bytes * back.per_byte + least(from).input_gradient + tail[from]);
    }
    const ComputeTimes time = least(s);
    const double once = time.forward + time.input_gradient;
    step = std::max({step, head[s] + count * once + tail[s], port[s] + once + tail[s],
                     head[s] + count * (once + time.weight_gradient) + plan.stages[s].all_reduce_ns + run.steps[s]});
  }
  return step * (1 - 1e-9);
}

ScheduleSpec schedule_of(const StagePlan& plan) {
  ScheduleSpec spec;
  spec.name = plan.schedule;
  spec.warmup = plan.warm_up;
  return spec;
}

std::optional<Refusal> PlanJudge::lay_out(StagePlan& plan, Run& run) {
  const uint32_t stages = static_cast<uint32_t>(plan.stages.size());
  const uint64_t count = plan.micro_batches, more = problem_.mini_batch % count;
  run.largest = ceil_div(problem_.mini_batch, count);
  if (const auto refusal = price(plan, run)) return refusal;
  run.shape = ir::chain_shape(stages, 1);
  run.shape.routes.clear();
  run.shape.micro_batches.assign(count, static_cast<uint32_t>(run.largest));
  if (more != 0) {
    run.costs.size_class.assign(count, 1);
    for (uint64_t i = 0; i < count; ++i) {
      if (i < more)
        run.costs.size_class[i] = 0;
      else
        --run.shape.micro_batches[i];
    }
  }
  for (uint32_t s = 0; s < stages; ++s) run.shape.stages[s].recompute = plan.stages[s].recompute;
  return std::nullopt;
}

std::optional<Refusal> PlanJudge::too_slow(const StagePlan& plan) const {
  if (!problem_.time_limit_ns || plan.step_ns <= *problem_.time_limit_ns) return std::nullopt;
  return Refusal{Refusal::Reason::kTime, 0, plan.step_ns, *problem_.time_limit_ns};
}

std::optional<Refusal> PlanJudge::beaten(const StagePlan& plan, const Run& run, double beat) const {
  if (problem_.objective != Objective::kStepTime || least_step(plan, run) < beat) return std::nullopt;
  return Refusal{};
}

std::optional<Refusal> PlanJudge::begin(StagePlan& plan, Run& run, double beat) {
  if (const auto refusal = lay_out(plan, run)) return refusal;
  add_routes(plan, run);
  for (const PlannedStage& stage : plan.stages) spent_ += stage.devices.size();
  return beaten(plan, run, beat);
}

JudgedPlan PlanJudge::judge(StagePlan plan, double beat) {
  Run run;
  if (const auto refusal = begin(plan, run, beat)) return *refusal;
  plan.step_ns = simulated(plan, run);
  return conclude(std::move(plan), run);
}

JudgedPlan PlanJudge::estimate(StagePlan plan, double beat) {
  const uint64_t all = plan.micro_batches, some = 64 + 4 * plan.stages.size();
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
