#include "passes/fold_constants.h"

#include <algorithm>

#include "ir/constant.h"
#include "ir/op.h"
#include "ir/rewriter.h"
#include "passes/evaluator.h"
#include "passes/integer_evaluator.h"

namespace rannc::passes {

namespace {

using ir::Dim;
using ir::Graph;
using ir::ValueType;

constexpr int64_t kAlwaysFolded = 1 << 16;

bool all_constant(const ir::Contents& contents) {
  return std::all_of(contents.begin(), contents.end(), [](const Dim& dim) { return dim.is_constant(); });
}

class Folder {
 public:
  Folder(const Graph& from, const PassContext& context) : from_(from), context_(context), rewriter_(from) {}

  bool run() {
    for (const TaskId task : from_.tasks()) {
      if (fold_contents(task) || fold_data(task)) {
        changed_ = true;
      } else {
        copy(task);
      }
    }
    return changed_;
  }
  Graph finish() && { return std::move(rewriter_).finish(); }

 private:
  // A task whose single output is a known integer value.
  bool fold_contents(TaskId task) {
    const auto outputs = from_.outputs(task);
    const ir::OpInfo& op = from_.op(task);
    if (!op.known() || op.effect != ir::Effect::kPure || outputs.size() != 1) return false;
    const ValueType& type = from_.type(outputs[0]);
    if (!type.contents) return false;
    const std::string name(from_.value(outputs[0]).name);
    if (all_constant(*type.contents)) {
      std::vector<int64_t> values;
      for (const Dim& dim : *type.contents) values.push_back(dim.constant());
      std::vector<int64_t> shape(type.shape->size(), static_cast<int64_t>(values.size()));
      rewriter_.replace(outputs[0], ir::add_constant(graph(), name, type.dtype, shape, std::span<const int64_t>(values)));
      return true;
    }
    if (op.name == "core.full" || !ir::is_integer(type.dtype)) return false;
    if (type.contents->size() == 1) {
      rewriter_.replace(outputs[0], full((*type.contents)[0], *type.shape, type.dtype, name, task));
      return true;
    }
    return op.name == "core.shape" && fold_sizes(task, type, name);
  }

  // Several sizes at once: one number each, put together.
  bool fold_sizes(TaskId task, const ValueType& type, const std::string& name) {
    std::vector<ValueId> parts;
    for (const Dim& dim : *type.contents) {
      const int64_t number = dim.is_constant() ? dim.constant() : 0;
      parts.push_back(dim.is_constant() ? ir::add_constant(graph(), name + ".size", type.dtype, {1}, std::span(&number, 1))
                                        : full(dim, {Dim(1)}, type.dtype, name + ".size", task));
    }
    const TaskId joined =
        graph().add_task(ir::core("concat"), parts, {{"axis", Dim(0)}}, std::vector<std::string>{name}, from_.location(task));
    finish_types(joined);
    rewriter_.replace(from_.outputs(task)[0], graph().outputs(joined)[0]);
    return true;
  }

  ValueId full(const Dim& value, ir::Shape shape, ir::DType dtype, const std::string& name, TaskId task) {
    const ValueId made = graph().add(ir::core("full"), {}, {{"shape", std::move(shape)}, {"value", value}, {"dtype", dtype}},
                                     name, from_.location(task));
    finish_types(graph().value(made).producer);
    return made;
  }

  void finish_types(TaskId task) {
    const auto inferred = ir::infer_types(graph(), task);
    RANNC_CHECK(inferred.ok()) << inferred.diagnostic().str();
  }

  // A task of constants whose result is worth storing.
  bool fold_data(TaskId task) {
    const ir::OpInfo& op = from_.op(task);
    const auto inputs = from_.inputs(task);
    if (!op.known() || op.effect != ir::Effect::kPure || inputs.empty()) return false;
    int64_t available = 0, needed = 0;
    bool integers = true;
    for (const ValueId input : inputs) {
      if (!input.valid()) continue;
      const Graph::Value& value = graph().value(rewriter_.map(input));
      const auto count = ir::static_count(value.type);
      if (value.kind != ir::ValueKind::kConstant || !value.data.present() || !count) return false;
      available += *count;
      integers = integers && !ir::is_float(value.type.dtype);
    }
    for (const ValueId output : from_.outputs(task)) {
      const auto count = ir::static_count(from_.type(output));
      if (!count) return false;
      needed += *count;
      integers = integers && !ir::is_float(from_.type(output).dtype);
    }
    if (needed > std::max(available, kAlwaysFolded)) return false;
    return evaluate(task, integers);
  }

  bool evaluate(TaskId task, bool integers) {
    const ir::OpInfo& op = from_.op(task);
    std::vector<Tensor> tensors;
    for (const ValueId input : from_.inputs(task)) {
      if (!input.valid()) {
        tensors.emplace_back();
        continue;
      }
      const Graph::Value& value = graph().value(rewriter_.map(input));
      tensors.push_back({value.type, value.data});
    }
    std::vector<const Tensor*> operands;
    for (size_t i = 0; i < tensors.size(); ++i) operands.push_back(from_.inputs(task)[i].valid() ? &tensors[i] : nullptr);
    std::vector<Tensor> results;
    std::vector<ValueType> types;
    for (const ValueId output : from_.outputs(task)) types.push_back(from_.type(output));
    if (integers) {
      if (auto found = evaluate_integers(op, operands, from_.attributes(task), types)) results = *std::move(found);
    }
    if (results.empty() && context_.evaluator) {
      if (auto found = context_.evaluator->evaluate(op, operands, from_.attributes(task))) results = *std::move(found);
    }
    if (results.size() != types.size()) return false;
    for (size_t i = 0; i < results.size(); ++i) store(from_.outputs(task)[i], results[i]);
    return true;
  }

  void store(ValueId old, const Tensor& result) {
    const ValueType& type = from_.type(old);
    RANNC_CHECK(result.type.dtype == type.dtype && result.type.shape == type.shape)
        << "folding %" << from_.value(old).name << " gave another type";
    ValueType constant = type;
    constant.contents = ir::constant_contents(type, result.data);
    rewriter_.replace(old, graph().add_value(ir::ValueKind::kConstant, from_.value(old).name, std::move(constant), result.data));
  }

  // Copies a task, with operands of known contents moved into attributes.
  void copy(TaskId old) {
    const std::vector<std::string>& names = from_.op(old).operand_attributes;
    std::vector<ValueId> operands;
    for (const ValueId input : from_.inputs(old)) operands.push_back(rewriter_.map(input));
    ir::Attributes attributes = from_.attributes(old);
    bool moved = false;
    for (size_t i = 0; i < operands.size() && i < names.size(); ++i) {
      if (names[i].empty() || !operands[i].valid() || attributes.has(names[i])) continue;
      const ValueType& type = from_.type(from_.inputs(old)[i]);
      if (!type.contents) continue;
      if (type.shape->empty()) {
        attributes.set(names[i], (*type.contents)[0]);
      } else {
        attributes.set(names[i], ir::Shape(*type.contents));
      }
      operands[i] = ValueId();
      moved = true;
    }
    if (!moved) {
      rewriter_.copy(old);
      return;
    }
    changed_ = true;
    while (!operands.empty() && !operands.back().valid()) operands.pop_back();
    rebuild(old, operands, std::move(attributes));
  }

  // The old task with other operands and attributes: same outputs, same types.
  void rebuild(TaskId old, const std::vector<ValueId>& operands, ir::Attributes attributes) {
    std::vector<std::string> names;
    for (const ValueId output : from_.outputs(old)) names.emplace_back(from_.value(output).name);
    const TaskId task = graph().add_task(from_.op(old), operands, std::move(attributes), names, from_.location(old));
    for (size_t i = 0; i < names.size(); ++i) {
      const ValueId output = graph().outputs(task)[i];
      graph().set_type(output, from_.type(from_.outputs(old)[i]));
      rewriter_.replace(from_.outputs(old)[i], output);
    }
  }

  Graph& graph() { return rewriter_.graph(); }

  const Graph& from_;
  const PassContext& context_;
  ir::Rewriter rewriter_;
  bool changed_ = false;
};

}  // namespace

Result<Outcome> FoldConstants::run(Graph& graph, PassContext& context) const {
  Outcome outcome;
  Folder folder(graph, context);
  if (folder.run()) {
    graph = std::move(folder).finish();
    outcome.changed = true;
  }
  outcome.changed = ir::remove_dead(graph) || outcome.changed;
  return outcome;
}

}  // namespace rannc::passes
