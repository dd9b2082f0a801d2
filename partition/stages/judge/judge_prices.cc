// Prices the stages of a plan that is being judged: times and memory.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "partition/schedule/family.h"
#include "partition/schedule/make_schedule.h"
#include "partition/stages/covers/cover_plan.h"
#include "partition/stages/judge/judge.h"
#include "partition/stages/judge/judge_run.h"
#include "partition/stages/judge/row_peaks.h"
#include "partition/stages/pricing/plan_traffic.h"
#include "partition/stages/pricing/stage_sums.h"

namespace rannc::partition {
namespace {

uint64_t share_of(uint64_t samples, uint64_t replicas) { return (samples + replicas - 1) / replicas; }

std::vector<double> blended(const std::vector<std::vector<double>>& rows, const TimeTable::Blend& blend,
                            uint32_t blocks) {
  std::vector<double> sums(blocks + 1, 0);
  if (rows.empty()) return sums;
  for (size_t b = 0; b < blocks; ++b) {
    sums[b + 1] = sums[b] + blend.low_weight * rows[blend.low][b] + blend.high_weight * rows[blend.high][b];
  }
  return sums;
}

/// Sum over the blocks [a, b) of a table that may be empty.
double total(const std::vector<double>& of_blocks, uint32_t a, uint32_t b) {
  return of_blocks.empty() ? 0 : std::accumulate(of_blocks.begin() + a, of_blocks.begin() + b, 0.0);
}

double peak_by_rule(const StagePlan& plan, size_t stage, const StageBytes& bytes) {
  const uint64_t all = plan.micro_batches, held = held_micro_batches(plan, stage);
  const ScheduleFamily* family = find_schedule(plan.schedule);
  if (family == nullptr || !family->splits_backward) {
    return bytes.peak(static_cast<double>(held), static_cast<double>(all));
  }
  const auto from_end = static_cast<uint32_t>(plan.stages.size() - stage);
  const uint64_t flying = std::min(held, in_flight(family->held.value_or(InFlight::kAll), from_end, all));
  return bytes.parted_peak(static_cast<double>(flying), static_cast<double>(held - flying));
}

/// Whether the schedule's rule or the depths determine how many micro-batches each stage holds. Otherwise its rows do.
bool holds_by_rule(const StagePlan& plan, const StagePlaces& places) {
  const ScheduleFamily* family = find_schedule(plan.schedule);
  if (places.shared() || family == nullptr) return false;
  return family->held || (family->takes_depths && !plan.warm_up.empty());
}

/// What a stage that recomputes can keep: whole recompute first, then its hull, then everything.
struct RebuildChoice {
  StageBytes bytes;
  double repeated_ns = 0;
};

/// The choices of stages that share devices, and how many steps along them each stage has taken.
class SharedChoices {
 public:
  void add(size_t stage, std::vector<RebuildChoice> choices) {
    stages_.push_back(stage);
    choices_.push_back(std::move(choices));
  }
  /// Orders the steps of all stages by descending time per byte.
  void sort_steps() {
    std::vector<size_t> at(stages_.size(), 0);
    for (;;) {
      std::optional<size_t> best;
      double most = 0;
      for (size_t i = 0; i < stages_.size(); ++i) {
        if (at[i] + 1 == choices_[i].size()) continue;
        const RebuildChoice &now = choices_[i][at[i]], &next = choices_[i][at[i] + 1];
        const double worth = std::max(0.0, now.repeated_ns - next.repeated_ns) /
                             std::max(1e-9, next.bytes.in_flight - now.bytes.in_flight);
        if (!best || worth > most) {
          best = i;
          most = worth;
        }
      }
      if (!best) return;
      steps_.push_back(*best);
      ++at[*best];
    }
  }
  size_t step_count() const { return steps_.size(); }
  /// Calls `f(stage, choice)` for what each stage keeps after that many steps.
  template <class F>
  void after(size_t steps, F&& f) const {
    std::vector<size_t> at(stages_.size(), 0);
    for (size_t i = 0; i < steps; ++i) ++at[steps_[i]];
    for (size_t i = 0; i < stages_.size(); ++i) f(stages_[i], choices_[i][at[i]]);
  }

 private:
  std::vector<size_t> stages_, steps_;
  std::vector<std::vector<RebuildChoice>> choices_;
};

void set_recompute(PlannedStage& stage, std::vector<ComputeTimes>& times, double share) {
  for (ComputeTimes& time : times) time.recompute = share * time.forward;
  stage.backward_ns = times[0].input_gradient + times[0].weight_gradient + (stage.recompute ? times[0].recompute : 0);
}

}  // namespace

uint64_t held_micro_batches(const StagePlan& plan, size_t stage) {
  const ScheduleFamily* family = find_schedule(plan.schedule);
  if (family == nullptr) return plan.micro_batches;
  if (family->takes_depths && stage < plan.warm_up.size()) {
    return std::min<uint64_t>(plan.micro_batches, plan.warm_up[stage]);
  }
  const auto stages = static_cast<uint32_t>(plan.stages.size());
  const uint32_t from_end = family->splits_backward ? stages : stages - static_cast<uint32_t>(stage);
  return in_flight(family->held.value_or(InFlight::kAll), from_end, plan.micro_batches);
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

const std::vector<RebuildPoint>& PlanJudge::rebuild_points(uint32_t a, uint32_t b) {
  const auto [entry, fresh] = points_.try_emplace({a, b});
  if (fresh) entry->second = hulls_.of(a, b);
  return entry->second;
}

StageBytes PlanJudge::bytes_of(const PlannedStage& stage, double samples, RecomputeRule rule, double more) const {
  return of_replica(stage_bytes(*ranges_, stage.first, stage.end, samples, rule, more), *ranges_, stage.first,
                    stage.end, static_cast<double>(stage.devices.size()));
}

double PlanJudge::least_repeated(const StagePlan& plan, size_t stage, double memory, double samples,
                                 StageBytes& bytes) {
  const uint32_t a = plan.stages[stage].first, b = plan.stages[stage].end;
  const auto fits = [&](const StageBytes& choice) {
    if (peak_by_rule(plan, stage, choice) > memory) return false;
    bytes = choice;
    return true;
  };
  if (fits(bytes_of(plan.stages[stage], samples, RecomputeRule::kNever))) return 0;
  const std::vector<RebuildPoint>& points = rebuild_points(a, b);
  for (size_t i = points.size(); i-- > 1;) {
    if (fits(bytes_of(plan.stages[stage], samples, RecomputeRule::kAlways, points[i].bytes_per_sample))) {
      return points[i].share;
    }
  }
  return 1;
}

void PlanJudge::repeat_least_by_rows(StagePlan& plan, Run& run) {
  const auto choices_of = [&](size_t s) {
    const PlannedStage& stage = plan.stages[s];
    const double samples = static_cast<double>(share_of(run.largest, stage.devices.size()));
    const double forward = run.costs.compute[s][0].forward;
    const auto bytes = [&](RecomputeRule rule, double more) { return bytes_of(stage, samples, rule, more); };
    std::vector<RebuildChoice> choices;
    for (const RebuildPoint& point : rebuild_points(stage.first, stage.end))
      choices.push_back({bytes(RecomputeRule::kAlways, point.bytes_per_sample), point.share * forward});
    choices.push_back({bytes(RecomputeRule::kNever, 0), 0});
    return choices;
  };
  // Rows that follow from times hold more micro-batches where less is repeated and where stages wait for each other.
  const bool rows_have_times = schedule_needs(plan.schedule, ScheduleFamily::Needs::kTimes);
  if (rows_have_times) run.shape.routes = value_routes(problem_, plan, run.shape.micro_batches);
  run.rows = rows_of(plan, run);
  const auto choose = [&](size_t s, const RebuildChoice& choice) {
    run.bytes[s] = choice.bytes;
    const double forward = run.costs.compute[s][0].forward;
    set_recompute(plan.stages[s], run.costs.compute[s], forward > 0 ? choice.repeated_ns / forward : 1);
  };
  const std::vector<std::vector<StageId>> stages = stages_by_place(run);
  for (uint32_t place = 0; place < stages.size(); ++place) {
    SharedChoices choices;
    for (const StageId stage : stages[place]) {
      if (plan.stages[stage.index()].recompute) choices.add(stage.index(), choices_of(stage.index()));
    }
    choices.sort_steps();
    const auto fits = [&](size_t steps) {
      choices.after(steps, choose);
      if (rows_have_times) run.rows = rows_of(plan, run);
      const double peak = row_peak_bytes(run.rows->rows[place], stages[place], run.bytes, plan.micro_batches);
      return peak <= run.memory[stages[place].front().index()];
    };
    size_t low = 0, high = choices.step_count() + 1;  // `low` fits, or nothing does
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    choices.after(low, choose);
  }
  if (!rows_have_times) return;
  run.shape.routes.clear();
  run.rows.reset();
}

std::vector<std::vector<StageId>> PlanJudge::stages_by_place(const Run& run) {
  std::vector<std::vector<StageId>> stages(run.places.count());
  for (uint32_t s = 0; s < run.bytes.size(); ++s) stages[run.places.of_stage[s]].push_back(StageId(s));
  return stages;
}

ComputeTimes PlanJudge::compute_times(const StagePlan& plan, size_t s, uint32_t kind, uint64_t samples) {
  const PlannedStage& stage = plan.stages[s];
  const Sums& at = sums(samples);
  const auto part = [&](const auto& sums) { return sums[kind][stage.end] - sums[kind][stage.first]; };
  double forward = part(at.forward), backward = part(at.backward), weight = part(at.weight);
  if (!problem_.measured.empty()) {
    const bool splits = parts_backward(plan);
    const auto known = problem_.measured.find({stage.first, stage.end, kind, samples, stage.recompute, splits});
    if (known != problem_.measured.end()) {
      const StageRunTimes& times = known->second;
      const double share = backward > 0 ? weight / backward : 0;
      forward = times.forward_ns;
      backward = times.backward_ns;
      weight = splits ? times.weight_ns : share * backward;
    }
  }
  ComputeTimes time;
  time.forward = forward;
  time.weight_gradient = weight;
  time.input_gradient = backward - weight;
  return time;
}

std::optional<Refusal> PlanJudge::price(StagePlan& plan, Run& run) {
  run.peaks_known = holds_by_rule(plan, run.places);
  const size_t classes = problem_.mini_batch % plan.micro_batches == 0 ? 1 : 2;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    PlannedStage& stage = plan.stages[s];
    const uint64_t replicas = stage.devices.size();
    if (replicas > run.largest)
      return Refusal{Refusal::Reason::kSamples, s, static_cast<double>(replicas), static_cast<double>(run.largest)};
    double& memory = run.memory.emplace_back(kInfinity);
    std::vector<char> kinds(problem_.times.size(), 0);
    for (const DeviceId device : stage.devices) {
      memory = std::min(memory, memory_of(problem_, device));
      kinds[problem_.cluster.devices[device.index()].kind] = 1;
    }
    auto& times = run.costs.compute.emplace_back();
    double& begin = run.costs.begin.emplace_back(0);
    double& gradients = run.costs.gradients.emplace_back(0);
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      if (!kinds[kind]) continue;
      begin = std::max(begin, total(problem_.times[kind].begin, stage.first, stage.end));
      gradients = std::max(gradients, total(problem_.times[kind].gradients, stage.first, stage.end));
    }
    for (size_t c = 0; c < classes; ++c) {
      ComputeTimes time;
      for (uint32_t kind = 0; kind < kinds.size(); ++kind) {
        if (!kinds[kind]) continue;
        const ComputeTimes of_kind = compute_times(plan, s, kind, share_of(run.largest - c, replicas));
        time.forward = std::max(time.forward, of_kind.forward);
        time.weight_gradient = std::max(time.weight_gradient, of_kind.weight_gradient);
        time.input_gradient = std::max(time.input_gradient, of_kind.input_gradient);
      }
      times.push_back(time);
    }
    const double n = static_cast<double>(share_of(run.largest, replicas));
    const uint32_t a = stage.first, b = stage.end;
    run.bytes.push_back(bytes_of(stage, n, stage.recompute ? RecomputeRule::kAlways : RecomputeRule::kNever));
    double repeated = 1;
    if (stage.recompute && run.peaks_known && !hulls_.empty()) {
      repeated = least_repeated(plan, s, memory, n, run.bytes.back());
    }
    if (run.peaks_known) {
      stage.peak_bytes = peak_by_rule(plan, s, run.bytes.back());
      if (stage.peak_bytes > memory) return Refusal{Refusal::Reason::kMemory, s, stage.peak_bytes, memory};
    }
    stage.forward_ns = times[0].forward;
    set_recompute(stage, times, repeated);
    const TrainedPart trained{ranges_->parameters(a, b), ranges_->gradients(a, b), ranges_->states(a, b)};
    stage.all_reduce_ns = stage_all_reduce_ns(problem_, trained, stage.devices);
    run.reductions.push_back(reductions(plan, s, trained, run));
    stage.exposed_ns = exposed_ns(run.reductions.back());
    run.steps.push_back(optimizer_ns(problem_, trained, stage.devices));
  }
  return std::nullopt;
}

std::vector<SumCost> PlanJudge::reductions(const StagePlan& plan, size_t s, const TrainedPart& trained,
                                           const Run& run) {
  const PlannedStage& stage = plan.stages[s];
  if (stage.all_reduce_ns <= 0) return {};
  if (!problem_.overlap_sums) return {{stage.all_reduce_ns, 0}};
  SumTimes times{stage.all_reduce_ns, 0};
  if (problem_.sharded) {
    const TrainedPart gradients{trained.gradients, trained.gradients, 0};
    times.sum = std::min(times.sum, stage_all_reduce_ns(problem_, gradients, stage.devices) / 2);
    times.gather = stage.all_reduce_ns - times.sum;
  }
  // The last gradient computation may be of any micro-batch, and a W if the schedule splits backward passes.
  const bool parts = parts_backward(plan);
  std::vector<char> kinds(problem_.times.size(), 0);
  for (const DeviceId device : stage.devices) kinds[problem_.cluster.devices[device.index()].kind] = 1;
  std::vector<double> ahead(stage.end - stage.first + 1, kInfinity);
  for (size_t c = 0; c < run.costs.compute[s].size(); ++c) {
    const Sums& at = sums(share_of(run.largest - c, stage.devices.size()));
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      if (!kinds[kind]) continue;
      const auto& before = (parts ? at.weight : at.backward)[kind];
      for (size_t b = 0; b < ahead.size(); ++b) {
        ahead[b] = std::min(ahead[b], before[stage.first + b] - before[stage.first]);
      }
    }
  }
  return stage_sums(problem_, stage.first, stage.end, ahead, times);
}

std::optional<Refusal> PlanJudge::add_depths(StagePlan& plan, const Run& run) const {
  const ScheduleFamily* family = find_schedule(plan.schedule);
  if (family == nullptr || !family->takes_depths || !plan.warm_up.empty()) return std::nullopt;
  plan.warm_up = problem_.schedule_parameters.warm_up;
  if (!plan.warm_up.empty()) return std::nullopt;
  std::vector<uint32_t> most;  // forward passes that fit in memory
  const auto all = static_cast<uint32_t>(plan.micro_batches);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto fits = [&](uint32_t held) { return run.bytes[s].peak(held, all) <= run.memory[s]; };
    uint32_t low = 0, high = all + 1;  // `low` fits, or is 0
    while (high - low > 1) {
      const uint32_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    if (low == 0) return Refusal{Refusal::Reason::kMemory, s, run.bytes[s].peak(1, all), run.memory[s]};
    most.push_back(low);
  }
  plan.warm_up = warmup_by_latency(chain_times(problem_, *ranges_, plan), most);
  for (uint32_t& depth : plan.warm_up) depth = std::min(depth, all);
  return std::nullopt;
}

std::optional<Refusal> PlanJudge::lay_out(StagePlan& plan, Run& run) {
  const uint32_t stages = static_cast<uint32_t>(plan.stages.size());
  run.places = places_of(plan);
  const uint64_t count = plan.micro_batches, more = problem_.mini_batch % count;
  run.largest = share_of(problem_.mini_batch, count);
  if (const auto refusal = price(plan, run)) return refusal;
  if (const auto refusal = add_depths(plan, run)) return refusal;
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
  run.shape.devices = run.places.count();
  for (uint32_t s = 0; s < stages; ++s) {
    run.shape.stages[s].recompute = plan.stages[s].recompute;
    run.shape.stages[s].devices = {DeviceId(run.places.of_stage[s])};
  }
  const bool recomputes =
      std::any_of(plan.stages.begin(), plan.stages.end(), [](const PlannedStage& stage) { return stage.recompute; });
  if (recomputes && !run.peaks_known && !hulls_.empty()) repeat_least_by_rows(plan, run);
  return std::nullopt;
}

std::optional<Refusal> PlanJudge::add_peaks(StagePlan& plan, const Run& run, const ir::Schedule& rows) const {
  if (run.peaks_known) return std::nullopt;
  for (const std::vector<StageId>& stages : stages_by_place(run)) {
    const size_t first = stages.front().index();
    const DeviceId device = run.shape.stages[first].devices.front();
    const double peak = row_peak_bytes(rows.rows[device.index()], stages, run.bytes, plan.micro_batches);
    for (const StageId stage : stages) plan.stages[stage.index()].peak_bytes = peak;
    if (peak > run.memory[first]) return Refusal{Refusal::Reason::kMemory, first, peak, run.memory[first]};
  }
  return std::nullopt;
}

ScheduleSpec schedule_of(const StageProblem& problem, const RangeCosts& ranges, const StagePlan& plan) {
  ScheduleSpec spec;
  spec.name = plan.schedule;
  spec.warmup = plan.warm_up;
  spec.pattern = plan.pattern;
  spec.recomputed = problem.recomputed;
  if (!schedule_needs(plan.schedule, ScheduleFamily::Needs::kTimes)) return spec;
  spec.times = chain_times(problem, ranges, plan);
  spec.k = problem.schedule_parameters.periods;
  spec.period = problem.schedule_parameters.period_ns;
  return spec;
}

}  // namespace rannc::partition
