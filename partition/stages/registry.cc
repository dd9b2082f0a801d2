#include "partition/stages/registry.h"

#include <algorithm>
#include <limits>

#include "partition/stages/papers/balance.h"
#include "partition/stages/papers/dapple.h"
#include "partition/stages/papers/dapple_released.h"
#include "partition/stages/papers/pipedream.h"
#include "partition/stages/papers/rannc_paper.h"
#include "partition/stages/search/auto.h"
#include "partition/stages/search/exact.h"

namespace rannc::partition {
namespace {

using Factory = std::unique_ptr<StagePlanner> (*)();

constexpr double kAnySize = std::numeric_limits<double>::infinity();

struct Entry {
  const char* name;
  Factory make;
  double reach;  ///< blocks * devices up to which `auto` runs it, so that a search stays within a second; 0: never
  double most_devices = kAnySize;  ///< likewise
};

constexpr Entry kPlanners[] = {
    {"auto", [] { return auto_planner(); }, 0},
    {"exact", [] { return exact_planner(); }, 0},
    {"rannc", [] { return rannc_planner(); }, kAnySize},
    {"rannc-paper", [] { return rannc_paper_planner(); }, 0},
    {"rannc-anchored", [] { return rannc_paper_planner(PaperReading::kAnchored); }, 16384},
    {"dapple", [] { return dapple_planner(); }, 2048, 16},
    {"dapple-released", [] { return dapple_released_planner(); }, 4096},
    {"pipedream", [] { return pipedream_planner(); }, 16384},
    {"gpipe", [] { return gpipe_planner(); }, kAnySize},
    {"gpipe-size", [] { return gpipe_planner(BalanceBy::kSize); }, kAnySize},
    {"gpipe-exact", [] { return gpipe_planner(BalanceBy::kTime, BalanceMethod::kExact); }, kAnySize},
    {"gpipe-size-exact", [] { return gpipe_planner(BalanceBy::kSize, BalanceMethod::kExact); }, kAnySize},
};

}  // namespace

std::vector<std::string> stage_planner_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kPlanners) names.push_back(entry.name);
  return names;
}

std::vector<std::string> rival_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kPlanners) {
    if (entry.reach > 0) names.push_back(entry.name);
  }
  return names;
}

bool within_reach(std::string_view name, const StageProblem& problem) {
  const double size = static_cast<double>(problem.blocks) * problem.cluster.size();
  return std::any_of(std::begin(kPlanners), std::end(kPlanners), [&](const Entry& entry) {
    return name == entry.name && size <= entry.reach && problem.cluster.size() <= entry.most_devices;
  });
}

std::unique_ptr<StagePlanner> make_planner(std::string_view name) {
  for (const Entry& entry : kPlanners) {
    if (name == entry.name) return entry.make();
  }
  return nullptr;
}

}  // namespace rannc::partition
