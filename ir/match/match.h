/// Patterns: small shapes of tasks as values, held against a graph from a result towards its operands.
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

/// Operators by short name (`add`); a name that no core operator has is our bug. Compared by identity.
class Ops {
 public:
  Ops(const char* name) : Ops({std::string_view(name)}) {}  // NOLINT: `op("add", …)`
  Ops(std::initializer_list<std::string_view> names);
  bool contains(const OpInfo& op) const;

 private:
  std::vector<const OpInfo*> ops_;
};

/// A place of a pattern whose value is kept: `constexpr Capture kX{0}, kFactor{1};`, numbered below kMost.
/// A place that stands twice in a pattern stands for one value.
struct Capture {
  static constexpr uint8_t kMost = 16;
  uint8_t number = UINT8_MAX;  ///< so: keeps nothing
};

/// What a pattern found. Reads the graph, which has to outlive it.
class Match {
 public:
  const Graph& graph() const { return *graph_; }
  /// Whether that place has a value: not in an alternative that was not taken, not where an operand is absent.
  bool has(Capture place) const;
  /// The value at that place; our bug where there is none.
  ValueId operator[](Capture place) const;
  /// The task that makes that value, and its attributes; our bug where none does.
  TaskId task(Capture place) const;
  const Attributes& attributes(Capture place) const { return graph_->attributes(task(place)); }
  /// The number at a place of `constant`.
  double number(Capture place) const;
  /// Tasks that `op` and `through` stand for, the result's first, each once. Leaves (`any`, `constant` …) are not
  /// among them, whatever makes their values.
  const std::vector<TaskId>& tasks() const { return tasks_; }

 private:
  friend class Matcher;
  const Graph* graph_ = nullptr;
  ValueId places_[Capture::kMost];
  std::vector<TaskId> tasks_;
};

/// A shape of tasks. Immutable, cheap to copy, free to be shared between threads.
class Pattern {
 public:
  using Condition = std::function<bool(const Match&)>;
  struct Node;

  explicit Pattern(Node node);
  const Node& node() const { return *node_; }

  /// Keeps the value in a place.
  Pattern as(Capture place) const;
  /// Holds only where `holds` does once this part has matched; its own places and earlier ones may be read.
  Pattern where(Condition holds) const;
  // --- of `op` alone; elsewhere our bug
  /// An attribute that has this value, or does not stand there.
  Pattern with(std::string_view attribute, Attribute value) const;
  Pattern without(std::string_view attribute) const;
  /// The value is output `index` of its task; 0 unless said.
  Pattern output(uint32_t index) const;

 private:
  std::shared_ptr<const Node> node_;
};

/// Operands beyond this many cannot be described.
inline constexpr size_t kMostOperandPatterns = 8;
/// Tasks that one `through` sees past.
inline constexpr size_t kMostThrough = 64;

/// A task of one of these operators, with any operands.
Pattern op(Ops ops);
/// A task of one of these operators whose operands are these; further ones are absent.
Pattern op_of(Ops ops, std::vector<Pattern> operands);
template <class... Operands>
Pattern op(Ops ops, Operands... operands) {
  return op_of(std::move(ops), {std::move(operands)...});
}
/// An `op` of two operands that may stand in either order; the order that is written is tried first.
Pattern commutative(const Pattern& binary);
/// Any value.
Pattern any(Capture place = {});
/// A scalar: a constant of one element at hand, or `full` of a number; the second form only of that number.
Pattern constant(Capture place = {});
Pattern constant(double number);
/// A value of that kind; an input of the graph.
Pattern of_kind(ValueKind kind, Capture place = {});
Pattern input(Capture place = {});
/// The value that the place has already; our bug where it has none yet.
Pattern same(Capture place);
/// An operand that is not there; one that is not there or matches.
Pattern absent();
Pattern maybe(const Pattern& pattern);
/// The first of these that lets the whole pattern match.
Pattern either(std::vector<Pattern> patterns);
/// A value that one task at most reads, that is no output of the graph and no loss.
Pattern one_use(const Pattern& pattern);
/// `pattern` behind none or more (at most kMostThrough) tasks of these operators, each followed to its operand 0; as
/// far behind as it matches.
Pattern through(Ops ops, const Pattern& pattern);
/// The same, but not past a cast that may leave another number: of floats to integers, and of numbers to bool.
Pattern through_exact(Ops ops, const Pattern& pattern);

/// Holds a pattern against a value, or against the first output of a task. Every way to match is tried, the order
/// above first, within some thousand steps.
std::optional<Match> match(const Graph& graph, ValueId value, const Pattern& pattern);
std::optional<Match> match(const Graph& graph, TaskId task, const Pattern& pattern);

/// The number that `constant` sees in a value.
std::optional<double> scalar_constant(const Graph& graph, ValueId value);

/// A way from operands to results.
struct Path {
  Ops through;  ///< seen past, by any operand
  Ops to;
};
/// Whether an output of `from` reaches a task of `path.to` past tasks of `path.through` alone. Looks at the readers of
/// `most_tasks` tasks, nearest first, `from` among them.
bool leads_to(const Graph& graph, TaskId from, const Path& path, size_t most_tasks = 64);

}  // namespace rannc::ir
