#include "tools/compiler/named_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "ir/base/name_pattern.h"

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
  Diagnostic none = error(fmt::format("{}: no task or module is called '{}'", source, wanted));
  if (!names.empty())
    none.notes.push_back({{}, fmt::format("an example of a task's name is '{}'", names.front().name)});
  return none;
}

std::string name_of(uint32_t atom, const std::vector<AtomName>& names) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const AtomName& name) { return name.atom == atom; });
  return found == names.end() ? std::to_string(atom) : found->name;
}

Result<void> add_pin(const compiler::Pin& pin, uint32_t stages, const std::vector<AtomName>& names,
                     std::map<uint32_t, uint32_t>& stage_of) {
  const std::string source = fmt::format("--pin {}={}", pin.task, pin.stage);
  if (pin.stage >= stages) {
    return error(
        fmt::format("{}: stage {} does not exist; the {} stages are counted from 0", source, pin.stage, stages));
  }
  RANNC_ASSIGN(const std::vector<uint32_t> atoms, atoms_named(pin.task, source, names));
  for (const uint32_t atom : atoms) {
    const auto [known, fresh] = stage_of.emplace(atom, pin.stage);
    if (!fresh && known->second != pin.stage) {
      return error(fmt::format("{}: '{}' is already pinned to stage {}", source, name_of(atom, names), known->second));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> modules_of(const ir::Graph& graph, TaskId task, const NodeModules& modules) {
  constexpr std::string_view kBetween = ", ";  // names of nodes that were fused
  const std::string nodes = graph.location(task).node;
  std::vector<std::string> found;
  for (size_t start = 0; start < nodes.size();) {
    const size_t end = std::min(nodes.find(kBetween, start), nodes.size());
    const auto known = modules.find(nodes.substr(start, end - start));
    const bool fresh = known != modules.end() && std::find(found.begin(), found.end(), known->second) == found.end();
    if (fresh && !known->second.empty()) found.push_back(known->second);
    start = end + kBetween.size();
  }
  return found;
}

std::vector<std::string> with_enclosing(const std::string& module) {
  std::vector<std::string> all{module};
  for (size_t dot = module.rfind('.'); dot != std::string::npos && dot > 0; dot = module.rfind('.', dot - 1))
    all.push_back(module.substr(0, dot));
  return all;
}

Result<partition::AtomDemands> named_demands(const compiler::PlanOptions& options, const std::vector<AtomName>& names) {
  partition::AtomDemands found;
  std::map<uint32_t, uint32_t> stage_of;
  RANNC_CHECK(options.stages || options.pins.empty()) << "pins without a number of stages";
  for (const compiler::Pin& pin : options.pins) RANNC_TRY(add_pin(pin, *options.stages, names, stage_of));
  for (const auto& [atom, stage] : stage_of) found.pins.push_back({atom, stage});
  for (const compiler::Together& pair : options.together) {
    const std::string source = fmt::format("--together {},{}", pair.first, pair.second);
    RANNC_ASSIGN(const std::vector<uint32_t> first, atoms_named(pair.first, source, names));
    RANNC_ASSIGN(const std::vector<uint32_t> second, atoms_named(pair.second, source, names));
    for (const uint32_t atom : first) found.together.push_back({first.front(), atom});
    for (const uint32_t atom : second) found.together.push_back({first.front(), atom});
  }
  return found;
}

}  // namespace rannc::tools
