#include "passes/internal/named_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "ir/graph/results.h"
#include "ir/op/op.h"
#include "passes/internal/state_names.h"

namespace rannc::passes {

namespace {

/// Returns the edit distance of two texts (Wagner and Fischer, JACM 1974).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t exchanged = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, exchanged});
    }
  }
  return row[b.size()];
}

bool reads_size(const ir::OpInfo& op, uint32_t operand) {
  return !op.operands.empty() && op.operand(operand).role == ir::Role::kShape;
}

/// Nodes that were fused into one task are named together: `a, b`.
template <class F>
bool any_of_names(std::string_view names, F&& holds) {
  constexpr std::string_view kBetween = ", ";
  while (true) {
    const size_t end = names.find(kBetween);
    if (holds(names.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
    names.remove_prefix(end + kBetween.size());
  }
}

}  // namespace

NamedParts::NamedParts(const ir::Graph& graph, const ir::TrainingNotes& file)
    : graph_(graph), varies_(graph.value_count()), given_(graph.value_count()) {
  std::unordered_map<std::string, uint32_t> numbers;
  for (const TaskId task : graph.tasks()) {
    const std::string name = graph.location(task).node;
    const auto [known, fresh] = numbers.emplace(name, static_cast<uint32_t>(nodes_.size()));
    if (fresh) nodes_.push_back(name);
    node_of_.push_back(known->second);
    uint32_t module = kNone;
    any_of_names(name, [&](std::string_view each) {
      const auto found = file.modules.find(std::string(each));
      if (found != file.modules.end()) module = number_of_module(found->second, file.called);
      return false;
    });
    module_of_task_.push_back(module);
  }
  for (const ValueId input : graph.inputs()) varies_[input.index()] = true;
  for (const TaskId task : graph.tasks()) {
    const auto inputs = graph.inputs(task);
    if (!inputs.empty() && reads_size(graph.op(task), 0)) continue;
    const bool varies = std::any_of(inputs.begin(), inputs.end(),
                                    [&](ValueId input) { return input.valid() && varies_[input.index()]; });
    for (const ValueId output : graph.outputs(task)) varies_[output.index()] = varies;
  }
  ir::for_each_result(graph, [&](ValueId value) { given_[value.index()] = true; });
  for (const ir::Statistics& each : graph.statistics()) {
    given_[each.mean.index()] = given_[each.variance.index()] = false;
  }
}

uint32_t NamedParts::number_of_module(std::string_view path, const std::set<std::string>& called) {
  const auto known = module_numbers_.find(path);
  if (known != module_numbers_.end()) return known->second;
  uint32_t around = kNone;
  for (size_t dot = path.rfind('.'); dot != std::string_view::npos && dot > 0; dot = path.rfind('.', dot - 1)) {
    if (!called.contains(std::string(path.substr(0, dot)))) continue;
    around = number_of_module(path.substr(0, dot), called);
    break;
  }
  const auto number = static_cast<uint32_t>(modules_.size());
  modules_.push_back({std::string(path), around});
  module_numbers_.emplace(path, number);
  return number;
}

bool NamedParts::names(const std::string& pattern, TaskId task) const {
  const auto fits = [&](std::string_view name) { return fits_pattern(name, pattern); };
  for (uint32_t at = module_of_task_[task.index()]; at != kNone; at = modules_[at].around) {
    if (fits(modules_[at].path)) return true;
  }
  const std::string& node = nodes_[node_of_[task.index()]];
  if (!node.empty() && any_of_names(node, fits)) return true;
  const auto outputs = graph_.outputs(task);
  return std::any_of(outputs.begin(), outputs.end(), [&](ValueId value) { return fits(graph_.value(value).name); });
}

/// Per task the part that it is in: a module, else the nodes of one module, else those of one name; kNone: none.
std::vector<uint32_t> NamedParts::parts(const std::string& pattern) const {
  std::vector<uint32_t> outermost(modules_.size(), kNone);  // modules around come first
  for (uint32_t module = 0; module < modules_.size(); ++module) {
    const uint32_t around = modules_[module].around;
    if (around != kNone) outermost[module] = outermost[around];
    if (outermost[module] == kNone && fits_pattern(modules_[module].path, pattern)) outermost[module] = module;
  }
  std::vector<bool> named(nodes_.size());
  for (size_t node = 0; node < nodes_.size(); ++node) {
    named[node] = !nodes_[node].empty() &&
                  any_of_names(nodes_[node], [&](std::string_view name) { return fits_pattern(name, pattern); });
  }
  const auto modules = static_cast<uint32_t>(modules_.size());
  std::vector<uint32_t> parts;
  for (const TaskId task : graph_.tasks()) {
    const uint32_t node = node_of_[task.index()], module = module_of_task_[task.index()];
    uint32_t part = module != kNone ? outermost[module] : kNone;
    if (part == kNone && named[node]) part = modules + (module != kNone ? module : modules + node);
    parts.push_back(part);
  }
  return parts;
}

bool NamedParts::leaves(ValueId value, const std::vector<uint32_t>& parts) const {
  const uint32_t part = parts[graph_.producer(value).index()];
  return given_[value.index()] || graph_.any_use(value, [&](ir::Graph::Use use) {
    return !reads_size(graph_.op(use.task), use.operand) && parts[use.task.index()] != part;
  });
}

std::vector<ValueId> NamedParts::results(const std::string& pattern) const {
  const std::vector<uint32_t> part_of = parts(pattern);
  std::vector<ValueId> found;
  for (const ValueId value : graph_.values()) {
    const ir::Graph::Value& each = graph_.value(value);
    const bool droppable = each.producer.valid() && varies_[value.index()] && ir::is_float(each.type.dtype) &&
                           each.type.shape && !each.type.shape->empty();
    if (!droppable) continue;
    const bool in_part = part_of[each.producer.index()] != kNone;
    if (in_part ? leaves(value, part_of) : fits_pattern(each.name, pattern)) found.push_back(value);
  }
  return found;
}

std::string NamedParts::near(const std::string& pattern) const {
  std::string plain = pattern;
  std::erase_if(plain, [](char c) { return c == '*' || c == '?'; });
  std::set<std::string_view> names;
  for (const Module& module : modules_) names.insert(module.path);
  for (const std::string& node : nodes_) {
    any_of_names(node, [&](std::string_view name) { return !name.empty() && (names.insert(name), false); });
  }
  // A name that has all of the pattern's text and more is no worse than one that has most of it.
  const auto unlike = [&](std::string_view name) {
    const size_t longer = name.size() > plain.size() ? name.size() - plain.size() : 0;
    return std::pair(2 * (distance(plain, name) - longer) + longer, name);
  };
  constexpr size_t kMost = 3;
  std::vector<std::pair<size_t, std::string_view>> ranked;
  for (const std::string_view name : names) ranked.push_back(unlike(name));
  const size_t shown = std::min(kMost, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(shown), ranked.end());
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == shown ? " and " : ", ", ranked[i].second);
  }
  return text;
}

}  // namespace rannc::passes
