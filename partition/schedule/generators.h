/// Generates the published schedules: rows of compute actions by rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/schedule/pipeline_shape.h"
#include "ir/schedule/schedule.h"

namespace rannc::partition {

/// Actions by rank, in order. A rank is a position in the pipeline; `make_schedule` assigns its row to each of its
/// devices. One stage per rank: stage = rank. Two in a V: stages r and 2·ranks−1−r. Looped: stages r, r+ranks,
/// r+2·ranks …
using Rows = std::vector<std::vector<ir::Action>>;

/// GPipe: all forwards, then all backwards, last micro-batch first. Idle (p−1)(F+B), peak m.
///   0: F0 F1 F2 B2 B1 B0
///   1: F0 F1 F2 B2 B1 B0
Rows gpipe_rows(uint32_t stages, uint32_t micro_batches);

/// Early backward (DAPPLE 3.2, 5.3): depth[s] forwards, then one backward, one forward …, then the remaining backwards.
/// Peak min(m, depth[s]) for every m. Depths must be positive and non-increasing.
///   0: F0 F1 B0 F2 B1 B2     depth 2
///   1: F0 B0 F1 B1 F2 B2     depth 1
Rows warmup_rows(std::span<const uint32_t> depth, uint32_t micro_batches);

/// One micro-batch at a time through all stages, which may share devices: no schedule holds less. Rows by device.
///   0 (stages 0 and 2): F0 F0' B0' B0 F1 F1' B1' B1
///   1 (stage 1):        F0 B0 F1 B1
Rows serial_rows(const ir::PipelineShape& shape);

/// DAPPLE P_A, which is 1F1B: depth p−s.
std::vector<uint32_t> warmup_a(uint32_t stages);
/// DAPPLE P_B: depth 2(p−s)−1, which is P_A with every hop counted as a stage.
std::vector<uint32_t> warmup_b(uint32_t stages);

/// ZB-H1 (arXiv 2401.10241): 1F1B with B split; after I(j) follows W(j−s). Idle (p−1)(F+I−W), peak p on all stages.
///   0: F0 F1 I0 W0 F2 I1 W1 I2 W2
///   1: F0 I0 F1 I1 W0 F2 I2 W1 W2
Rows zb_h1_rows(uint32_t stages, uint32_t micro_batches);
/// ZB-H2: depths of P_B, W lags by 2s. Idle (p−1)(F+I−2W) inside each row, peak 2p−1 on all stages.
Rows zb_h2_rows(uint32_t stages, uint32_t micro_batches);

/// Interleaved 1F1B (arXiv 2104.04473): stage = chunk·ranks + rank. 2(ranks−rank−1) + (chunks−1)·ranks forwards, then
/// pairs of forward and backward. The n-th forward is of chunk (n mod ranks·chunks) div ranks; backwards take the
/// chunks in reverse. If micro-batches do not fill the last round, the missing ones are omitted from the rows of a full
/// round, which keeps the order acyclic. Idle (ranks−1)(F+B)/chunks.
Rows interleaved_rows(uint32_t ranks, uint32_t chunks, uint32_t micro_batches);

/// ZB-V (arXiv 2401.10241, section 6): V placement; no idle time inside a row where F = I = W; peak 2·ranks chunks.
Rows zb_v_rows(uint32_t ranks, uint32_t micro_batches);

/// V-Half and V-Min (arXiv 2405.15362): V placement. A building block is repeated every six slots, then moved to
/// earlier slots if that raises no peak. Peaks (ranks+2) div 2 and (ranks+4) div 3 activations of a whole rank.
Rows v_half_rows(uint32_t ranks, uint32_t micro_batches);
Rows v_min_rows(uint32_t ranks, uint32_t micro_batches);

}  // namespace rannc::partition
