/// Replaces the tasks that patterns recognise.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph/rewriter.h"
#include "ir/match/match.h"

namespace rannc::ir {

/// Makes what stands for the tasks of a match. Every task made has a location that names the nodes of them all, and
/// types wherever those of its operands are known.
class Builder {
 public:
  Builder(Rewriter& rewriter, const Match& match);

  /// What stands for a captured value in the new graph; our bug for a value that a task of the match makes: it is gone.
  ValueId operator[](Capture place) const { return rewriter_.map(match_[place]); }
  /// A task of one output, under a name derived from the replaced result's.
  ValueId emit(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes = {});
  /// A task with the outputs of the replaced one, names included: what a rule mostly ends with.
  std::vector<ValueId> result(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes = {});
  /// The new graph, where a rule needs a constant.
  Graph& graph() { return rewriter_.graph(); }

 private:
  TaskId add(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes,
             std::span<const std::string> names);
  std::string fresh_name(std::string_view op) const;

  Rewriter& rewriter_;
  const Match& match_;
  Location where_;
};

/// What is recognised, what replaces it.
struct Rewrite {
  std::string name;
  Pattern pattern;  ///< begins with a task
  /// One value for each output of the first task, of the same type; invalid for an output that nothing needs.
  std::function<std::vector<ValueId>(const Match&, Builder&)> build;
};

struct Rewritten {
  std::vector<size_t> counts;  ///< replacements, by rule
  uint32_t sweeps = 0;         ///< that replaced something
  bool settled = false;        ///< no rule matches any more: doing it again changes nothing
  uint64_t steps = 0;          ///< of matching; linear in tasks
  size_t total() const;
};

/// Applies the rules until none matches, at most `most_sweeps` times over the graph: each sweep walks the tasks from
/// the last to the first, where the first rule listed that matches wins. A task goes with one match only, and not while
/// something outside of the match, or the graph's outputs and losses, needs another of its values than the first
/// task's. An output of the graph keeps its name, by an identity if need be. What nothing reads any more stays for
/// `remove_dead`. A rule that makes what it matches again is stopped by `most_sweeps` alone: `settled` is false then.
Rewritten rewrite(Graph& graph, std::span<const Rewrite> rules, uint32_t most_sweeps = 32);

/// One place for tasks that become one: that of the first with the nodes of all, in the order of the graph, each once.
Location fused_location(const Graph& graph, std::span<const TaskId> tasks);

}  // namespace rannc::ir
