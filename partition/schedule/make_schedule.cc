/// Chooses a generator by name, checks that it can serve the shape, places its rows.
#include "partition/schedule/make_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "ir/lower_schedule.h"

namespace rannc::partition {
namespace {

using ir::Action;
using ir::ActionKind;
using ir::PipelineShape;
using Ranks = std::vector<std::vector<DeviceId>>;

/// Stages of rank r, for each way of laying stages out.
enum class Layout { kOnePerRank, kV, kLoop };

uint32_t stage_of(Layout layout, uint32_t ranks, uint32_t rank, uint32_t chunk) {
  if (layout == Layout::kV) return chunk == 0 ? rank : 2 * ranks - 1 - rank;
  return chunk * ranks + rank;
}

/// The devices of each rank, if the shape is laid out so: all stages of a rank on the same devices, in the same order,
/// and no device in two ranks.
Result<Ranks> find_ranks(const PipelineShape& shape, Layout layout, uint32_t chunks, const std::string& name) {
  const auto stages = static_cast<uint32_t>(shape.stages.size());
  const auto refuse = [&](const std::string& why) {
    static constexpr std::string_view kNeeds[] = {"one stage per device", "stages r and 2p-1-r on rank r of p",
                                                  "stages r, r+p, r+2p ... on rank r of p"};
    return error(fmt::format("schedule {} needs {}: {}", name, kNeeds[static_cast<int>(layout)], why))
        .note("gpipe, 1f1b and zb-h1 take one stage per device, zb-v a V, interleaved a loop, periodic any allocation");
  };
  if (stages == 0 || stages % chunks != 0) return refuse(fmt::format("there are {} stages", stages));
  const uint32_t ranks = stages / chunks;
  Ranks devices(ranks);
  std::vector<int> rank_of(shape.devices, -1);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint32_t first = stage_of(layout, ranks, rank, 0);
    devices[rank] = shape.stages[first].devices;
    for (uint32_t chunk = 1; chunk < chunks; ++chunk) {
      const uint32_t stage = stage_of(layout, ranks, rank, chunk);
      if (shape.stages[stage].devices == devices[rank]) continue;
      return refuse(fmt::format("stages {} and {} are not on the same devices", first, stage));
    }
    for (DeviceId device : devices[rank]) {
      if (rank_of[device.index()] >= 0) {
        return refuse(fmt::format("device {} has stages {} and {}", device.index(), rank_of[device.index()], first));
      }
      rank_of[device.index()] = static_cast<int>(first);
    }
  }
  return devices;
}

/// Stages per device of a looped layout: those of the first stage's device.
uint32_t count_chunks(const PipelineShape& shape) {
  uint32_t chunks = 0;
  if (shape.stages.empty() || shape.stages[0].devices.empty()) return 1;
  for (const ir::StageShape& stage : shape.stages) {
    chunks += std::find(stage.devices.begin(), stage.devices.end(), shape.stages[0].devices[0]) != stage.devices.end();
  }
  return std::max(chunks, 1u);
}

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

struct Generated {
  Layout layout = Layout::kOnePerRank;
  uint32_t chunks = 1;
  Rows rows;
};

Result<Generated> early_backward(std::vector<uint32_t> depth, const PipelineShape& shape) {
  RANNC_TRY(check_depths(depth, shape.stages.size()));
  return Generated{Layout::kOnePerRank, 1, warmup_rows(depth, shape.micro_batch_count())};
}

Result<void> check_times(const PipelineShape& shape, const ScheduleSpec& spec) {
  const size_t p = shape.stages.size();
  if (spec.times.forward.size() != p || spec.times.backward.size() != p) {
    return error(fmt::format("schedule {} needs forward and backward times of all {} stages", spec.name, p));
  }
  if (spec.times.hop.empty() || spec.times.hop.size() + 1 == p) return {};
  return error(fmt::format("{} hop times between {} stages", spec.times.hop.size(), p));
}

Result<Generated> by_latency(const PipelineShape& shape, const ScheduleSpec& spec) {
  RANNC_TRY(check_times(shape, spec));
  return early_backward(warmup_by_latency(spec.times, spec.most), shape);
}

Result<Generated> generate(const PipelineShape& shape, const ScheduleSpec& spec) {
  const auto p = static_cast<uint32_t>(shape.stages.size());
  const uint32_t m = shape.micro_batch_count(), ranks = std::max(p / 2, 1u);
  if (spec.name == "gpipe") return Generated{Layout::kOnePerRank, 1, gpipe_rows(p, m)};
  if (spec.name == "1f1b") return early_backward(warmup_a(p), shape);
  if (spec.name == "dapple-b") return early_backward(warmup_b(p), shape);
  if (spec.name == "warmup") return early_backward(spec.warmup, shape);
  if (spec.name == "latency") return by_latency(shape, spec);
  if (spec.name == "zb-h1") return Generated{Layout::kOnePerRank, 1, zb_h1_rows(p, m)};
  if (spec.name == "zb-h2") return Generated{Layout::kOnePerRank, 1, zb_h2_rows(p, m)};
  if (spec.name == "zb-v") return Generated{Layout::kV, 2, zb_v_rows(ranks, m)};
  if (spec.name == "v-half") return Generated{Layout::kV, 2, v_half_rows(ranks, m)};
  if (spec.name == "v-min") return Generated{Layout::kV, 2, v_min_rows(ranks, m)};
  if (spec.name == "interleaved") {
    const uint32_t chunks = count_chunks(shape);
    return Generated{Layout::kLoop, chunks, interleaved_rows(std::max(p / chunks, 1u), chunks, m)};
  }
  return error(fmt::format("`{}` is no schedule; there are {}", spec.name, fmt::join(schedule_names(), ", ")));
}

/// Schedules whose rows are by device already: periodic patterns and tables.
Result<std::optional<ir::Schedule>> by_device(const PipelineShape& shape, const ScheduleSpec& spec) {
  if (spec.name == "table") {
    RANNC_ASSIGN(ir::Schedule schedule, ir::parse_schedule(spec.table, shape, spec.table_file));
    if (schedule.lowered) {
      return error(Location{spec.table_file}, "the table has sends, reductions or steps; write the computations alone");
    }
    return std::optional(std::move(schedule));
  }
  const bool star = spec.name == "1f1b-star" || spec.name == "k-periodic";
  if (!star && spec.name != "periodic") return std::optional<ir::Schedule>();
  RANNC_TRY(check_times(shape, spec));
  if (spec.name == "k-periodic" && spec.k == 0) return error("schedule k-periodic needs a positive k");
  if (star) RANNC_TRY(find_ranks(shape, Layout::kOnePerRank, 1, spec.name));
  const double period = spec.period > 0 ? spec.period : smallest_period(shape, spec.times);
  RANNC_ASSIGN(const Pattern pattern,
               star ? one_f_one_b_star(spec.times, period) : allocation_pattern(shape, spec.times, period));
  ir::Schedule schedule;
  schedule.name = spec.name;
  schedule.rows = pattern_rows(shape, pattern, spec.name == "k-periodic" ? spec.k : 0);
  return std::optional(std::move(schedule));
}

ir::Schedule forward_only(ir::Schedule schedule) {
  for (auto& row : schedule.rows) {
    std::erase_if(row, [](const Action& action) { return action.kind != ActionKind::kForward; });
  }
  return schedule;
}

}  // namespace

std::vector<std::string_view> schedule_names() {
  return {"gpipe", "1f1b",   "dapple-b", "warmup",    "latency",    "interleaved", "zb-h1", "zb-h2",
          "zb-v",  "v-half", "v-min",    "1f1b-star", "k-periodic", "periodic",    "table"};
}

ir::Schedule place_rows(const PipelineShape& shape, std::string name, const Rows& rows, const Ranks& devices) {
  ir::Schedule schedule;
  schedule.name = std::move(name);
  schedule.rows.resize(shape.devices);
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    for (DeviceId device : devices[rank]) schedule.rows[device.index()] = rows[rank];
  }
  return schedule;
}

Result<ir::Schedule> make_schedule(const PipelineShape& shape, const ScheduleSpec& spec) {
  RANNC_ASSIGN(std::optional<ir::Schedule> placed, by_device(shape, spec));
  if (!placed) {
    RANNC_ASSIGN(const Generated generated, generate(shape, spec));
    RANNC_ASSIGN(const Ranks ranks, find_ranks(shape, generated.layout, generated.chunks, spec.name));
    placed = place_rows(shape, spec.name, generated.rows, ranks);
  }
  ir::Schedule schedule = *std::move(placed);
  return shape.training ? ir::add_recompute(shape, std::move(schedule)) : forward_only(std::move(schedule));
}

}  // namespace rannc::partition
