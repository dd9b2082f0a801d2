#include "tools/compiler/search_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>

namespace rannc::tools {

namespace {

/// Beginnings of notes that describe a plan. `--explain` prints them.
constexpr std::string_view kDescriptions[] = {
    "found by ",
    "pipeline latency ",
    "splitting the blocks beside the cuts, ",
    "choosing stages by what their memory lets them keep ",
    "largest block by ",
    "no plan with one stage per device ",
    "measured stages: ",
    "speedup ",
};

bool describes(const std::string& note) {
  return std::any_of(std::begin(kDescriptions), std::end(kDescriptions),
                     [&](std::string_view start) { return note.starts_with(start); });
}

}  // namespace

std::vector<std::string> warnings_of(const partition::StagePlan& plan) {
  std::vector<std::string> warnings;
  std::copy_if(plan.notes.begin(), plan.notes.end(), std::back_inserter(warnings), std::not_fn(&describes));
  if (plan.lower_bound > 0 && !is_exact(plan)) {
    const double percent = 100 * plan.gap();
    const std::string gap = percent < 0.005 ? "below 0.01 %" : fmt::format("{:.2f} %", percent);
    warnings.push_back("not proved optimal: the gap to the bound is " + gap);
  }
  return warnings;
}

bool is_exact(const partition::StagePlan& plan) { return plan.objective <= plan.lower_bound * (1 + 1e-9); }

}  // namespace rannc::tools
