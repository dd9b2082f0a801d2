/// Shapes of pipelines that the tests of schedules share.
#pragma once

#include "ir/schedule.h"

namespace rannc::partition {

/// One stage per rank; two stages per rank in a V (r and 2p−1−r); two stages per rank in a loop (r and r+p).
enum class Layout { kLine, kV, kLoop2 };

/// A chain of stages on `ranks` devices.
inline ir::PipelineShape laid_out(Layout layout, uint32_t ranks, uint32_t micro_batches) {
  ir::PipelineShape shape = ir::chain_shape(layout == Layout::kLine ? ranks : 2 * ranks, micro_batches);
  shape.devices = ranks;
  for (uint32_t s = ranks; s < shape.stages.size(); ++s) {
    shape.stages[s].devices = {DeviceId(layout == Layout::kV ? 2 * ranks - 1 - s : s - ranks)};
  }
  return shape;
}

}  // namespace rannc::partition
