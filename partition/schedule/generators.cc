/// GPipe, early backward with any warm-up, zero-bubble H and interleaved rows.
#include "partition/schedule/generators.h"

#include <algorithm>

namespace rannc::partition {
namespace {

using ir::Action;
using ir::ActionKind;

Action act(ActionKind kind, uint32_t stage, uint32_t micro_batch) {
  return ir::compute_action(kind, StageId(stage), micro_batch);
}

/// Early backward with I for B, and W(j − lag) behind I(j).
std::vector<Action> split_row(uint32_t stage, uint32_t depth, uint32_t lag, uint32_t m) {
  std::vector<Action> row;
  uint32_t forwards = std::min(depth, m), weights = 0;
  for (uint32_t j = 0; j < forwards; ++j) row.push_back(act(ActionKind::kForward, stage, j));
  for (uint32_t j = 0; j < m; ++j) {
    row.push_back(act(ActionKind::kInputGradient, stage, j));
    if (j >= lag) row.push_back(act(ActionKind::kWeightGradient, stage, weights++));
    if (forwards < m) row.push_back(act(ActionKind::kForward, stage, forwards++));
  }
  while (weights < m) row.push_back(act(ActionKind::kWeightGradient, stage, weights++));
  return row;
}

}  // namespace

Rows gpipe_rows(uint32_t stages, uint32_t micro_batches) {
  Rows rows(stages);
  for (uint32_t s = 0; s < stages; ++s) {
    for (uint32_t j = 0; j < micro_batches; ++j) rows[s].push_back(act(ActionKind::kForward, s, j));
    for (uint32_t j = micro_batches; j-- > 0;) rows[s].push_back(act(ActionKind::kBackward, s, j));
  }
  return rows;
}

Rows warmup_rows(std::span<const uint32_t> depth, uint32_t micro_batches) {
  Rows rows(depth.size());
  for (uint32_t s = 0; s < depth.size(); ++s) {
    uint32_t forwards = std::min(depth[s], micro_batches);
    for (uint32_t j = 0; j < forwards; ++j) rows[s].push_back(act(ActionKind::kForward, s, j));
    for (uint32_t j = 0; j < micro_batches; ++j) {
      rows[s].push_back(act(ActionKind::kBackward, s, j));
      if (forwards < micro_batches) rows[s].push_back(act(ActionKind::kForward, s, forwards++));
    }
  }
  return rows;
}

Rows serial_rows(const ir::PipelineShape& shape) {
  Rows rows(shape.devices);
  const auto stages = static_cast<uint32_t>(shape.stages.size());
  const auto add = [&](ActionKind kind, uint32_t s, uint32_t j) {
    for (const DeviceId device : shape.stages[s].devices) rows[device.index()].push_back(act(kind, s, j));
  };
  for (uint32_t j = 0; j < shape.micro_batch_count(); ++j) {
    for (uint32_t s = 0; s < stages; ++s) add(ActionKind::kForward, s, j);
    for (uint32_t s = stages; s-- > 0;) add(ActionKind::kBackward, s, j);
  }
  return rows;
}

std::vector<uint32_t> warmup_a(uint32_t stages) {
  std::vector<uint32_t> depth;
  for (uint32_t s = 0; s < stages; ++s) depth.push_back(stages - s);
  return depth;
}

std::vector<uint32_t> warmup_b(uint32_t stages) {
  std::vector<uint32_t> depth;
  for (uint32_t s = 0; s < stages; ++s) depth.push_back(2 * (stages - s) - 1);
  return depth;
}

Rows zb_h1_rows(uint32_t stages, uint32_t micro_batches) {
  Rows rows;
  for (uint32_t s = 0; s < stages; ++s) rows.push_back(split_row(s, stages - s, s, micro_batches));
  return rows;
}

Rows zb_h2_rows(uint32_t stages, uint32_t micro_batches) {
  Rows rows;
  for (uint32_t s = 0; s < stages; ++s) rows.push_back(split_row(s, 2 * (stages - s) - 1, 2 * s, micro_batches));
  return rows;
}

Rows interleaved_rows(uint32_t ranks, uint32_t chunks, uint32_t micro_batches) {
  const uint32_t rounds = (micro_batches + ranks - 1) / ranks;
  const uint32_t total = rounds * ranks * chunks, round = ranks * chunks;
  Rows rows(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto add = [&](ActionKind kind, uint32_t n) {
      const uint32_t place = n % round / ranks;
      const uint32_t chunk = kind == ActionKind::kForward ? place : chunks - 1 - place;
      const uint32_t micro_batch = n / round * ranks + n % ranks;
      if (micro_batch < micro_batches) rows[rank].push_back(act(kind, chunk * ranks + rank, micro_batch));
    };
    const uint32_t warmup = std::min(total, 2 * (ranks - rank - 1) + (chunks - 1) * ranks);
    for (uint32_t n = 0; n < warmup; ++n) add(ActionKind::kForward, n);
    for (uint32_t n = 0; n < total; ++n) {
      if (warmup + n < total) add(ActionKind::kForward, warmup + n);
      add(ActionKind::kBackward, n);
    }
  }
  return rows;
}

}  // namespace rannc::partition
