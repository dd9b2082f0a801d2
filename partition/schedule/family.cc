#include "partition/schedule/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "ir/schedule/verify_schedule.h"

namespace rannc::partition {
namespace {

using Needs = ScheduleFamily::Needs;

Result<void> check_depths(const std::vector<uint32_t>& depth, size_t stages) {
  if (depth.size() != stages) {
    return error(fmt::format("{} warm-up depths for {} stages", depth.size(), stages));
  }
  for (size_t s = 0; s < stages; ++s) {
    if (depth[s] == 0) return error(fmt::format("warm-up depth of stage {} is 0; it must be positive", s));
    if (s == 0 || depth[s] <= depth[s - 1]) continue;
    return error(fmt::format("warm-up depth {} of stage {} exceeds {} of the stage before, which would wait for ever",
                             depth[s], s, depth[s - 1]));
  }
  return {};
}

Result<Rows> early_backward(const std::vector<uint32_t>& depth, const GeneratorInput& in) {
  RANNC_TRY(check_depths(depth, in.ranks));
  return warmup_rows(depth, in.micro_batches);
}

Result<void> check_times(const GeneratorInput& in) {
  const size_t p = in.shape.stages.size();
  const ChainTimes& times = in.spec.times;
  if (times.forward.size() != p || times.backward.size() != p) {
    return error(fmt::format("schedule {} needs forward and backward times of all {} stages", in.spec.name, p));
  }
  if (times.hop.empty() || times.hop.size() + 1 == p) return {};
  return error(fmt::format("{} hop times between {} stages", times.hop.size(), p));
}

Result<Rows> by_depth(const GeneratorInput& in) {
  if (!in.spec.warmup.empty()) return early_backward(in.spec.warmup, in);
  RANNC_TRY(check_times(in));
  return early_backward(warmup_by_latency(in.spec.times, in.spec.most), in);
}

using FindPattern = Result<Pattern> (*)(const GeneratorInput&, double period);

Result<ir::Schedule> repeated(const GeneratorInput& in, FindPattern find, uint32_t k) {
  RANNC_TRY(check_times(in));
  const double period = in.spec.period > 0 ? in.spec.period : smallest_period(in.shape, in.spec.times);
  RANNC_ASSIGN(const Pattern pattern, find(in, period));
  ir::Schedule schedule;
  schedule.name = in.spec.name;
  schedule.rows = pattern_rows(in.shape, pattern, k);
  return schedule;
}

Result<Pattern> star(const GeneratorInput& in, double period) { return one_f_one_b_star(in.spec.times, period); }

Result<ir::Schedule> dropping(const GeneratorInput& in) {
  RANNC_TRY(check_times(in));
  return repeated(in, star, in.spec.k > 0 ? in.spec.k : default_k(in.spec.times, in.spec.period));
}

Result<ir::Schedule> anywhere(const GeneratorInput& in) {
  const auto find = [](const GeneratorInput& i, double period) {
    return allocation_pattern(i.shape, i.spec.times, period);
  };
  return repeated(in, find, 0);
}

Result<ir::Schedule> one_at_a_time(const GeneratorInput& in) {
  ir::Schedule schedule;
  schedule.name = in.spec.name;
  schedule.rows = serial_rows(in.shape);
  return schedule;
}

/// Number of the line of a table that has the row of a device; 0: there is none.
uint32_t line_of_device(std::string_view table, uint32_t device) {
  uint32_t number = 0;
  while (!table.empty()) {
    ++number;
    std::string_view line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(line.size() + 1, table.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \td"), line.size()));
    uint32_t found = 0;
    const auto [end, status] = std::from_chars(line.data(), line.data() + line.size(), found);
    if (status == std::errc{} && found == device && end != line.data() + line.size() && *end == ':') return number;
  }
  return 0;
}

/// Names the line of a violation, if its message names a device.
Diagnostic in_table(Diagnostic violation, const ScheduleSpec& spec) {
  constexpr std::string_view kDevice = "device ";
  violation.where.file = spec.table_file;
  const std::string& text = violation.message;
  uint32_t device = 0;
  const size_t at = text.find(kDevice);
  if (at == std::string::npos) return violation;
  const auto [end, status] = std::from_chars(text.data() + at + kDevice.size(), text.data() + text.size(), device);
  if (status == std::errc{}) violation.where.line = line_of_device(spec.table, device);
  return violation;
}

/// Lowered tables must hold as they are, but for memory, which is checked for the finished plan.
Result<ir::Schedule> parsed(const GeneratorInput& in) {
  if (is_pattern(in.spec.table)) {
    RANNC_ASSIGN(const SchedulePattern pattern, parse_pattern(in.spec.table, in.spec.table_file));
    auto rows = rows_of(pattern, in.shape);
    if (!rows.ok()) return error(Location{in.spec.table_file}, rows.diagnostic().message);
    rows->name = "table";
    return rows;
  }
  RANNC_ASSIGN(ir::Schedule schedule, ir::parse_schedule(in.spec.table, in.shape, in.spec.table_file));
  if (!schedule.lowered) return schedule;
  ir::PipelineShape shape = in.shape;
  shape.memory_bytes.clear();
  const std::vector<Diagnostic> violations = ir::verify_schedule(shape, schedule, 1);
  return violations.empty() ? Result<ir::Schedule>(std::move(schedule)) : in_table(violations.front(), in.spec);
}

Result<ir::Schedule> of_pattern(const GeneratorInput& in) {
  if (in.spec.pattern.empty()) return error(fmt::format("schedule {} has no rows for these stages", in.spec.name));
  RANNC_ASSIGN(ir::Schedule rows, rows_of(in.spec.pattern, in.shape));
  // Which stages recompute may be decided after their rows.
  for (auto& row : rows.rows) {
    std::erase_if(row, [&](const ir::Action& action) {
      return action.kind == ir::ActionKind::kRecompute && !in.shape.stages[action.stage.index()].recompute;
    });
  }
  rows.name = in.spec.name;
  return rows;
}

template <Rows (*generator)(uint32_t, uint32_t)>
Result<Rows> plain(const GeneratorInput& in) {
  return generator(in.ranks, in.micro_batches);
}

const ScheduleFamily kFamilies[] = {
    {.name = "1f1b",
     .summary = "early backward passes, as deep a warm-up as there are stages behind: DAPPLE's P_A",
     .chosen_by_auto = true,
     .held = InFlight::kOneFOneB,
     .by_rank = [](const GeneratorInput& in) { return early_backward(warmup_a(in.ranks), in); }},
    {.name = "dapple-b",
     .summary = "DAPPLE's P_B: twice as deep, which hides messages",
     .chosen_by_auto = true,
     .assumed = InFlight::kTwice,
     .held = InFlight::kTwice,
     .by_rank = [](const GeneratorInput& in) { return early_backward(warmup_b(in.ranks), in); }},
    {.name = "gpipe",
     .summary = "all forward passes, then all backward passes",
     .chosen_by_auto = true,
     .assumed = InFlight::kAll,
     .held = InFlight::kAll,
     .by_rank = plain<gpipe_rows>},
    {.name = "warmup",
     .summary = "another schedule's warm-up deepened while memory allows",
     .needs = Needs::kWarmUp,
     .chosen_by_auto = true,
     .takes_depths = true,
     .by_rank = by_depth},
    {.name = "zb-h1",
     .summary = "zero bubble with 1f1b's memory: weight gradients fill gaps",
     .chosen_by_auto = true,
     .splits_backward = true,
     .held = InFlight::kOneFOneB,
     .by_rank = plain<zb_h1_rows>},
    {.name = "zb-h2",
     .summary = "zero bubble with twice that memory",
     .chosen_by_auto = true,
     .splits_backward = true,
     .held = InFlight::kTwice,
     .by_rank = plain<zb_h2_rows>},
    {.name = "latency",
     .summary = "warm-up depths by the latency of what lies behind, within memory",
     .needs = Needs::kTimes,
     .takes_depths = true,
     .by_rank = by_depth},
    {.name = "interleaved",
     .summary = "several stages a device, in turn",
     .layout = StageLayout::kLoop,
     .chosen_by_auto = true,
     .by_rank = [](const GeneratorInput& in) -> Result<Rows> {
       return interleaved_rows(in.ranks, in.chunks, in.micro_batches);
     }},
    {.name = "zb-v",
     .summary = "zero bubble, two stages a device laid out as a V",
     .layout = StageLayout::kV,
     .chosen_by_auto = true,
     .splits_backward = true,
     .by_rank = plain<zb_v_rows>},
    {.name = "v-half",
     .summary = "the V with half of 1f1b's memory",
     .layout = StageLayout::kV,
     .chosen_by_auto = true,
     .splits_backward = true,
     .by_rank = plain<v_half_rows>},
    {.name = "v-min",
     .summary = "the V with a third of 1f1b's memory",
     .layout = StageLayout::kV,
     .chosen_by_auto = true,
     .splits_backward = true,
     .by_rank = plain<v_min_rows>},
    {.name = "1f1b-star",
     .summary = "1F1B*: least memory for a period",
     .needs = Needs::kTimes,
     .by_device = [](const GeneratorInput& in) { return repeated(in, star, 0); }},
    {.name = "k-periodic",
     .summary = "the same with every (k+1)-th batch dropped",
     .needs = Needs::kTimes,
     .by_device = dropping},
    {.name = "periodic",
     .summary = "any allocation, repeated with a period",
     .layout = StageLayout::kAny,
     .needs = Needs::kTimes,
     .by_device = anywhere},
    {.name = "serial",
     .summary = "one micro-batch at a time, which holds least",
     .layout = StageLayout::kAny,
     .assumed = InFlight::kOne,
     .held = InFlight::kOne,
     .by_device = one_at_a_time},
    {.name = "found",
     .summary = "searched for the plan's stages, on any allocation",
     .layout = StageLayout::kAny,
     .needs = Needs::kPattern,
     .chosen_by_auto = true,
     .by_device = of_pattern},
    {.name = "table",
     .summary = "by hand, from --schedule-file: rows of devices or a pattern",
     .layout = StageLayout::kAny,
     .needs = Needs::kTable,
     .by_device = parsed},
};

}  // namespace

uint64_t in_flight(InFlight rule, uint32_t from_end, uint64_t micro_batches) {
  switch (rule) {
    case InFlight::kAll:
      return micro_batches;
    case InFlight::kOneFOneB:
      return std::min<uint64_t>(from_end, micro_batches);
    case InFlight::kTwice:
      return std::min<uint64_t>(2ull * from_end - 1, micro_batches);
    case InFlight::kOne:
      return 1;
  }
  return micro_batches;
}

std::span<const ScheduleFamily> schedule_families() { return kFamilies; }

const ScheduleFamily* find_schedule(std::string_view name) {
  const auto found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                  [&](const ScheduleFamily& family) { return family.name == name; });
  return found == std::end(kFamilies) ? nullptr : found;
}

bool schedule_needs(std::string_view name, ScheduleFamily::Needs needs) {
  const ScheduleFamily* family = find_schedule(name);
  return family != nullptr && family->needs == needs;
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const ScheduleFamily& family : kFamilies) names.push_back(family.name);
  return names;
}

const std::vector<std::string>& schedules_of_auto() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> chosen;
    for (const ScheduleFamily& family : kFamilies) {
      if (family.chosen_by_auto) chosen.emplace_back(family.name);
    }
    return chosen;
  }();
  return names;
}

}  // namespace rannc::partition
