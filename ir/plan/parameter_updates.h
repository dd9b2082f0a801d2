/// Which rule updates which elements of a model's stored parameters, and what it keeps for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/graph/graph.h"
#include "ir/plan/optimizer.h"

namespace rannc::ir {

/// Elements [first, last) of a stored parameter in memory order, which a rule updates one by one.
struct UpdateRun {
  uint32_t group = 0;
  int64_t first = 0, last = 0;
  bool operator==(const UpdateRun&) const = default;
};

/// A tensor of the exported program that a rule updates as a whole, in the program's orientation.
struct WholeUpdate {
  uint32_t group = 0;
  std::string name;  ///< in `state_dict`
  std::vector<int64_t> shape;
  std::vector<StatePart> parts;  ///< all of one stored parameter
  bool operator==(const WholeUpdate&) const = default;
};

/// The updates of one stored parameter. It may hold several tensors of the program. If these have one rule, it applies
/// to all elements; else elements in none are not updated.
struct StoredUpdate {
  std::vector<UpdateRun> runs;  ///< ascending
  std::vector<WholeUpdate> wholes;
  /// States of the parameter's shape, of any run: `exp_avg` …
  std::vector<std::string_view> states;
  /// Whether replicas may divide the parameter between them.
  bool divisible() const { return wholes.empty(); }
  bool operator==(const StoredUpdate&) const = default;
};

/// Parameters with equal rules.
struct UpdateGroup {
  UpdateRule rule;
  std::vector<std::string> tensors;  ///< names in `state_dict`, in the model's order; a tied one has its first
  int64_t elements = 0;
};

/// The updates of all parameters of a graph.
class ParameterUpdates {
 public:
  /// Patterns match the names of `full_state`; every name of a tied tensor counts. `rule` applies to parameters in no
  /// group. Muon updates tensors of two axes by which tasks multiply and in which none looks up rows, or for which a
  /// group names it, and leaves the rest to AdamW.
  /// Errors: a group without a parameter, a parameter in two groups, settings that do not apply to its optimizer, a
  /// stored parameter that cannot be divided between its groups. Each names the group and the parameter.
  static Result<ParameterUpdates> of(const Graph& graph, const UpdateRule& rule, const Grouping& grouping);
  /// Of the optimizer of a plan; no parameter has state if it has none.
  static Result<ParameterUpdates> of(const Graph& graph, const PlanOptimizer& optimizer);

  /// The first has parameters in no group, perhaps none.
  const std::vector<UpdateGroup>& groups() const { return groups_; }
  /// Of a parameter of the graph.
  const StoredUpdate& of(ValueId parameter) const { return stored_[parameter.index()]; }
  bool averaged() const { return averaged_; }
  /// Whether the groups of all parameters and their optimizers are those of `other`, of the same graph.
  bool have_groups_of(const ParameterUpdates& other) const;
  /// Whether the optimizer states of all parameters are, averages apart.
  bool have_states_of(const ParameterUpdates& other) const;
  /// Returns the first parameter whose state is not that of `before` and cannot begin after some updates, as that of
  /// SGD can; invalid if there is none.
  ValueId first_without_state(const ParameterUpdates& before) const;

  /// Elements of optimizer state, averages included, for elements [first, last) of a parameter: all of its own if it is
  /// not divisible.
  int64_t state_elements(ValueId parameter, int64_t first, int64_t last) const;
  /// Of all parameters.
  int64_t state_elements() const;
  /// Of a whole parameter, per element of it.
  double state_copies(ValueId parameter) const;
  /// Largest number of bytes that an update of a tensor as a whole copies at once, for parameters and gradient sums of
  /// elements of these sizes. 0: no part of the parameter is updated so.
  int64_t whole_copies(ValueId parameter, int64_t element_bytes, int64_t sum_bytes) const;

 private:
  class Builder;
  bool has_states_of(const StoredUpdate& own, const ParameterUpdates& other, const StoredUpdate& its) const;
  std::vector<UpdateGroup> groups_;
  std::vector<StoredUpdate> stored_;  ///< by value; empty for others than parameters
  std::vector<int64_t> elements_;     ///< by value
  bool averaged_ = false;
};

/// A group's rule, for people: `adamw, learning rate 0.001, weight decay 0.1`.
std::string describe(const UpdateRule& rule);

}  // namespace rannc::ir
