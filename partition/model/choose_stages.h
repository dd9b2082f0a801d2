/// Chooses a model's blocks with their stages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "partition/model/plan_model.h"
#include "partition/model/planning_steps.h"
#include "partition/stages/planner.h"
#include "partition/stages/search/auto.h"

namespace rannc::partition {

constexpr uint32_t kMostBlocks = 256;  ///< largest number tried if fewer blocks leave no plan

/// Reports that more blocks than requested are used.
std::string finer_remark(uint32_t requested, uint32_t used);

/// Makes planner `auto`.
using MakeAuto = std::function<std::unique_ptr<StagePlanner>(AutoOptions)>;

/// Cuts blocks and chooses their stages. While no plan fits, doubles the number of blocks, up to `kMostBlocks`. Planner
/// `auto` does so under the schedules that it tries first, then under those that hold least: over finer blocks the
/// first are faster. No search is repeated: the second ones get the refusals of the first (`AutoOptions::refused`).
/// `memory`: limits by kind of device.
Result<std::variant<PlannedModel, Infeasible>> choose_stages(const StagePlanner& planner, const PlanOptions& options,
                                                             const ModelFacts& facts, const KindMemory& memory,
                                                             const MakeAuto& make_auto = auto_planner);

}  // namespace rannc::partition
