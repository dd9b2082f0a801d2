#include "ir/gradient/gradient.h"

#include <algorithm>

namespace rannc::ir {

ValueId GradientCall::operand(size_t index) const {
  const auto operands = graph_.inputs(task_);
  return index < operands.size() ? operands[index] : ValueId();
}

const Shape& GradientCall::shape(ValueId value) const {
  const auto& found = graph_.type(value).shape;
  RANNC_CHECK(found.has_value()) << "the gradient of " << op().name << " needs the shape of %"
                                 << graph_.value(value).name;
  return *found;
}

std::vector<ValueId> GradientCall::add(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes,
                                       uint32_t results) {
  const std::vector<std::string> names(results);
  const TaskId task = graph_.add_task(core(op), operands, std::move(attributes), names, graph_.location(task_));
  const auto typed = infer_types(graph_, task);
  RANNC_CHECK(typed.ok()) << "the gradient of " << graph_.op(task_).name << ": " << typed.diagnostic().str();
  const auto made = graph_.outputs(task);
  return {made.begin(), made.end()};
}

ValueId GradientCall::add(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes) {
  return add(op, operands, std::move(attributes), 1)[0];
}

std::vector<ValueId> GradientCall::add_foreign(const std::string& op, const std::vector<ValueId>& operands,
                                               Attributes attributes, const std::vector<ValueType>& types) {
  const std::vector<std::string> names(types.size());
  const TaskId task =
      graph_.add_task(graph_.foreign_op(op), operands, std::move(attributes), names, graph_.location(task_));
  const auto made = graph_.outputs(task);
  for (size_t i = 0; i < types.size(); ++i) graph_.set_type(made[i], types[i]);
  return {made.begin(), made.end()};
}

ValueId GradientCall::number(double value, ValueId like) {
  return add("full", {}, {{"shape", Shape{}}, {"value", value}, {"dtype", type(like).dtype}});
}

void GradientCall::give(size_t operand, ValueId gradient) {
  RANNC_CHECK(wants(operand) && !given_[operand].valid()) << "operand " << operand << " of " << op().name;
  const ValueType &of = type(this->operand(operand)), &made = type(gradient);
  RANNC_CHECK(of.dtype == made.dtype && of.shape == made.shape)
      << op().name << ": the gradient of operand " << operand << " is " << ir::str(made.dtype) << ir::str(*made.shape);
  given_[operand] = gradient;
}

void GradientCall::give_unstretched(size_t operand, ValueId gradient) {
  const Shape from = shape(gradient), to = shape(this->operand(operand));
  const size_t more = from.size() - to.size();
  Shape axes;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool stretched = i < more || (to[i - more] == Dim(1) && !(from[i] == Dim(1)));
    if (stretched) axes.emplace_back(static_cast<int64_t>(i));
  }
  if (!axes.empty()) gradient = add("sum", {gradient}, {{"axes", axes}, {"keepdim", more == 0}});
  if (!(shape(gradient) == to)) gradient = add("reshape", {gradient}, {{"shape", to}});
  give(operand, gradient);
}

}  // namespace rannc::ir
