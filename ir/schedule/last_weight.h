/// Where gradients become final in a row.
#pragma once

#include <map>
#include <vector>

#include "ir/schedule/schedule.h"

namespace rannc::ir {

/// By stage: position of its last B or W in a row.
inline std::map<StageId, size_t> last_weights(const std::vector<Action>& row) {
  std::map<StageId, size_t> found;
  for (size_t i = 0; i < row.size(); ++i) {
    if (adds_weight_gradient(row[i].kind)) found[row[i].stage] = i;
  }
  return found;
}

}  // namespace rannc::ir
