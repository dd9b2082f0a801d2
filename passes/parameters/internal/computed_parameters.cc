#include "passes/parameters/internal/computed_parameters.h"

#include <map>

#include "ir/state/name_source.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/tied_values.h"
#include "passes/parameters/internal/verdicts.h"

namespace rannc::passes {

namespace {

using ir::ValueKind;

/// A constant that may have been made of a parameter.
bool may_be_made(const ir::Graph& graph, ValueId value, const ir::StoredNotes& file, const Verdicts& verdicts) {
  const ir::Graph::Value& found = graph.value(value);
  const std::string name(found.name);
  if (found.kind != ValueKind::kConstant || !ir::is_float(found.type.dtype)) return false;
  if (verdicts.origin(value) == Origin::kNumber) return false;
  if (!found.type.shape || ir::element_count(*found.type.shape) == ir::Dim(1)) return false;
  if (file.listed.contains(name) || file.literals.contains(name)) return false;
  return !has_mask_element(found.type, found.data) && !is_uniform(graph, value);
}

}  // namespace

ComputedParameters computed_parameters(const ir::Graph& graph, const ir::StoredNotes& file) {
  std::map<std::string, std::string> lost;  // with their modules
  for (const auto& [name, kind] : file.listed) {
    const std::string module = ir::module_of(name);
    const bool folded = file.listed.contains(module + ".running_mean");
    if (kind == ValueKind::kParameter && !graph.find(name).valid() && !folded) lost.emplace(name, module);
  }
  const Verdicts verdicts(graph, file);
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ValueKind::kParameter) continue;
    for (const std::string& source : verdicts.sources(value)) lost.erase(source);
  }
  if (lost.empty()) return {};                           // before the bytes of any constant are looked at
  std::set<std::string> training;                        // modules whose nodes read a parameter
  std::map<std::string, std::set<std::string>> reading;  // by module constants that its nodes read
  for (const auto& [name, readings] : file.readings) {
    std::set<std::string> modules;
    for (const ir::Reading& reading : readings) modules.insert(reading.module);
    const ValueId value = graph.find(name);
    if (!value.valid()) continue;
    if (graph.kind(value) == ValueKind::kParameter) training.insert(modules.begin(), modules.end());
    if (!may_be_made(graph, value, file, verdicts)) continue;
    for (const std::string& module : modules) reading[module].insert(name);
  }
  ComputedParameters found;
  for (const auto& [name, module] : lost) {
    if (training.contains(module)) continue;
    for (const std::string& reader : {module, ir::module_of(module)}) {
      const auto made = reading.find(reader);
      if (made == reading.end()) continue;
      found.parameters.insert(name);
      found.made.insert(made->second.begin(), made->second.end());
      break;
    }
  }
  return found;
}

}  // namespace rannc::passes
