#include "ir/gradient/gradient.h"

#include <algorithm>
#include <map>

#include "ir/gradient/vjp.h"
#include "ir/graph/byte_count.h"
#include "ir/graph/execution_frequency.h"

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

// --- what a tape keeps

namespace {

/// Runs the gradient rule of one task apart from its graph, to see what the gradient reads.
class ReadsOfGradient {
 public:
  ReadsOfGradient(const Graph& graph, TaskId task, uint64_t wanted)
      : graph_(graph), task_(task), op_(graph.op(task)), wanted_(wanted) {
    apart_.set_batch_symbol(graph.batch_symbol());
  }

  /// Nothing if there is no rule for the task.
  std::optional<TapeUse> find() {
    if (op_.gradient == nullptr || keeps_tape(op_)) return std::nullopt;
    copy_task();
    std::vector<ValueId> gradients;
    for (const ValueId output : graph_.outputs(task_)) {
      const ValueType& type = graph_.type(output);
      gradients.push_back(is_float(type.dtype) ? apart_.add_value(ValueKind::kInput, "", type) : ValueId());
    }
    gradients.resize(apart_.outputs(copy_).size());
    GradientCall call(apart_, copy_, gradients, wants_);
    if (!op_.gradient(call)) return std::nullopt;
    return reads();
  }

 private:
  /// With the auxiliary results that the gradient reads.
  void copy_task() {
    const auto inputs = graph_.inputs(task_), outputs = graph_.outputs(task_);
    std::map<ValueId, ValueId> copies;
    for (size_t i = 0; i < inputs.size(); ++i) {
      wants_.push_back(i < 64 && (wanted_ >> i & 1) != 0);
      operands_.emplace_back();
      if (!inputs[i].valid()) continue;
      const auto [at, fresh] = copies.try_emplace(inputs[i]);
      if (fresh) at->second = apart_.add_value(ValueKind::kInput, "", graph_.type(inputs[i]));
      operands_.back() = at->second;
    }
    size_t results = outputs.size();
    if (op_.gradient_takes_auxiliary != nullptr) {
      const auto in = type_list(graph_, inputs), out = type_list(graph_, outputs);
      results = op_.min_results() + op_.gradient_takes_auxiliary({op_, in, out, graph_.attributes(task_), wanted_});
    }
    copy_ = apart_.add_task(op_, operands_, graph_.attributes(task_), std::vector<std::string>(results));
    if (results > outputs.size()) {
      const auto typed = infer_types(apart_, copy_);
      RANNC_CHECK(typed.ok()) << typed.diagnostic().str();
    }
    for (size_t i = 0; i < outputs.size(); ++i) apart_.set_type(apart_.outputs(copy_)[i], graph_.type(outputs[i]));
  }

  TapeUse reads() const {
    const Views views(apart_);
    std::vector<bool> read(apart_.value_count());
    for (uint32_t i = copy_.index() + 1; i < apart_.task_count(); ++i) {
      const auto inputs = apart_.inputs(TaskId(i));
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (reads_operand(apart_, TaskId(i), k)) read[views.base(inputs[k]).index()] = true;
      }
    }
    TapeUse use;
    for (uint32_t i = 0; i < operands_.size(); ++i) {
      if (operands_[i].valid() && read[operands_[i].index()]) use.keeps.push_back({Kept::Of::kOperand, i});
    }
    const auto made = apart_.outputs(copy_);
    for (uint32_t i = 0; i < made.size(); ++i) {
      if (!read[made[i].index()] || views.base(made[i]) != made[i]) continue;
      if (i < graph_.outputs(task_).size()) {
        use.keeps.push_back({Kept::Of::kResult, i});
      } else {
        use.own_bytes = use.own_bytes + byte_count(apart_.type(made[i]));
      }
    }
    return use;
  }

  const Graph& graph_;
  const TaskId task_;
  const OpInfo& op_;
  const uint64_t wanted_;
  Graph apart_;
  std::vector<ValueId> operands_;
  std::vector<bool> wants_;
  TaskId copy_;
};

TapeUse all_of(const Graph& graph, TaskId task) {
  TapeUse use;
  const auto inputs = graph.inputs(task), outputs = graph.outputs(task);
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].valid() && is_float(graph.type(inputs[i]).dtype)) use.keeps.push_back({Kept::Of::kOperand, i});
  }
  for (uint32_t i = 0; i < outputs.size(); ++i) use.keeps.push_back({Kept::Of::kResult, i});
  return use;
}

}  // namespace

TapeUse tape_use(const Graph& graph, TaskId task, uint64_t wanted) {
  const OpInfo& op = graph.op(task);
  const auto inputs = type_list(graph, graph.inputs(task)), outputs = type_list(graph, graph.outputs(task));
  const auto unknown = [](const ValueType* type) { return type != nullptr && !type->shape; };
  const bool known =
      std::none_of(inputs.begin(), inputs.end(), unknown) && std::none_of(outputs.begin(), outputs.end(), unknown);
  const auto has_gradient = [](const ValueType* type) { return is_float(type->dtype); };
  if (std::none_of(outputs.begin(), outputs.end(), has_gradient)) return {};
  if (!op.tape) {
    if (wanted == 0) return {};
    auto reads = known ? ReadsOfGradient(graph, task, wanted).find() : std::nullopt;
    return reads ? *std::move(reads) : all_of(graph, task);
  }
  TapeUse use;
  if (op.tape->rule != nullptr && known) use = op.tape->rule({op, inputs, outputs, graph.attributes(task), wanted});
  use.keeps.insert(use.keeps.begin(), op.tape->keeps.begin(), op.tape->keeps.end());
  return use;
}

}  // namespace rannc::ir
