/// Shapes of pipelines that the tests of schedules share.
#pragma once

#include "ir/schedule/schedule.h"
#include "partition/schedule/family.h"

namespace rannc::partition {

/// A chain of stages on `ranks` devices: one stage per rank, or two in a V or a loop.
inline ir::PipelineShape laid_out(StageLayout layout, uint32_t ranks, uint32_t micro_batches) {
  ir::PipelineShape shape = ir::chain_shape(layout == StageLayout::kOnePerRank ? ranks : 2 * ranks, micro_batches);
  shape.devices = ranks;
  for (uint32_t s = ranks; s < shape.stages.size(); ++s) {
    shape.stages[s].devices = {DeviceId(layout == StageLayout::kV ? 2 * ranks - 1 - s : s - ranks)};
  }
  return shape;
}

}  // namespace rannc::partition
