/// Defines the arrangements of stages on devices that schedules are made for.
#pragma once

#include <cstdint>
#include <span>

namespace rannc::partition {

/// Arrangement of stages on p ranks. A rank is a device, or a group of devices that hold the same stages.
enum class StageLayout : uint8_t {
  kOnePerRank,  ///< stage r on rank r
  kV,           ///< stages r and 2p-1-r on rank r
  kLoop,        ///< stages r, r+p, r+2p ... on rank r; as many as the first device holds
  kAny,         ///< any allocation of stages to devices
};

/// Rank of a stage. In `kAny`, that of a loop in which stages may be missing.
uint32_t rank_of(StageLayout layout, uint32_t ranks, uint32_t stage);

/// Stage of a rank. Its stages are counted from 0 as `chunk`. Not for `kAny`.
uint32_t stage_of(StageLayout layout, uint32_t ranks, uint32_t rank, uint32_t chunk);

/// Whether stages with these ranks form the layout. A V has two stages per rank, a loop at least two.
bool has_layout(StageLayout layout, std::span<const uint32_t> rank_of_stage);

}  // namespace rannc::partition
