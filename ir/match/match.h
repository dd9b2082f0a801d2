/// Pattern matching on graphs, from a result towards its operands.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"

namespace rannc::ir {

/// A set of core operators by short name (`add`). Every name must exist (RANNC_CHECK). Compared by identity.
class Ops {
 public:
  Ops(const char* name) : Ops({std::string_view(name)}) {}  // NOLINT: `op("add", …)`
  Ops(std::initializer_list<std::string_view> names);
  bool contains(const OpInfo& op) const;

 private:
  std::vector<const OpInfo*> ops_;
};

/// A captured position of a pattern: `constexpr Capture kX{0}, kFactor{1};`, numbered below kMost. A capture that
/// occurs twice in a pattern must match the same value.
struct Capture {
  static constexpr uint8_t kMost = 16;
  uint8_t number = UINT8_MAX;  ///< the default captures nothing
};

/// Result of matching a pattern. Refers to the graph, which has to outlive it.
class Match {
 public:
  const Graph& graph() const { return *graph_; }
  /// Whether the capture has a value: false in alternatives that were not taken and for absent operands.
  bool has(Capture place) const;
  /// The captured value, which must exist (RANNC_CHECK).
  ValueId operator[](Capture place) const;
  /// The task that produces the captured value, which must exist (RANNC_CHECK), and its attributes.
  TaskId task(Capture place) const;
  const Attributes& attributes(Capture place) const { return graph_->attributes(task(place)); }
  /// The number captured by `constant`.
  double number(Capture place) const;
  /// Tasks matched by `op` and `through`, the result's task first, each once. Producers of values matched by leaves
  /// (`any`, `constant` …) are not included.
  const std::vector<TaskId>& tasks() const { return tasks_; }

 private:
  friend class Matcher;
  const Graph* graph_ = nullptr;
  ValueId places_[Capture::kMost];
  std::vector<TaskId> tasks_;
};

/// A pattern of tasks. Immutable, cheap to copy, safe to share between threads.
class Pattern {
 public:
  using Condition = std::function<bool(const Match&)>;
  struct Node;

  explicit Pattern(Node node);
  const Node& node() const { return *node_; }

  /// Captures the value.
  Pattern as(Capture place) const;
  /// Adds a condition that is checked after this part has matched. It may read this part's captures and earlier ones.
  Pattern where(Condition holds) const;
  // --- for `op` only (RANNC_CHECK)
  /// Requires that an attribute has this value, or that it is absent.
  Pattern with(std::string_view attribute, Attribute value) const;
  Pattern without(std::string_view attribute) const;
  /// Requires that the value is output `index` of its task; 0 by default.
  Pattern output(uint32_t index) const;

 private:
  std::shared_ptr<const Node> node_;
};

/// Maximum number of operands in a pattern.
inline constexpr size_t kMostOperandPatterns = 8;
/// Maximum number of tasks that one `through` skips.
inline constexpr size_t kMostThrough = 64;

/// A task of one of these operators, with any operands.
Pattern op(Ops ops);
/// A task of one of these operators with exactly these operands; further operands are absent.
Pattern op_of(Ops ops, std::vector<Pattern> operands);
template <class... Operands>
Pattern op(Ops ops, Operands... operands) {
  return op_of(std::move(ops), {std::move(operands)...});
}
/// An `op` of two operands in either order. The written order is tried first.
Pattern commutative(const Pattern& binary);
/// Any value.
Pattern any(Capture place = {});
/// A scalar: a constant of one element with available bytes, or `full` of a number. The second form matches only the
/// given number.
Pattern constant(Capture place = {});
Pattern constant(double number);
/// A value of that kind, or an input of the graph.
Pattern of_kind(ValueKind kind, Capture place = {});
Pattern input(Capture place = {});
/// The value that was captured earlier. It must exist (RANNC_CHECK).
Pattern same(Capture place);
/// An absent operand, or an operand that is absent or matches.
Pattern absent();
Pattern maybe(const Pattern& pattern);
/// The first alternative with which the whole pattern matches.
Pattern either(std::vector<Pattern> patterns);
/// A value that at most one task reads and that is neither an output of the graph nor a loss.
Pattern one_use(const Pattern& pattern);
/// `pattern` behind 0 to kMostThrough tasks of these operators, each followed to its operand 0. The farthest match is
/// taken.
Pattern through(Ops ops, const Pattern& pattern);
/// The same, but stops at casts that may change the number: from floats to integers, and from numbers to bool.
Pattern through_exact(Ops ops, const Pattern& pattern);

/// Matches a pattern against a value, or against the first output of a task. Tries all ways to match in the documented
/// order, within a budget of some thousand steps.
std::optional<Match> match(const Graph& graph, ValueId value, const Pattern& pattern);
std::optional<Match> match(const Graph& graph, TaskId task, const Pattern& pattern);

/// The number of a value that `constant` matches.
std::optional<double> scalar_constant(const Graph& graph, ValueId value);

/// A path from operands to results.
struct Path {
  Ops through;  ///< skipped, through any operand
  Ops to;
};
/// Whether an output of `from` reaches a task of `path.to` through tasks of `path.through` only. Visits the readers of
/// at most `most_tasks` tasks, nearest first, including `from`.
bool leads_to(const Graph& graph, TaskId from, const Path& path, size_t most_tasks = 64);

}  // namespace rannc::ir
