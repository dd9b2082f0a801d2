/// Runs the generator of a schedule and places its rows on devices.
#include "partition/schedule/make_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/schedule/lower_schedule.h"

namespace rannc::partition {
namespace {

using ir::Action;
using ir::ActionKind;
using ir::PipelineShape;
using Ranks = std::vector<std::vector<DeviceId>>;

std::string families_of(StageLayout layout) {
  std::vector<std::string_view> names;
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.layout == layout) names.push_back(family.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Returns the devices of each rank if the shape has this layout: all stages of a rank on the same devices, in the same
/// order, and no device in two ranks.
Result<Ranks> find_ranks(const PipelineShape& shape, StageLayout layout, uint32_t chunks, const std::string& name) {
  const auto stages = static_cast<uint32_t>(shape.stages.size());
  const auto refuse = [&](const std::string& why) {
    static constexpr std::string_view kNeeds[] = {"one stage per device", "stages r and 2p-1-r on rank r of p",
                                                  "stages r, r+p, r+2p ... on rank r of p"};
    return error(fmt::format("schedule {} needs {}: {}", name, kNeeds[static_cast<int>(layout)], why))
        .note(fmt::format("one stage per device: {}; a V: {}; a loop: {}; any allocation: {}",
                          families_of(StageLayout::kOnePerRank), families_of(StageLayout::kV),
                          families_of(StageLayout::kLoop), families_of(StageLayout::kAny)));
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

/// Number of stages per device of a looped layout, from the first stage's device.
uint32_t count_chunks(const PipelineShape& shape) {
  uint32_t chunks = 0;
  if (shape.stages.empty() || shape.stages[0].devices.empty()) return 1;
  for (const ir::StageShape& stage : shape.stages) {
    chunks += std::find(stage.devices.begin(), stage.devices.end(), shape.stages[0].devices[0]) != stage.devices.end();
  }
  return std::max(chunks, 1u);
}

GeneratorInput input_of(const PipelineShape& shape, const ScheduleSpec& spec, StageLayout layout) {
  const auto stages = static_cast<uint32_t>(shape.stages.size());
  const uint32_t chunks = layout == StageLayout::kV ? 2 : layout == StageLayout::kLoop ? count_chunks(shape) : 1;
  return {shape, spec, std::max(stages / chunks, 1u), chunks, shape.micro_batch_count()};
}

Result<ir::Schedule> generate(const ScheduleFamily& family, const GeneratorInput& in) {
  ir::Schedule schedule;
  Rows rows;
  if (family.by_device != nullptr) {
    RANNC_ASSIGN(schedule, family.by_device(in));
  } else {
    RANNC_ASSIGN(rows, family.by_rank(in));
  }
  if (family.layout == StageLayout::kAny) return schedule;
  RANNC_ASSIGN(const Ranks ranks, find_ranks(in.shape, family.layout, in.chunks, in.spec.name));
  return family.by_device != nullptr ? schedule : place_rows(in.shape, in.spec.name, rows, ranks);
}

ir::Schedule forward_only(ir::Schedule schedule) {
  for (auto& row : schedule.rows) {
    std::erase_if(row, [](const Action& action) { return action.kind != ActionKind::kForward; });
  }
  return schedule;
}

}  // namespace

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
  const ScheduleFamily* family = find_schedule(spec.name);
  if (family == nullptr) {
    return error(
        fmt::format("`{}` is not a schedule; the schedules are {}", spec.name, fmt::join(schedule_names(), ", ")));
  }
  RANNC_ASSIGN(ir::Schedule schedule, generate(*family, input_of(shape, spec, family->layout)));
  if (schedule.lowered) return schedule;
  return shape.training ? ir::add_recompute(shape, std::move(schedule), spec.recomputed)
                        : forward_only(std::move(schedule));
}

}  // namespace rannc::partition
