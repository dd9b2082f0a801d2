#include "passes/parameters/internal/by_use.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/state/name_source.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/tied_values.h"

namespace rannc::passes {

namespace {

using ir::ValueKind;

/// 0: may be a buffer; 1: has no name of the program; 2: has that of a layer's weight or bias.
int rank_of(std::string_view name) {
  if (ir::is_synthetic(name)) return 1;
  return name.ends_with("weight") || name.ends_with("bias") ? 2 : 0;
}

/// `a, b, c and 4 more`: all that may be buffers, as far as a line goes.
std::string listed_by_rank(const std::set<std::string>& names) {
  constexpr size_t kFewest = 3, kMost = 8;
  std::vector<std::string> all(names.begin(), names.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  const auto sure = std::find_if(all.begin(), all.end(), [](const auto& name) { return rank_of(name) > 0; });
  return first_names(all, std::clamp(static_cast<size_t>(sure - all.begin()), kFewest, kMost));
}

/// Whether PyTorch's tracing exporter named a node that reads the value: by the path of its module, `/head/Add`. All
/// that this exporter stores is state of the program, also what has no module's name before its own: it belongs to the
/// root.
bool is_read_by_traced_node(const ir::Graph& graph, ValueId value) {
  bool traced = false;
  graph.for_each_use(value,
                     [&](ir::Graph::Use use) { traced = traced || graph.location(use.task).node.starts_with('/'); });
  return traced;
}

}  // namespace

bool is_left(const ir::Graph& graph, ValueId value, const Roles& roles) {
  const auto& found = graph.value(value);
  const bool named = !ir::is_synthetic(found.name) &&
                     (found.name.find('.') != std::string_view::npos || is_read_by_traced_node(graph, value));
  return found.kind == ValueKind::kConstant && roles.role == Role::kConstant && !roles.statistics && named &&
         has_several_elements(found.type) && !has_mask_element(found.type, found.data);
}

void report_by_use(const ByUse& found, PassContext& context) {
  if (!found.trained.empty()) {
    const bool one = found.trained.size() == 1;
    context.remarks.push_back(
        {{},
         fmt::format("{} {} trained because of {} use alone ({})", found.trained.size(),
                     one ? "tensor is" : "tensors are", one ? "its" : "their", listed_by_rank(found.trained))});
  }
  if (!found.left.empty()) {
    context.warnings.push_back({{},
                                fmt::format("{} tensors with names of the program are not trained because of their use "
                                            "alone ({}): --train trains them",
                                            found.left.size(), listed_by_rank(found.left))});
  }
}

void report_weights_in_code(const ir::Graph& graph, const std::vector<Roles>& roles, const StoredFacts& known,
                            PassContext& context) {
  std::set<std::string> found;
  bool weights = false;
  for (const ValueId value : graph.values()) {
    const auto& each = graph.value(value);
    const Role role = roles[value.index()].role;
    if (role < Role::kLikely || each.kind != ValueKind::kConstant || !has_several_elements(each.type)) continue;
    const std::string name(each.name);
    if (!known.file.literals.contains(name) || known.kinds.contains(name)) continue;
    if (role == Role::kLikely && has_mask_element(each.type, each.data)) continue;
    weights = weights || role == Role::kParameter;
    found.insert(name);
  }
  if (!weights) return;
  context.warnings.push_back(
      {{},
       fmt::format("{} numbers of the model's code are in places of weights and are not trained ({}): --train trains "
                   "them",
                   found.size(), fmt::join(found, ", "))});
}

}  // namespace rannc::passes
