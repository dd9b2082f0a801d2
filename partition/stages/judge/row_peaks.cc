#include "partition/stages/judge/row_peaks.h"

#include <algorithm>

namespace rannc::partition {
namespace {

double single_stage_peak(const std::vector<ir::Action>& row, const StageBytes& bytes, uint64_t all) {
  uint64_t now = 0, held = 0, passing = 0, flying = 0;  // until W or B; until I or B
  bool parted = false;
  for (const ir::Action& action : row) {
    const bool input = ir::computes_input_gradient(action.kind), weight = ir::adds_weight_gradient(action.kind);
    if (ir::is_forward(action.kind)) {
      held = std::max(held, ++now);
      flying = std::max(flying, ++passing);
    }
    if (input) --passing;
    if (weight) --now;
    parted = parted || (input && !weight);
  }
  if (!parted) return bytes.peak(static_cast<double>(held), static_cast<double>(all));
  return bytes.parted_peak(static_cast<double>(flying), static_cast<double>(held - flying));
}

}  // namespace

double row_peak_bytes(const std::vector<ir::Action>& row, std::span<const StageId> stages,
                      std::span<const StageBytes> bytes, uint64_t all) {
  if (stages.size() == 1) return single_stage_peak(row, bytes[stages[0].index()], all);
  double live = 0;
  for (const StageId stage : stages) {
    const StageBytes& own = bytes[stage.index()];
    live += own.standing - own.working - own.gradients;
  }
  double most = live;
  std::vector<uint64_t> summed(bytes.size(), 0);  // micro-batches
  for (const ir::Action& action : row) {
    const StageBytes& own = bytes[action.stage.index()];
    const double passing = own.working - own.repeated;
    const bool input = ir::computes_input_gradient(action.kind), weight = ir::adds_weight_gradient(action.kind);
    if (input) most = std::max(most, live + own.working);
    if (ir::is_forward(action.kind)) live += own.in_flight;
    if (input && !weight) {
      live += own.added_by_input_gradient();
      most = std::max(most, live + passing + own.parted);
    }
    const bool last = weight && ++summed[action.stage.index()] == all;
    if (last) most = std::max(most, live + passing + own.sums);  // which begin while the micro-batch is there
    if (weight) live -= own.in_flight;
    if (weight && !input) live -= own.added_by_input_gradient();
    if (weight && summed[action.stage.index()] == 1) live += own.gradients;
    if (last) live += own.sums;
    most = std::max(most, live + passing);
  }
  return most;
}

}  // namespace rannc::partition
