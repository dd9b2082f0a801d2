/// Pattern-based rewriting of graphs.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph/rewriter.h"
#include "ir/match/match.h"

namespace rannc::ir {

/// Builds the replacement of a match. Every new task has a location that names the nodes of all matched tasks, and has
/// types if those of its operands are known.
class Builder {
 public:
  Builder(Rewriter& rewriter, const Match& match);

  /// A captured value in the new graph. Results of matched tasks are gone and fail a RANNC_CHECK.
  ValueId operator[](Capture place) const { return rewriter_.map(match_[place]); }
  /// The same of any value of the old graph that a task outside all matches reads.
  ValueId operator[](ValueId value) const { return rewriter_.map(value); }
  /// Adds a task with one output, whose name is derived from that of the replaced result.
  ValueId emit(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes = {});
  /// Adds a task with the outputs of the replaced one, names included. Usually the last task of a rule.
  std::vector<ValueId> result(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes = {});
  /// The new graph, for rules that add constants.
  Graph& graph() { return rewriter_.graph(); }

 private:
  TaskId add(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes,
             std::span<const std::string> names);
  std::string fresh_name(std::string_view op) const;

  Rewriter& rewriter_;
  const Match& match_;
  Location where_;
};

/// A rewrite rule: a pattern and its replacement.
struct Rewrite {
  std::string name;
  Pattern pattern;  ///< its root is a task
  /// Returns one value of the same type for each output of the root task; invalid for outputs that are not needed.
  std::function<std::vector<ValueId>(const Match&, Builder&)> build;
};

struct Rewritten {
  std::vector<size_t> counts;  ///< replacements, by rule
  uint32_t sweeps = 0;         ///< sweeps that replaced something
  bool settled = false;        ///< no rule matches any more, so another run changes nothing
  uint64_t steps = 0;          ///< matching steps; linear in the number of tasks
  size_t total() const;
};

/// Applies the rules until none matches, in at most `most_sweeps` sweeps. Each sweep walks the tasks from the last to
/// the first and applies the first listed rule that matches.
///
/// A task belongs to at most one match. It is not replaced if another value than the root task's is needed outside the
/// match, or as an output or loss. An output of the graph keeps its name, through an identity task if necessary. Values
/// that become unread stay for `remove_dead`. A rule that recreates its own pattern is stopped only by `most_sweeps`;
/// `settled` is then false.
Rewritten rewrite(Graph& graph, std::span<const Rewrite> rules, uint32_t most_sweeps = 32);

/// Location of a task that replaces several: that of the first, with the nodes of all in graph order, each once.
Location fused_location(const Graph& graph, std::span<const TaskId> tasks);

}  // namespace rannc::ir
