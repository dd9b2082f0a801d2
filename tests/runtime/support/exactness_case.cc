// Plans for all combinations of schedule, stages, replicas, micro-batches and recompute.
#include "tests/runtime/support/exactness_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "partition/schedule/make_schedule.h"
#include "runtime/transport/transports.h"
#include "tests/runtime/support/plan_builder.h"
#include "tests/runtime/support/toy_graphs.h"

namespace rannc::testing {
namespace {

using partition::StageLayout;
using Which = ir::RecomputedMicroBatches;

enum Factor : uint32_t {
  kSchedule,
  kStages,
  kReplicas,
  kMicroBatches,
  kRecompute,
  kTransport,
  kType,
  kLoss,
  kReads,
  kSums
};

// The skip goes from the first stage to the last but one task; the shared parameter is read on both sides of a cut.
const std::vector<std::vector<uint32_t>> kCuts = {{}, {5}, {3, 6}, {3, 5, 8}};
const std::vector<std::vector<uint32_t>> kReplicaPatterns = {{1}, {2}, {2, 3, 1}};
// The last has fewer micro-batches than four stages, and fewer samples than three replicas.
const std::vector<std::vector<uint32_t>> kDivisions = {{2, 2, 2, 2}, {3, 2, 2, 2}, {2, 2, 1}};
const std::vector<std::optional<Which>> kRecomputes = {std::nullopt, Which::kUnlessBackwardFollows, Which::kAll,
                                                       Which::kAllButLast};
const std::vector<std::string> kRecomputeNames = {"none", "unless-backward-follows", "all", "all-but-last"};
const std::vector<ir::DType> kTypes = {ir::DType::kF32, ir::DType::kF64, ir::DType::kBF16};

StageLayout layout_of(const ExactnessCase& of) { return partition::find_schedule(of.schedule)->layout; }

uint32_t stages_per_group(const ExactnessCase& of) { return layout_of(of) == StageLayout::kOnePerRank ? 1 : 2; }

/// Groups of devices that hold the same stages.
uint32_t groups_of(const ExactnessCase& of) { return (of.stages + stages_per_group(of) - 1) / stages_per_group(of); }

uint32_t replicas_of(const ExactnessCase& of, uint32_t group) { return of.replicas[group % of.replicas.size()]; }

std::vector<std::string> transport_values() {
  std::vector<std::string> names;
  for (const runtime::TransportKind& kind : runtime::transports()) {
    if (!kind.needs_nccl) names.emplace_back(kind.name);
  }
  return names;
}

std::vector<ExactnessFactor> make_factors() {
  std::vector<ExactnessFactor> factors(kSums + 1);
  const auto schedules = partition::schedule_names();
  factors[kSchedule] = {"schedule", {schedules.begin(), schedules.end()}};
  factors[kStages] = {"stages", {"1", "2", "3", "4"}};
  factors[kReplicas] = {"replicas", {"1", "2", "2-3-1"}};
  factors[kMicroBatches] = {"micro-batches", {"8/4", "9/4", "5/3"}};
  factors[kRecompute] = {"recompute", kRecomputeNames};
  factors[kTransport] = {"transport", transport_values()};
  factors[kType] = {"type", {}};
  for (const ir::DType dtype : kTypes) factors[kType].values.emplace_back(ir::str(dtype));
  factors[kLoss] = {"loss", {"mean", "counts"}};
  factors[kReads] = {"reads", {"all", "part"}};
  factors[kSums] = {"sums", {"overlapped", "late"}};
  return factors;
}

std::string describe_value(uint32_t factor, uint32_t value) {
  return fmt::format("{}={}", exactness_factors()[factor].name, exactness_factors()[factor].values[value]);
}

/// Puts the stages on the devices of their groups.
void place_stages(ir::Plan& plan, const ExactnessCase& of) {
  std::vector<std::vector<DeviceId>> devices(groups_of(of));
  uint32_t next = 0;
  for (uint32_t group = 0; group < devices.size(); ++group) {
    for (uint32_t r = 0; r < replicas_of(of, group); ++r) devices[group].emplace_back(next++);
  }
  plan.devices.clear();
  for (uint32_t d = 0; d < next; ++d) plan.devices.push_back({.name = fmt::format("cpu{}", d), .kind = "cpu"});
  plan.predictions.resize(next);
  for (uint32_t s = 0; s < of.stages; ++s) {
    plan.stages[s].devices = devices[partition::rank_of(layout_of(of), groups_of(of), s)];
  }
}

/// All forward passes, the last micro-batch first, then all backward passes, the first first, which no family has.
std::string table_of(const ir::PipelineShape& shape) {
  ir::Schedule schedule{.name = "table", .rows = std::vector<std::vector<ir::Action>>(shape.devices)};
  const auto add = [&](ir::ActionKind kind, size_t stage, uint32_t mb) {
    for (const DeviceId device : shape.stages[stage].devices)
      schedule.rows[device.index()].push_back(ir::compute_action(kind, StageId::from(stage), mb));
  };
  const uint32_t count = shape.micro_batch_count();
  for (size_t s = 0; s < shape.stages.size(); ++s) {
    for (uint32_t mb = count; mb-- > 0;) add(ir::ActionKind::kForward, s, mb);
  }
  for (size_t s = shape.stages.size(); s-- > 0;) {
    for (uint32_t mb = 0; mb < count; ++mb) add(ir::ActionKind::kBackward, s, mb);
  }
  return ir::print_schedule(schedule);
}

/// Two micro-batches at a time, which no family has: F F I I W W of all stages of a device.
partition::SchedulePattern pattern_of(const ir::PipelineShape& shape) {
  std::map<DeviceId, std::vector<size_t>> stages;
  for (size_t s = 0; s < shape.stages.size(); ++s) stages[shape.stages[s].devices.front()].push_back(s);
  std::string text;
  for (auto& [device, own] : stages) {
    text += "[";
    for (const size_t s : own) text += fmt::format("F{0} F{0} ", s);
    std::reverse(own.begin(), own.end());
    for (const size_t s : own)
      text += fmt::format("{1}I{0} {1}I{0} W{0} W{0} ", s, shape.stages[s].recompute ? fmt::format("R{} ", s) : "");
    text += "]*; ";
  }
  return partition::parse_pattern(text).value();
}

partition::ScheduleSpec spec_of(const ExactnessCase& of, const ir::PipelineShape& shape) {
  using Needs = partition::ScheduleFamily::Needs;
  partition::ScheduleSpec spec;
  spec.name = of.schedule;
  spec.recomputed = of.recompute.value_or(spec.recomputed);
  spec.times.forward.assign(of.stages, 1);
  spec.times.backward.assign(of.stages, 2);
  spec.times.hop.assign(of.stages - 1, 0.25);
  if (partition::schedule_needs(of.schedule, Needs::kTable)) spec.table = table_of(shape);
  if (partition::schedule_needs(of.schedule, Needs::kPattern)) spec.pattern = pattern_of(shape);
  return spec;
}

}  // namespace

const std::vector<ExactnessFactor>& exactness_factors() {
  static const std::vector<ExactnessFactor> factors = make_factors();
  return factors;
}

std::vector<uint32_t> exactness_sizes() {
  std::vector<uint32_t> sizes;
  for (const ExactnessFactor& factor : exactness_factors()) {
    sizes.push_back(static_cast<uint32_t>(factor.values.size()));
  }
  return sizes;
}

ExactnessCase case_of(const Combination& values) {
  const auto& factors = exactness_factors();
  return {.schedule = factors[kSchedule].values[values[kSchedule]],
          .stages = values[kStages] + 1,
          .replicas = kReplicaPatterns[values[kReplicas]],
          .micro_batches = kDivisions[values[kMicroBatches]],
          .recompute = kRecomputes[values[kRecompute]],
          .transport = factors[kTransport].values[values[kTransport]],
          .dtype = kTypes[values[kType]],
          .counts = values[kLoss] == 1,
          .reads_part = values[kReads] == 1,
          .late_sums = values[kSums] == 1};
}

ExactnessCase undivided(const ExactnessCase& of) {
  return {.schedule = "1f1b",
          .replicas = {1},
          .micro_batches = of.micro_batches,
          .transport = "local",
          .dtype = of.dtype,
          .counts = of.counts};
}

std::string describe(const Combination& values) {
  std::string text;
  for (uint32_t factor = 0; factor < values.size(); ++factor) {
    text += (text.empty() ? "" : " ") + describe_value(factor, values[factor]);
  }
  return text;
}

std::string describe(const ValuePair& pair) {
  return describe_value(pair.first, pair.first_value) + " " + describe_value(pair.second, pair.second_value);
}

std::optional<std::string> why_impossible(const ExactnessCase& of) {
  const StageLayout layout = layout_of(of);
  if ((layout == StageLayout::kV || layout == StageLayout::kLoop) && of.stages % 2 != 0) {
    return fmt::format("{} has two stages per device, which an odd number of stages cannot fill", of.schedule);
  }
  if (of.replicas.size() > 1 && groups_of(of) == 1) return "unequal replicas need two groups of devices";
  return std::nullopt;
}

ir::Plan plan_of(const ExactnessCase& of) {
  RANNC_CHECK(!why_impossible(of)) << *why_impossible(of);
  PlanSpec spec{.cuts = kCuts[of.stages - 1], .micro_batches = of.micro_batches, .recompute = of.recompute.has_value()};
  if (of.counts) {
    for (uint32_t& cut : spec.cuts) cut += 2;
  }
  ir::Plan plan = build_plan(of.counts ? counted_losses(of.dtype) : skip_tie_and_dropout(of.dtype), spec);
  place_stages(plan, of);
  ir::choose_buckets(plan, of.late_sums ? ir::kBucketBytes : 0);
  const ir::PipelineShape shape = ir::pipeline_shape(plan);
  plan.schedule = ir::lower_schedule(shape, partition::make_schedule(shape, spec_of(of, shape)).value()).value();
  return plan;
}

}  // namespace rannc::testing
