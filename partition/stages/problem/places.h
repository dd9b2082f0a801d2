/// Groups the stages of a plan by the devices that they share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partition/schedule/stage_layout.h"
#include "partition/stages/problem/plan.h"

namespace rannc::partition {

/// A place is a device, or the devices of a replicated stage, with all stages that they hold. Places are numbered by
/// their first stage.
struct StagePlaces {
  std::vector<uint32_t> of_stage;
  std::vector<uint32_t> first_stage;  ///< by place

  uint32_t count() const { return static_cast<uint32_t>(first_stage.size()); }
  /// Number of stages of the place with most of them.
  uint32_t most_stages() const;
  /// Whether a device holds several stages.
  bool shared() const { return first_stage.size() < of_stage.size(); }
};

/// Stages that share a device must share all of their devices (rule V2).
StagePlaces places_of(const StagePlan& plan);

/// Whether the plan's schedule computes W apart from I.
bool parts_backward(const StagePlan& plan);

/// Whether a schedule of this name is made for the arrangement of the plan's stages.
bool suits(const std::string& schedule, const StagePlan& plan);

}  // namespace rannc::partition
