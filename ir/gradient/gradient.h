/// How an operator's entry says its gradient: a rule that adds tasks of the same language.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op/op.h"

namespace rannc::ir {

/// What a gradient rule (`OpInfo::gradient`) sees of one forward task, and through which it adds tasks to the same
/// graph.
///
/// A rule is asked where a gradient reaches at least one result and at least one operand wants one. For each operand
/// that does it calls `give` once, with a value of the operand's type; or says false, having added nothing, where it
/// has no tasks for these attributes. What it reads of the forward pass (operands, results) is kept until then: it
/// reads the least. Samples stay apart: a gradient has its samples where its value has them; that of a value without
/// samples, made from values that have some, is a partial sum.
class GradientCall {
 public:
  /// `gradients`: one per result, invalid where none reaches it. `wanted`: one per operand.
  GradientCall(Graph& graph, TaskId task, std::span<const ValueId> gradients, const std::vector<bool>& wanted)
      : graph_(graph),
        task_(task),
        gradients_(gradients.begin(), gradients.end()),
        wanted_(wanted),
        given_(wanted.size()) {}

  const OpInfo& op() const { return graph_.op(task_); }
  OpAttributes attributes() const { return {graph_.op(task_), graph_.attributes(task_)}; }
  ValueId operand(size_t index) const;  ///< invalid where absent
  size_t operand_count() const { return graph_.inputs(task_).size(); }
  /// Auxiliary results are there for operators whose entry says that the gradient reads them.
  ValueId result(size_t index = 0) const { return graph_.outputs(task_)[index]; }
  size_t result_count() const { return graph_.outputs(task_).size(); }
  ValueId gradient(size_t result = 0) const { return gradients_[result]; }
  bool wants(size_t operand) const { return operand < wanted_.size() && wanted_[operand]; }
  const ValueType& type(ValueId value) const { return graph_.type(value); }
  const Shape& shape(ValueId value) const;

  /// The first result of a new task of `core.<op>`, at the forward task's place. Types that do not fit are our bug.
  ValueId add(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes = {});
  std::vector<ValueId> add(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes,
                           uint32_t results);
  /// A task of an operator that the registry does not know, whose results have these types.
  std::vector<ValueId> add_foreign(const std::string& op, const std::vector<ValueId>& operands, Attributes attributes,
                                   const std::vector<ValueType>& types);
  /// A scalar of the element type of `like`.
  ValueId number(double value, ValueId like);

  void give(size_t operand, ValueId gradient);
  /// `gradient` has the shape to which the operand was stretched: sums over the axes along which it was.
  void give_unstretched(size_t operand, ValueId gradient);
  /// What was given; invalid where nothing was.
  ValueId given(size_t operand) const { return given_[operand]; }

 private:
  Graph& graph_;
  TaskId task_;
  std::vector<ValueId> gradients_;
  const std::vector<bool>& wanted_;
  std::vector<ValueId> given_;
};

}  // namespace rannc::ir
