#include "passes/parameters/internal/shared_by_modules.h"

#include <algorithm>
#include <cctype>

#include "ir/op/op.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/tied_values.h"

namespace rannc::passes {

namespace {

/// How a parameter and its renamings are used.
struct ModuleUses {
  std::set<std::string> modules;
  bool looked_up = false;  ///< as an embedding
  bool otherwise = false;
};

ModuleUses uses_of(const ir::Graph& graph, ValueId parameter, const Readings& readings) {
  ModuleUses uses;
  std::vector<ValueId> values = {parameter};
  for (size_t i = 0; i < values.size(); ++i) {
    const auto found = readings.find(std::string(graph.value(values[i]).name));
    if (found != readings.end()) {
      for (const ir::Reading& reading : found->second) uses.modules.insert(module_of_reading(reading));
    }
    graph.for_each_use(values[i], [&](ir::Graph::Use use) {
      const ir::OpInfo& op = graph.op(use.task);
      if (op.view == ir::View::kSame) return values.push_back(graph.outputs(use.task)[0]);
      const bool indexed = std::any_of(op.operands.begin(), op.operands.end(),
                                       [](const ir::OperandInfo& o) { return o.role == ir::Role::kIndex; });
      (indexed && op.operand(use.operand).role == ir::Role::kWeight ? uses.looked_up : uses.otherwise) = true;
    });
  }
  return uses;
}

/// A path with each number in it as `#`.
std::string without_numbers(const std::string& path) {
  std::string plain;
  for (const char c : path) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) plain += c;
    if (digit && !plain.ends_with('#')) plain += '#';
  }
  return plain;
}

bool any_alike(const std::set<std::string>& modules) {
  std::set<std::string> plain;
  for (const std::string& module : modules) plain.insert(without_numbers(module));
  return plain.size() < modules.size();
}

}  // namespace

std::vector<SharedByModules> shared_by_modules(const ir::Graph& graph, const std::vector<ValueId>& parameters,
                                               const Readings& readings) {
  std::vector<SharedByModules> found;
  for (const ValueId parameter : parameters) {
    ModuleUses uses = uses_of(graph, parameter, readings);
    if (uses.modules.size() < 2) continue;
    const bool alike = !(uses.looked_up && uses.otherwise) && any_alike(uses.modules);
    const bool merged = alike || is_uniform(graph, parameter);
    found.push_back({parameter, std::move(uses.modules), merged});
  }
  return found;
}

}  // namespace rannc::passes
