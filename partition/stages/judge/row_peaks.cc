#include "partition/stages/judge/row_peaks.h"

#include <algorithm>

namespace rannc::partition {
namespace {

using ir::ActionKind;

double single_stage_peak(const std::vector<ir::Action>& row, const StageBytes& bytes, uint64_t all) {
  uint64_t now = 0, held = 0, passing = 0, flying = 0;  // until W or B; until I or B
  bool parted = false;
  for (const ir::Action& action : row) {
    const bool input = action.kind == ActionKind::kInputGradient, both = action.kind == ActionKind::kBackward;
    if (action.kind == ActionKind::kForward) {
      held = std::max(held, ++now);
      flying = std::max(flying, ++passing);
    }
    if (input || both) --passing;
    if (both || action.kind == ActionKind::kWeightGradient) --now;
    parted = parted || input;
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
  std::vector<bool> summed(bytes.size(), false);
  for (const ir::Action& action : row) {
    const StageBytes& own = bytes[action.stage.index()];
    const double passing = own.working - own.repeated;
    const bool input = action.kind == ActionKind::kInputGradient, weight = action.kind == ActionKind::kWeightGradient;
    const bool both = action.kind == ActionKind::kBackward;
    if (input || both) most = std::max(most, live + own.working);
    if (action.kind == ActionKind::kForward) live += own.in_flight;
    if (input) live += own.added_by_input_gradient();
    if (both || weight) live -= own.in_flight;
    if (weight) live -= own.added_by_input_gradient();
    if ((both || weight) && !summed[action.stage.index()]) {
      summed[action.stage.index()] = true;
      live += own.gradients;
    }
    most = std::max(most, live + passing);
  }
  return most;
}

}  // namespace rannc::partition
