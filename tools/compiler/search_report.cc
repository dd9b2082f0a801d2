#include "tools/compiler/search_report.h"

#include <fmt/format.h>

namespace rannc::tools {

std::vector<std::string> warnings_of(const partition::StagePlan& plan) {
  std::vector<std::string> warnings;
  for (const std::string& note : plan.notes) {
    const bool describes = note.starts_with("found by ") || note.starts_with("pipeline latency ") ||
                           note.starts_with("the blocks beside the cuts ") ||
                           note.starts_with("no plan with one stage per device ");
    if (!describes) warnings.push_back(note);
  }
  if (plan.lower_bound > 0 && !is_exact(plan)) {
    warnings.push_back(fmt::format("not proved optimal: the gap to the bound is {:.2f} %", 100 * plan.gap()));
  }
  return warnings;
}

bool is_exact(const partition::StagePlan& plan) { return plan.objective <= plan.lower_bound * (1 + 1e-9); }

}  // namespace rannc::tools
