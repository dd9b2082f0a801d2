#include "tools/compiler/plan_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/base/name_pattern.h"
#include "partition/stages/registry.h"
#include "tools/common/units.h"

namespace rannc::tools {

namespace {

/// Returns the atoms with the exact name, else those that match the pattern. Ascending, distinct.
Result<std::vector<uint32_t>> atoms_named(const std::string& wanted, const std::string& source,
                                          const std::vector<AtomName>& names) {
  std::set<uint32_t> found;
  for (const AtomName& name : names) {
    if (name.name == wanted) found.insert(name.atom);
  }
  if (found.empty() && wanted.find_first_of("*?") != std::string::npos) {
    for (const AtomName& name : names) {
      if (fits_pattern(name.name, wanted)) found.insert(name.atom);
    }
  }
  if (!found.empty()) return std::vector<uint32_t>(found.begin(), found.end());
  Diagnostic none = error(fmt::format("{}: no task is called '{}'", source, wanted));
  if (!names.empty())
    none.notes.push_back({{}, fmt::format("an example of a task's name is '{}'", names.front().name)});
  return none;
}

std::string name_of(uint32_t atom, const std::vector<AtomName>& names) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const AtomName& name) { return name.atom == atom; });
  return found == names.end() ? std::to_string(atom) : found->name;
}

Result<void> add_pin(const PlanRequest& request, const TaskPin& pin, const std::vector<AtomName>& names,
                     std::map<uint32_t, uint32_t>& stage_of) {
  RANNC_CHECK(request.options.constraints.stages) << pin.source << " without a number of stages";
  const uint32_t stages = *request.options.constraints.stages;
  if (pin.stage >= stages)
    return error(
        fmt::format("{}: stage {} does not exist; the {} stages are counted from 0", pin.source, pin.stage, stages));
  RANNC_ASSIGN(const std::vector<uint32_t> atoms, atoms_named(pin.task, pin.source, names));
  for (const uint32_t atom : atoms) {
    const auto [known, fresh] = stage_of.emplace(atom, pin.stage);
    if (!fresh && known->second != pin.stage) {
      return error(
          fmt::format("{}: '{}' is already pinned to stage {}", pin.source, name_of(atom, names), known->second));
    }
  }
  return {};
}

}  // namespace

bool PlanRequest::on_processor() const {
  const std::vector<std::string> kinds = options.cluster.used_kinds();
  return std::all_of(kinds.begin(), kinds.end(), [&](const auto& kind) { return processor_kinds.contains(kind); });
}

Result<partition::AtomDemands> named_demands(const PlanRequest& request, const std::vector<AtomName>& names) {
  partition::AtomDemands found;
  std::map<uint32_t, uint32_t> stage_of;
  for (const TaskPin& pin : request.pins) RANNC_TRY(add_pin(request, pin, names, stage_of));
  for (const auto& [atom, stage] : stage_of) found.pins.push_back({atom, stage});
  for (const TasksTogether& pair : request.together) {
    RANNC_ASSIGN(const std::vector<uint32_t> first, atoms_named(pair.first, pair.source, names));
    RANNC_ASSIGN(const std::vector<uint32_t> second, atoms_named(pair.second, pair.source, names));
    for (const uint32_t atom : first) found.together.push_back({first.front(), atom});
    for (const uint32_t atom : second) found.together.push_back({first.front(), atom});
  }
  return found;
}

std::unique_ptr<partition::StagePlanner> requested_planner(const partition::PlanOptions& options) {
  return options.planner == "auto" ? partition::auto_planner(options.search) : partition::make_planner(options.planner);
}

Diagnostic no_plan(const partition::Infeasible& none) {
  Diagnostic failure = error("there is no plan: " + none.reason);
  if (none.missing_bytes > 0) {
    failure.notes.push_back(
        {{}, fmt::format("the best plan found misses the memory limit by {}", bytes(none.missing_bytes))});
  }
  if (!none.help.empty()) failure.notes.push_back({{}, "what would help: " + none.help});
  return failure;
}

}  // namespace rannc::tools
