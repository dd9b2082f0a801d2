/// Interface of gradient rules, which add gradient tasks to a graph.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op/op.h"

namespace rannc::ir {

/// Input to a gradient rule (`OpInfo::gradient`): one forward task, with functions to add tasks to its graph.
///
/// A rule runs if a gradient reaches at least one result and at least one operand wants one. For each operand that
/// wants one, the rule calls `give` once with a value of the operand's type. If it does not support the attributes, it
/// returns false and adds nothing.
///
/// Forward values (operands, results) that a rule reads stay in memory until the backward pass, so it reads as few as
/// possible. Samples stay independent: a gradient has the batch layout of its value. The gradient of a value without
/// samples, computed from values with samples, is a partial sum.
class GradientCall {
 public:
  /// `gradients`: one per result, invalid if none reaches it. `wanted`: one per operand.
  GradientCall(Graph& graph, TaskId task, std::span<const ValueId> gradients, const std::vector<bool>& wanted)
      : graph_(graph),
        task_(task),
        gradients_(gradients.begin(), gradients.end()),
        wanted_(wanted),
        given_(wanted.size()) {}

  const OpInfo& op() const { return graph_.op(task_); }
  OpAttributes attributes() const { return {graph_.op(task_), graph_.attributes(task_)}; }
  ValueId operand(size_t index) const;  ///< invalid if absent
  bool is_parameter(size_t index) const { return graph_.kind(graph_.inputs(task_)[index]) == ValueKind::kParameter; }
  size_t operand_count() const { return graph_.inputs(task_).size(); }
  /// Auxiliary results exist if the operator's entry sets `gradient_takes_auxiliary`.
  ValueId result(size_t index = 0) const { return graph_.outputs(task_)[index]; }
  size_t result_count() const { return graph_.outputs(task_).size(); }
  ValueId gradient(size_t result = 0) const { return gradients_[result]; }
  bool wants(size_t operand) const { return operand < wanted_.size() && wanted_[operand]; }
  const ValueType& type(ValueId value) const { return graph_.type(value); }
  const Shape& shape(ValueId value) const;

  /// Adds a task of `core.<op>` with the forward task's location. Returns its first result. Types must fit
  /// (RANNC_CHECK).
  ValueId add(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes = {});
  std::vector<ValueId> add(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes,
                           uint32_t results);
  /// Adds a task of an operator that is not in the registry. Its results have these types.
  std::vector<ValueId> add_foreign(const std::string& op, const std::vector<ValueId>& operands, Attributes attributes,
                                   const std::vector<ValueType>& types);
  /// A scalar of the element type of `like`.
  ValueId number(double value, ValueId like);

  void give(size_t operand, ValueId gradient);
  /// Sums a gradient of the broadcast shape over the axes along which the operand was broadcast, and gives the sum.
  void give_unstretched(size_t operand, ValueId gradient);
  /// The gradient given for an operand; invalid if none was.
  ValueId given(size_t operand) const { return given_[operand]; }

 private:
  Graph& graph_;
  TaskId task_;
  std::vector<ValueId> gradients_;
  const std::vector<bool>& wanted_;
  std::vector<ValueId> given_;
};

}  // namespace rannc::ir
