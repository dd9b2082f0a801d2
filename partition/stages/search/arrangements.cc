#include "partition/stages/search/arrangements.h"

#include <algorithm>

#include "partition/schedule/family.h"
#include "partition/stages/covers/cover_plan.h"

namespace rannc::partition {
namespace {

bool any_with(const std::vector<std::string>& schedules, StageLayout layout) {
  return std::any_of(schedules.begin(), schedules.end(), [layout](const std::string& name) {
    const ScheduleFamily* family = find_schedule(name);
    return family != nullptr && family->layout == layout;
  });
}

}  // namespace

uint32_t shared_stages(const StageProblem& problem) { return problem.constraints.stages_per_device.value_or(2); }

std::vector<Arrangement> arrangements(const StageProblem& problem, const std::vector<std::string>& schedules) {
  const uint32_t shared = shared_stages(problem);
  const bool any = any_with(schedules, StageLayout::kAny);
  std::vector<Arrangement> found;
  if (problem.constraints.stages_per_device.value_or(1) == 1 && (any || any_with(schedules, StageLayout::kOnePerRank)))
    found.push_back({});
  if (shared == 2 && (any || any_with(schedules, StageLayout::kV))) found.push_back({StageLayout::kV, shared});
  if (shared >= 2 && (any || any_with(schedules, StageLayout::kLoop))) found.push_back({StageLayout::kLoop, shared});
  if (shared >= 2 && any) found.push_back({StageLayout::kAny, shared});
  return found;
}

uint32_t most_stages_per_device(const std::vector<Arrangement>& all) {
  uint32_t most = 1;
  for (const Arrangement& one : all) most = std::max(most, one.chunks);
  return most;
}

StageCount stage_count(const StageProblem& problem, const Arrangement& arrangement) {
  if (arrangement.layout == StageLayout::kOnePerRank) return stage_count(problem);
  const StageConstraints& given = problem.constraints;
  uint32_t most = std::min(problem.blocks, given.max_stages.value_or(problem.blocks));
  most = static_cast<uint32_t>(std::min<uint64_t>(most, uint64_t{arrangement.chunks} * problem.cluster.size()));
  if (arrangement.layout == StageLayout::kAny)
    return {given.stages.value_or(1), std::min(most, given.stages.value_or(most))};
  most -= most % arrangement.chunks;
  if (!given.stages) return {arrangement.chunks, most};
  if (*given.stages % arrangement.chunks != 0) return {1, 0};
  return {*given.stages, std::min(most, *given.stages)};
}

}  // namespace rannc::partition
