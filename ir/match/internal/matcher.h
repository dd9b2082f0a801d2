/// Backtracking search of patterns in a graph.
#pragma once

#include <string>

#include "ir/match/match.h"

namespace rannc::ir {

/// One part of a pattern. Members that do not belong to its kind keep their defaults.
struct Pattern::Node {
  enum class Kind : uint8_t { kAny, kAbsent, kOp, kScalar, kOfKind, kSame, kThrough, kEither };
  struct AttributeTest {
    std::string name;
    std::optional<Attribute> value;  ///< nothing: must be absent
  };

  Kind kind = Kind::kAny;
  Capture place = {};
  bool one_use = false;
  std::vector<Condition> conditions = {};
  std::vector<Pattern> parts = {};  ///< operands of kOp, alternatives of kEither, the pattern behind kThrough
  std::optional<Ops> ops = {};      ///< of kOp and kThrough
  bool exact = false;               ///< of kThrough: stops at casts that may change the number
  bool any_operands = false;
  bool commutative = false;
  uint32_t output = 0;
  std::vector<AttributeTest> attributes = {};
  std::optional<double> number = {};              ///< of kScalar; nothing: any
  ValueKind value_kind = ValueKind::kActivation;  ///< of kOfKind
  Capture same = {};                              ///< of kSame
};

/// Searches with full backtracking. The remaining work is a list of goals; each way to fulfil the first goal continues
/// with the rest.
class Matcher {
 public:
  /// `results`, if given, specifies whether each value is an output or loss of the graph. Without it those are searched
  /// on demand.
  explicit Matcher(const Graph& graph, const std::vector<bool>* results = nullptr);

  /// Continues the search if `accept`, if any, rejects a match. The match passed to `accept` may list a task twice.
  bool match(const Pattern& pattern, ValueId value, const Pattern::Condition& accept = {});
  /// The result of the last successful `match`.
  const Match& found() const { return match_; }
  /// Number of goals and tasks visited so far.
  uint64_t steps() const { return steps_; }

 private:
  struct Goal {
    const Pattern::Node* node;
    ValueId value;
    const Goal* next;
    bool conditions_only = false;  ///< the rest of the node is fulfilled
  };

  bool solve(const Goal* goal);
  bool fulfil(const Goal& goal);
  bool fulfil_op(const Goal& goal, const Goal* rest);
  bool fulfil_operands(const Goal& goal, const Goal* rest, bool swapped);
  bool fulfil_through(const Goal& goal, const Goal* rest);
  bool fulfil_either(const Goal& goal, const Goal* rest);
  bool attributes_fit(const Pattern::Node& node, TaskId task) const;
  bool conditions_hold(const Pattern::Node& node) const;
  bool keep(Capture place, ValueId value);
  bool is_read_once(ValueId value) const;
  bool is_result(ValueId value) const;

  const Graph& graph_;
  const std::vector<bool>* results_;
  Match match_;
  const Pattern::Condition* accept_ = nullptr;
  uint64_t steps_ = 0, last_step_ = 0;
};

}  // namespace rannc::ir
