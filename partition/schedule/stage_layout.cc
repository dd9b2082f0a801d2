#include "partition/schedule/stage_layout.h"

#include <algorithm>

namespace rannc::partition {

uint32_t rank_of(StageLayout layout, uint32_t ranks, uint32_t stage) {
  if (layout == StageLayout::kV && stage >= ranks) return 2 * ranks - 1 - stage;
  return stage % ranks;
}

uint32_t stage_of(StageLayout layout, uint32_t ranks, uint32_t rank, uint32_t chunk) {
  if (layout == StageLayout::kV) return chunk == 0 ? rank : 2 * ranks - 1 - rank;
  return chunk * ranks + rank;
}

bool has_layout(StageLayout layout, std::span<const uint32_t> rank_of_stage) {
  if (layout == StageLayout::kAny || rank_of_stage.empty()) return true;
  const auto stages = static_cast<uint32_t>(rank_of_stage.size());
  const uint32_t ranks = 1 + *std::max_element(rank_of_stage.begin(), rank_of_stage.end());
  if (layout == StageLayout::kOnePerRank) {
    if (stages != ranks) return false;
  } else if (layout == StageLayout::kV ? stages != 2 * ranks : stages % ranks != 0 || stages == ranks) {
    return false;
  }
  for (uint32_t s = 0; s < stages; ++s) {
    if (rank_of_stage[s] != rank_of(layout, ranks, s)) return false;
  }
  return true;
}

}  // namespace rannc::partition
