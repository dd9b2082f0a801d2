#include "partition/stages/judge.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "partition/schedule/make_schedule.h"
#include "partition/schedule/simulate.h"
#include "partition/stages/internal/finish.h"

namespace rannc::partition {
namespace {

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/// The slowest link over which a replica of `from` sends samples to one of `to`.
Link slowest_between(const Cluster& cluster, const std::vector<DeviceId>& from, const std::vector<DeviceId>& to) {
  Link slowest{std::numeric_limits<double>::infinity(), 0};
  const size_t n = from.size(), m = to.size();
  for (size_t i = 0, j = 0; i < n && j < m;) {
    const Link& link = cluster.link(from[i], to[j]);
    slowest.bytes_per_second = std::min(slowest.bytes_per_second, link.bytes_per_second);
    slowest.latency_ns = std::max(slowest.latency_ns, link.latency_ns);
    // Sample ranges end at (i + 1) / n and (j + 1) / m of the micro-batch.
    const size_t left = (i + 1) * m, right = (j + 1) * n;
    i += left <= right;
    j += right <= left;
  }
  return slowest;
}

/// The longest way of one micro-batch: forward along values to some block, back along the values that have a gradient.
double longest_way(const StageProblem& problem, std::vector<double> forward, std::vector<double> backward) {
  std::vector<std::vector<const BlockValue*>> made(problem.blocks);
  for (const BlockValue& value : problem.values) made[value.producer].push_back(&value);
  std::vector<double> there(problem.blocks, 0), back(problem.blocks, 0);  // before the block itself
  double longest = 0;
  for (uint32_t b = 0; b < problem.blocks; ++b) {
    const double reached = there[b] + forward[b], left = back[b] + backward[b];
    longest = std::max(longest, reached + left);
    for (const BlockValue* value : made[b]) {
      for (const uint32_t reader : value->readers) {
        there[reader] = std::max(there[reader], reached);
        if (value->gradient) back[reader] = std::max(back[reader], left);
      }
    }
  }
  return longest;
}

std::vector<double> blended(const std::vector<std::vector<double>>& rows, const TimeTable::Blend& blend) {
  std::vector<double> sums(rows[0].size() + 1, 0);
  for (size_t b = 0; b + 1 < sums.size(); ++b) {
    sums[b + 1] = sums[b] + blend.low_weight * rows[blend.low][b] + blend.high_weight * rows[blend.high][b];
  }
  return sums;
}

}  // namespace

struct PlanJudge::Run {
  ir::PipelineShape shape;
  ScheduleCosts costs;
  std::vector<LinkCost> links;  ///< [from stage * stages + to stage]
  uint64_t largest = 0;         ///< samples of the largest micro-batch
};

PlanJudge::PlanJudge(const StageProblem& problem)
    : problem_(problem), ranges_(std::make_unique<RangeCosts>(problem)) {}

PlanJudge::~PlanJudge() = default;

uint64_t held_micro_batches(const StagePlan& plan, size_t stage) {
  const uint64_t all = plan.micro_batches, from_end = plan.stages.size() - stage;
  if (plan.schedule == "1f1b") return std::min(all, from_end);
  if (plan.schedule == "dapple-b") return std::min(all, 2 * from_end - 1);
  if (plan.schedule == "warmup" && stage < plan.warm_up.size()) return std::min<uint64_t>(all, plan.warm_up[stage]);
  return all;
}

const PlanJudge::Sums& PlanJudge::sums(uint64_t samples) {
  const auto [entry, fresh] = sums_.try_emplace(samples);
  if (fresh) {
    for (const TimeTable& table : problem_.times) {
      const TimeTable::Blend blend = table.blend(samples);
      entry->second.forward.push_back(blended(table.forward, blend));
      entry->second.backward.push_back(blended(table.backward, blend));
    }
  }
  return entry->second;
}

bool PlanJudge::price(StagePlan& plan, Run& run, std::string* why) {
  const size_t classes = problem_.mini_batch % plan.micro_batches == 0 ? 1 : 2;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    PlannedStage& stage = plan.stages[s];
    const uint64_t replicas = stage.devices.size();
    if (replicas > run.largest) {
      if (why) *why = fmt::format("{} replicas of stage {} share {} samples", replicas, s, run.largest);
      return false;
    }
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
        const double forward = at.forward[kind][stage.end] - at.forward[kind][stage.first];
        const double backward = at.backward[kind][stage.end] - at.backward[kind][stage.first];
        time.forward = std::max(time.forward, forward);
        time.input_gradient = std::max(time.input_gradient, backward);
      }
      time.recompute = time.forward;
      times.push_back(time);
    }
    const double n = static_cast<double>(ceil_div(run.largest, replicas));
    const uint32_t a = stage.first, b = stage.end;
    const double stash = ranges_->stashed_per_sample(a, b) * n, received = ranges_->received(a, b).at(n);
    const double held = static_cast<double>(held_micro_batches(plan, s));
    stage.peak_bytes = ranges_->resident(a, b) + ranges_->temporary_per_sample(a, b) * n + received +
                       ranges_->returned(a, b).at(n) + 2 * ranges_->sent(a, b).at(n) +
                       (stage.recompute ? stash + received * held : stash * held);
    if (stage.peak_bytes > memory) {
      if (why) *why = fmt::format("stage {} needs {:.0f} bytes of {:.0f}", s, stage.peak_bytes, memory);
      return false;
    }
    stage.forward_ns = times[0].forward;
    stage.backward_ns = times[0].input_gradient + (stage.recompute ? times[0].recompute : 0);
    stage.all_reduce_ns = stage_all_reduce_ns(problem_, ranges_->parameters(a, b), stage.devices);
  }
  return true;
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
  run.links.resize(stages * stages);
  for (const auto& [ends, crossing] : crossings) {
    const auto& [from, to] = ends;
    const auto &sender = plan.stages[from].devices, &receiver = plan.stages[to].devices;
    const Link link = slowest_between(problem_.cluster, sender, receiver);
    const double share = static_cast<double>(ceil_div(run.largest, std::min(sender.size(), receiver.size()))) / largest;
    run.links[from * stages + to] = run.links[to * stages + from] = {link.latency_ns, share * 1e9 / link.bytes_per_second};
    for (const bool gradient : {true, false}) {
      if (!crossing.any[gradient]) continue;
      // Whole bytes there, at least one: even an empty value makes its reader wait.
      const double whole = std::clamp(crossing.bytes[gradient], 1.0, 9e15 / largest);
      run.shape.routes.push_back({StageId(from), StageId(to), static_cast<int64_t>(whole), gradient});
    }
  }
}

std::optional<double> PlanJudge::judge(StagePlan& plan, std::string* why) {
  ++judged_;
  const uint32_t stages = static_cast<uint32_t>(plan.stages.size());
  Run run;
  const uint64_t count = plan.micro_batches, more = problem_.mini_batch % count;
  run.largest = ceil_div(problem_.mini_batch, count);
  if (!price(plan, run, why)) return std::nullopt;
  run.shape = ir::chain_shape(stages, 1);
  run.shape.routes.clear();
  run.shape.micro_batches.assign(count, static_cast<uint32_t>(run.largest));
  if (more != 0) {
    run.costs.size_class.assign(count, 1);
    for (uint64_t i = 0; i < count; ++i) {
      if (i < more) run.costs.size_class[i] = 0;
      else --run.shape.micro_batches[i];
    }
  }
  for (uint32_t s = 0; s < stages; ++s) run.shape.stages[s].recompute = plan.stages[s].recompute;
  add_routes(plan, run);
  run.costs.link = [&run, stages](DeviceId from, DeviceId to) { return run.links[from.index() * stages + to.index()]; };
  ScheduleSpec spec;
  spec.name = plan.schedule;
  spec.warmup = plan.warm_up;
  const auto schedule = make_schedule(run.shape, spec);
  RANNC_CHECK(schedule.ok()) << schedule.diagnostic().str();
  SimulationOptions options;
  options.memory = options.spans = false;
  const auto timeline = simulate(run.shape, *schedule, run.costs, options);
  RANNC_CHECK(timeline.ok()) << timeline.diagnostic().str();
  double step = 0;
  for (uint32_t s = 0; s < stages; ++s) {
    step = std::max(step, timeline->devices[s].last + plan.stages[s].all_reduce_ns);
  }
  plan.objective_name = "simulated time of a mini-batch, ns";
  plan.objective = step;
  return step;
}

double PlanJudge::lower_bound(std::string* name) const {
  double best = std::numeric_limits<double>::infinity();
  for (const uint64_t count : micro_batch_candidates(problem_)) {
    const uint64_t samples = problem_.mini_batch / count;  // the smallest micro-batch
    double work = 0, heaviest = 0;
    std::vector<double> forward, backward;  // of each block on its cheapest share
    for (uint32_t b = 0; b < problem_.blocks; ++b) {
      double spread = std::numeric_limits<double>::infinity(), alone = spread, there = spread, back = spread;
      for (uint64_t replicas = 1; replicas <= std::min<uint64_t>(samples, problem_.cluster.size());) {
        const uint64_t share = ceil_div(samples, replicas);
        for (const TimeTable& table : problem_.times) {
          const TimeTable::Blend blend = table.blend(share);
          const auto at = [&](const auto& rows) {
            return blend.low_weight * rows[blend.low][b] + blend.high_weight * rows[blend.high][b];
          };
          const double time = at(table.forward) + at(table.backward);
          there = std::min(there, at(table.forward));
          back = std::min(back, at(table.backward));
          spread = std::min(spread, time * static_cast<double>(replicas));
          alone = std::min(alone, time);
        }
        if (share == 1) break;
        replicas = ceil_div(samples, share - 1);
      }
      work += spread;
      heaviest = std::max(heaviest, alone);
      forward.push_back(there);
      backward.push_back(back);
    }
    const double way = longest_way(problem_, std::move(forward), std::move(backward));
    const double m = static_cast<double>(count);
    const std::pair<double, const char*> terms[] = {{m * work / problem_.cluster.size(), "work over all devices"},
                                                    {m * heaviest, "heaviest block"},
                                                    {way, "one micro-batch through all blocks"}};
    const auto most = *std::max_element(std::begin(terms), std::end(terms));
    if (most.first >= best) continue;
    best = most.first;
    if (name) *name = most.second;
  }
  return best * (1 - 1e-9);
}

}  // namespace rannc::partition
