#include "partition/stages/registry.h"

#include "partition/stages/auto.h"
#include "partition/stages/balance.h"
#include "partition/stages/dapple.h"
#include "partition/stages/dapple_released.h"
#include "partition/stages/pipedream.h"
#include "partition/stages/rannc_paper.h"

namespace rannc::partition {
namespace {

using Factory = std::unique_ptr<StagePlanner> (*)();

struct Entry {
  const char* name;
  Factory make;
  bool rival;
};

constexpr Entry kPlanners[] = {
    {"auto", [] { return auto_planner(); }, false},
    {"rannc", [] { return rannc_planner(); }, true},
    {"rannc-paper", [] { return rannc_paper_planner(); }, false},
    {"rannc-anchored", [] { return rannc_paper_planner(PaperReading::kAnchored); }, true},
    {"dapple", [] { return dapple_planner(); }, true},
    {"dapple-released", [] { return dapple_released_planner(); }, true},
    {"pipedream", [] { return pipedream_planner(); }, true},
    {"gpipe", [] { return gpipe_planner(); }, true},
    {"gpipe-size", [] { return gpipe_planner(BalanceBy::kSize); }, true},
    {"gpipe-exact", [] { return gpipe_planner(BalanceBy::kTime, BalanceMethod::kExact); }, true},
    {"gpipe-size-exact", [] { return gpipe_planner(BalanceBy::kSize, BalanceMethod::kExact); }, true},
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
    if (entry.rival) names.push_back(entry.name);
  }
  return names;
}

std::unique_ptr<StagePlanner> make_planner(std::string_view name) {
  for (const Entry& entry : kPlanners) {
    if (name == entry.name) return entry.make();
  }
  return nullptr;
}

}  // namespace rannc::partition
