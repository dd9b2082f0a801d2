#include "passes/parameters/internal/untrained_state.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/tied_values.h"
#include "passes/parameters/internal/untrained_factors.h"
#include "passes/parameters/internal/verdicts.h"

namespace rannc::passes {

namespace {

using ir::Graph;

bool is_row_of_zeros(const Graph& graph, ValueId value) {
  const Graph::Value& found = graph.value(value);
  const auto& shape = found.type.shape;
  if (!shape || shape->size() != 2 || !((*shape)[0] == ir::Dim(1)) || (*shape)[1] == ir::Dim(1)) return false;
  if (!found.data.present() || !is_uniform(graph, value)) return false;
  const auto bytes = found.data.read();
  return bytes.ok() && std::all_of(bytes->begin(), bytes->end(), [](std::byte byte) { return byte == std::byte{0}; });
}

/// Whether modules lie within the one that the name is of.
bool is_of_container(const Graph& graph, const std::string& name) {
  const std::string module = ir::module_of(name), prefix = module.empty() ? "" : module + ".";
  for (const ValueId value : graph.values()) {
    const std::string_view other = graph.value(value).name;
    if (graph.producer(value).valid() || ir::is_synthetic(other) || !other.starts_with(prefix)) continue;
    if (other.find('.', prefix.size()) != std::string_view::npos) return true;
  }
  return false;
}

/// Whether nothing that follows reads a stored tensor of the program's state.
bool is_last(const Graph& graph, TaskId task, const ir::StoredNotes& file) {
  std::vector<TaskId> left{task};
  std::set<TaskId> seen{task};
  while (!left.empty()) {
    const TaskId at = left.back();
    left.pop_back();
    for (const ValueId output : graph.outputs(at)) {
      graph.for_each_use(output, [&](Graph::Use use) {
        if (seen.insert(use.task).second) left.push_back(use.task);
      });
    }
  }
  seen.erase(task);
  return std::none_of(seen.begin(), seen.end(), [&](TaskId later) {
    const auto operands = graph.inputs(later);
    return std::any_of(operands.begin(), operands.end(),
                       [&](ValueId operand) { return operand.valid() && is_stored_tensor(graph, operand, file); });
  });
}

/// Rows of zeros that are added to a model's last result and lie in no leaf module, as `final_logits_bias` of BART
/// does: PyTorch's layers have biases of one axis. Nothing in the file tells whether such a row is a parameter.
std::vector<ValueId> unowned_biases(const Graph& graph, const ir::StoredNotes& file) {
  static const ir::Pattern kShift = ir::op("add");
  std::vector<ValueId> found;
  for (const ValueId value : graph.values()) {
    if (!is_stored_tensor(graph, value, file) || ir::is_synthetic(graph.value(value).name)) continue;
    std::vector<TaskId> readers;
    graph.for_each_use(value, [&](Graph::Use use) { readers.push_back(use.task); });
    if (readers.size() != 1 || !ir::match(graph, readers[0], kShift)) continue;
    const std::string name(graph.value(value).name);
    if (is_row_of_zeros(graph, value) && is_of_container(graph, name) && is_last(graph, readers[0], file))
      found.push_back(value);
  }
  return found;
}

/// Sizes other than 1, in order: those of a matrix and of its transpose are alike.
std::vector<std::string> sizes_of(const Graph& graph, ValueId value) {
  std::vector<std::string> sizes;
  for (const ir::Dim& dim : *graph.type(value).shape) {
    if (!(dim == ir::Dim(1))) sizes.push_back(dim.str());
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

}  // namespace

UntrainedState untrained_state(const Graph& graph, const ir::StoredNotes& file,
                               const std::map<ValueId, ir::ValueKind>& requested) {
  UntrainedState found;
  if (!file.listed.empty()) return found;
  const auto is_open = [&](ValueId value) {
    return !requested.contains(value) && graph.kind(value) == ir::ValueKind::kConstant &&
           is_stored_tensor(graph, value, file);
  };
  const std::vector<bool> factors = untrained_factors(graph);
  for (const ValueId value : graph.values()) {
    if (factors[value.index()] && is_open(value)) found.factors.insert(value);
  }
  for (const ValueId value : unowned_biases(graph, file)) {
    if (is_open(value)) found.unowned.insert(value);
  }
  return found;
}

std::vector<std::set<std::string>> doubtful_factors(const Graph& graph, const ir::StoredNotes& file) {
  std::map<std::pair<std::string, std::vector<std::string>>, std::set<std::string>> groups;
  for (const ValueId value : graph.values()) {
    const std::string name(graph.value(value).name);
    const bool factor = graph.kind(value) == ir::ValueKind::kParameter && ir::is_folded(name) &&
                        is_stored_tensor(graph, value, file) && ir::reader_of_folded(name) == "MatMul" &&
                        graph.type(value).shape;
    if (!factor || wide_axes(graph, value) < 2) continue;
    for (const std::string& module : modules_reading(file, name)) {
      groups[{module, sizes_of(graph, value)}].insert(name);
    }
  }
  std::vector<std::set<std::string>> found;
  for (auto& [key, names] : groups) {
    if (names.size() > 1) found.push_back(std::move(names));
  }
  return found;
}

}  // namespace rannc::passes
