#include "passes/parameters/internal/tied_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"
#include "ir/state/state.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/tied_values.h"

namespace rannc::passes {

namespace {

using ir::Graph;

struct Uses {
  bool looked_up = false;  ///< rows of it
  bool multiplies = false;
};

/// Seen through tasks that only rearrange.
Uses uses_of(const Graph& graph, ValueId value) {
  static const ir::Pattern kLookUp = ir::op("gather"), kProduct = ir::op({"linear", "matmul"}),
                           kRearranged = ir::op({"permute", "identity", "cast"});
  Uses uses;
  std::vector<ValueId> left{value};
  while (!left.empty()) {
    const ValueId at = left.back();
    left.pop_back();
    graph.for_each_use(at, [&](Graph::Use use) {
      if (ir::match(graph, use.task, kRearranged)) left.push_back(graph.outputs(use.task)[0]);
      uses.looked_up = uses.looked_up || (use.operand == 0 && ir::match(graph, use.task, kLookUp));
      uses.multiplies = uses.multiplies || (use.operand == 1 && ir::match(graph, use.task, kProduct));
    });
  }
  return uses;
}

using BySecond = std::map<ValueId, Tie>;

/// A first that is itself a second gives way to its own first.
void add(BySecond& ties, Tie tie) {
  const auto root = ties.find(tie.first);
  if (root != ties.end()) tie = {root->second.first, tie.second, root->second.transposed != tie.transposed};
  if (tie.first != tie.second) ties.emplace(tie.second, tie);
}

class Ties {
 public:
  Ties(const Graph& graph, const TieRules& rules) : graph_(graph), rules_(rules), names_(graph) {}

  /// Those that are one parameter, by the second; adds those of equal values to `alike`.
  Result<BySecond> find(const std::vector<ValueId>& parameters, std::vector<AlikeParameters>& alike) {
    BySecond ties = of_one_name(parameters);
    RANNC_ASSIGN(const std::vector<Tie> found, candidates(parameters));
    for (const Tie& tie : found) {
      if (ties.contains(tie.second)) continue;
      const std::string second(graph_.value(tie.second).name);
      const bool one = is_one(tie), apart = is_specified(tie) || rules_.parted.contains(second);
      if (one) add(ties, tie);
      alike.push_back({std::string(graph_.value(tie.first).name), second, tie.transposed, one, apart});
    }
    return ties;
  }

 private:
  /// What the program calls the tensor; empty: not known, or several.
  std::string name_of(ValueId value) const {
    const std::string own(graph_.value(value).name);
    std::set<std::string> said;
    const auto found = rules_.file.readings.find(own);
    if (found != rules_.file.readings.end()) {
      for (const ir::Reading& reading : found->second) {
        if (reading.state.size() == 1) said.insert(reading.state[0]);
      }
    }
    if (said.size() == 1) return *said.begin();
    return rules_.file.listed.contains(own) ? own : "";
  }

  bool untied(ValueId value) const { return like(rules_.untied, value); }
  bool like(const std::vector<std::string>& patterns, ValueId value) const {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return names_.match_any(pattern, value); });
  }

  BySecond of_one_name(const std::vector<ValueId>& parameters) const {
    std::map<std::string, ValueId> first;
    for (const ValueId value : parameters) {
      const std::string name = name_of(value);
      // The tensor of that name itself comes first, wherever it stands.
      if (!name.empty() && (graph_.value(value).name == name || !first.contains(name))) first[name] = value;
    }
    BySecond ties;
    for (const ValueId value : parameters) {
      const std::string name = name_of(value);
      if (name.empty() || first[name] == value || untied(value)) continue;
      if (const auto tie = tie_of(graph_, first[name], value)) add(ties, *tie);
    }
    return ties;
  }

  /// Of one number repeated only where the user asks for it.
  Result<std::vector<Tie>> candidates(const std::vector<ValueId>& parameters) const {
    std::vector<Tie> ties = find_ties(graph_, parameters);
    for (const std::string& pattern : rules_.tied) {
      ValueId first;
      const size_t before = ties.size();
      for (const ValueId value : parameters) {
        if (!names_.match_any(pattern, value)) continue;
        if (!first.valid()) first = value;
        const auto tie = first == value ? std::nullopt : tie_of(graph_, first, value);
        if (tie) ties.push_back(*tie);
      }
      if (ties.size() > before || !first.valid()) continue;
      return error(
          fmt::format("recover-parameters: no other parameter that matches '{}' has the values of {}, so they "
                      "cannot be tied",
                      pattern, quoted_name(graph_, first)));
    }
    return ties;
  }

  bool is_specified(const Tie& tie) const {
    return !rules_.file.listed.empty() && !name_of(tie.first).empty() && !name_of(tie.second).empty();
  }

  /// Whether the exporter made one of both: of two tensors with the program's own names, equal values prove nothing.
  bool is_copy(const Tie& tie) const {
    return ir::is_synthetic(graph_.value(tie.first).name) || ir::is_synthetic(graph_.value(tie.second).name);
  }

  bool is_one(const Tie& tie) const {
    if (untied(tie.first) || untied(tie.second)) return false;
    for (const std::string& pattern : rules_.tied) {
      if (names_.match_any(pattern, tie.first) && names_.match_any(pattern, tie.second)) return true;
    }
    if (is_specified(tie) || !is_copy(tie)) return false;
    const Uses a = uses_of(graph_, tie.first), b = uses_of(graph_, tie.second);
    return (a.looked_up && b.multiplies && !b.looked_up) || (b.looked_up && a.multiplies && !a.looked_up);
  }

  const Graph& graph_;
  const TieRules& rules_;
  StateNames names_;
};

/// A part of `second` as a part of what it is the same as, or the transpose of.
ir::StatePart moved(ir::StatePart part, ValueId to, bool transposed) {
  part.value = to;
  if (!transposed) return part;
  std::swap(part.begin[0], part.begin[1]);
  std::swap(part.extent[0], part.extent[1]);
  for (int64_t& axis : part.axes) axis = 1 - axis;
  return part;
}

/// Whether a stored tensor has a name of the program's state, not one of the exporter's.
bool is_of_state(std::string_view name, const ir::StoredNotes& file) {
  return file.listed.empty() ? !ir::is_synthetic(name) : file.listed.contains(std::string(name));
}

/// The tensors of state of `graph` in the graph that `rewriter` makes; a name that goes is that of one.
std::vector<ir::StateTensor> state_with_ties(const Graph& graph, const BySecond& ties, const ir::StoredNotes& file,
                                             const ir::Rewriter& rewriter) {
  std::vector<ir::StateTensor> state = graph.state();
  std::set<std::string> names;
  for (const ir::StateTensor& tensor : state) {
    names.insert(tensor.name);
  }
  for (const auto& [second, tie] : ties) {
    std::string name(graph.value(second).name);
    if (names.contains(name) || !is_of_state(name, file)) continue;
    state.push_back(ir::state_of(graph, std::move(name), second, ir::whole(graph, second).axes));
  }
  for (ir::StateTensor& tensor : state) {
    for (ir::StatePart& part : tensor.parts) {
      const auto tie = ties.find(part.value);
      const bool tied = tie != ties.end();
      const ValueId to = rewriter.map(tied ? tie->second.first : part.value);
      part = moved(std::move(part), to, tied && tie->second.transposed);
    }
  }
  return state;
}

Result<Graph> with_ties(const Graph& graph, const BySecond& ties, const ir::StoredNotes& file) {
  std::vector<bool> keep(graph.value_count(), true);
  for (const auto& [second, tie] : ties) keep[second.index()] = false;
  ir::Rewriter rewriter(graph, keep);
  Graph& to = rewriter.graph();
  for (const auto& [second, tie] : ties) {
    const ValueId first = rewriter.map(tie.first);
    if (!tie.transposed) {
      rewriter.replace(second, first);
      continue;
    }
    const ValueId turned = to.add(ir::core("permute"), {first}, {{"dims", ir::Shape{1, 0}}},
                                  std::string(graph.value(second).name) + ".tied");
    RANNC_TRY(ir::infer_types(to, to.producer(turned)));
    rewriter.replace(second, turned);
  }
  for (const TaskId task : graph.tasks()) rewriter.copy(task);
  std::vector<ir::StateTensor> state = state_with_ties(graph, ties, file, rewriter);
  Graph made = std::move(rewriter).finish();
  made.set_state(std::move(state));
  return made;
}

}  // namespace

Result<TiedParameters> tie_parameters(Graph& graph, const std::vector<ValueId>& parameters, const TieRules& rules) {
  TiedParameters tied;
  RANNC_ASSIGN(const BySecond ties, Ties(graph, rules).find(parameters, tied.alike));
  if (ties.empty()) return tied;
  RANNC_ASSIGN(graph, with_ties(graph, ties, rules.file));
  tied.changed = true;
  return tied;
}

}  // namespace rannc::passes
