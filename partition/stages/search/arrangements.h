/// Arrangements of stages on devices that a search tries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/schedule/stage_layout.h"
#include "partition/stages/covers/cover.h"
#include "partition/stages/problem/problem.h"

namespace rannc::partition {

/// A layout with its number of stages per device. In `kAny`, a device holds at most that many.
struct Arrangement {
  StageLayout layout = StageLayout::kOnePerRank;
  uint32_t chunks = 1;
  bool operator==(const Arrangement&) const = default;
};

/// Number of stages that may share a device: as specified, otherwise two.
uint32_t shared_stages(const StageProblem& problem);

/// Returns the arrangements for which some of the schedules are made, within the problem's constraints: one stage per
/// device first. Two stages share a device unless the constraints specify another number.
std::vector<Arrangement> arrangements(const StageProblem& problem, const std::vector<std::string>& schedules);

/// Largest number of stages per device among the arrangements.
uint32_t most_stages_per_device(const std::vector<Arrangement>& all);

/// Numbers of stages that constraints, blocks and devices allow. None if `most` is less than `least`.
StageCount stage_count(const StageProblem& problem, const Arrangement& arrangement);

}  // namespace rannc::partition
