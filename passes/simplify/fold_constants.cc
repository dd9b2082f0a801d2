#include "passes/simplify/fold_constants.h"

#include <algorithm>

#include "ir/graph/constant.h"
#include "ir/graph/results.h"
#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "passes/internal/compute.h"

namespace rannc::passes {

namespace {

using ir::Dim;
using ir::Graph;
using ir::StoredTensor;
using ir::ValueType;

constexpr int64_t kAlwaysFolded = 1 << 16;         // elements of results, however few the operands have
constexpr int64_t kMostFolded = int64_t{1} << 28;  // elements of results

bool all_constant(const ir::Contents& contents) {
  return std::all_of(contents.begin(), contents.end(), [](const Dim& dim) { return dim.is_constant(); });
}

bool is_output(const Graph& graph, ValueId value) {
  return std::find(graph.outputs().begin(), graph.outputs().end(), value) != graph.outputs().end();
}

// Whether the task is what makes an output of a constant.
bool passes_constant_on(const Graph& graph, TaskId task) {
  static const ir::Ops kIdentity = "identity";
  return kIdentity.contains(graph.op(task)) && is_output(graph, graph.outputs(task)[0]) &&
         graph.value(graph.inputs(task)[0]).kind == ir::ValueKind::kConstant;
}

// How a task whose single output is a known integer value is folded.
enum class Known : uint8_t { kNo, kNumbers, kOneSize, kSizes };

Known known_contents(const Graph& graph, TaskId task) {
  const auto outputs = graph.outputs(task);
  const ir::OpInfo& op = graph.op(task);
  if (!op.known() || outputs.size() != 1) return Known::kNo;
  const ValueType& type = graph.type(outputs[0]);
  if (!type.contents || passes_constant_on(graph, task)) return Known::kNo;
  if (all_constant(*type.contents)) return Known::kNumbers;
  if (graph.inputs(task).empty() || !ir::is_integer(type.dtype)) return Known::kNo;
  if (type.contents->size() == 1) return Known::kOneSize;
  return op.operands[0].role == ir::Role::kShape ? Known::kSizes : Known::kNo;
}

// Whether operand `i` of a task moves into the attribute of its name.
bool becomes_attribute(const Graph& graph, TaskId task, size_t i) {
  const ir::OpInfo& op = graph.op(task);
  const ValueId input = graph.inputs(task)[i];
  return op.known() && !op.operand(i).attribute.empty() && input.valid() && graph.type(input).contents &&
         !graph.attributes(task).has(op.operand(i).attribute);
}

// Values that are still read once contents are known. Nothing is built for shape arithmetic that disappears.
struct Liveness {
  explicit Liveness(const Graph& graph) : task(graph.task_count()), value(graph.value_count()) {
    ir::for_each_kept(graph, [&](ValueId id) { mark(id); });
    for (uint32_t k = graph.task_count(); k-- > 0;) visit(graph, TaskId(k));
  }

  std::vector<bool> task, value;

 private:
  void mark(ValueId id) {
    if (id.valid()) value[id.index()] = true;
  }
  void visit(const Graph& graph, TaskId id) {
    bool needed = false;
    for (const ValueId output : graph.outputs(id)) needed = needed || value[output.index()];
    task[id.index()] = needed;
    if (!needed || known_contents(graph, id) != Known::kNo) return;
    for (size_t i = 0; i < graph.inputs(id).size(); ++i) {
      if (!becomes_attribute(graph, id, i)) mark(graph.inputs(id)[i]);
    }
  }
};

class Folder {
 public:
  Folder(const Graph& from, const PassContext& context)
      : from_(from), context_(context), live_(from), rewriter_(from, live_.value) {}

  bool run() {
    for (const TaskId task : from_.tasks()) {
      if (!live_.task[task.index()] || fold_contents(task) || fold_data(task)) {
        changed_ = true;
      } else {
        copy(task);
      }
    }
    return changed_;
  }

  // Outputs that have become constants are made by tasks.
  Graph finish() && {
    for (const ValueId output : from_.outputs()) {
      const ValueId folded = rewriter_.map(output);
      if (!from_.producer(output).valid() || graph().producer(folded).valid()) continue;
      const ValueId made = graph().add(ir::core("identity"), {folded}, {}, std::string(from_.value(output).name),
                                       from_.location(from_.producer(output)));
      finish_types(graph().producer(made));
      rewriter_.replace(output, made);
    }
    return std::move(rewriter_).finish();
  }

 private:
  bool fold_contents(TaskId task) {
    const Known known = known_contents(from_, task);
    if (known == Known::kNo) return false;
    const ValueId output = from_.outputs(task)[0];
    const ValueType& type = from_.type(output);
    const std::string name(from_.value(output).name);
    if (known == Known::kSizes) {
      fold_sizes(task, type, name);
    } else if (known == Known::kOneSize) {
      rewriter_.replace(output, full((*type.contents)[0], *type.shape, type.dtype, name, task));
    } else {
      std::vector<int64_t> values;
      for (const Dim& dim : *type.contents) values.push_back(dim.constant());
      const std::vector<int64_t> shape(type.shape->size(), static_cast<int64_t>(values.size()));
      rewriter_.replace(output, ir::add_constant(graph(), name_of_constant(output), type.dtype, shape,
                                                 std::span<const int64_t>(values)));
    }
    return true;
  }

  // Several sizes at once: one number each, put together.
  void fold_sizes(TaskId task, const ValueType& type, const std::string& name) {
    std::vector<ValueId> parts;
    for (const Dim& dim : *type.contents) {
      const int64_t number = dim.is_constant() ? dim.constant() : 0;
      parts.push_back(dim.is_constant()
                          ? ir::add_constant(graph(), name + ".size", type.dtype, {1}, std::span(&number, 1))
                          : full(dim, {Dim(1)}, type.dtype, name + ".size", task));
    }
    const TaskId joined = graph().add_task(ir::core("concat"), parts, {{"axis", Dim(0)}},
                                           std::vector<std::string>{name}, from_.location(task));
    finish_types(joined);
    rewriter_.replace(from_.outputs(task)[0], graph().outputs(joined)[0]);
  }

  ValueId full(const Dim& value, ir::Shape shape, ir::DType dtype, const std::string& name, TaskId task) {
    const ValueId made =
        graph().add(ir::core("full"), {}, {{"shape", std::move(shape)}, {"value", value}, {"dtype", dtype}}, name,
                    from_.location(task));
    finish_types(graph().value(made).producer);
    return made;
  }

  void finish_types(TaskId task) {
    const auto inferred = ir::infer_types(graph(), task);
    RANNC_CHECK(inferred.ok()) << inferred.diagnostic().str();
  }

  // A task after operands of known contents have moved into attributes.
  struct Reading {
    std::vector<ValueId> operands;  // of the old graph; invalid where absent or moved
    ir::Attributes attributes;
    bool moved = false;
  };

  Reading reading(TaskId task) const {
    const auto inputs = from_.inputs(task);
    Reading found{{inputs.begin(), inputs.end()}, from_.attributes(task)};
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!becomes_attribute(from_, task, i)) continue;
      const ValueType& type = from_.type(inputs[i]);
      const std::string_view name = from_.op(task).operand(i).attribute;
      if (type.shape->empty()) {
        found.attributes.set(name, (*type.contents)[0]);
      } else {
        found.attributes.set(name, ir::Shape(*type.contents));
      }
      found.operands[i] = ValueId();
      found.moved = true;
    }
    if (!found.moved) return found;
    while (!found.operands.empty() && !found.operands.back().valid()) found.operands.pop_back();
    return found;
  }

  // Returns whether a task reads only constants and its result is worth storing.
  bool fold_data(TaskId task) {
    const ir::OpInfo& op = from_.op(task);
    if (!op.known() || op.depends_on_training(from_.attributes(task)) || !reads_constants_only(task)) return false;
    if (passes_constant_on(from_, task)) return false;
    const Reading read = reading(task);
    if (read.operands.empty()) return false;
    int64_t available = 0, needed = 0;
    for (const ValueId input : read.operands) {
      if (!input.valid()) continue;
      const ValueType& type = graph().type(rewriter_.map(input));
      available += ir::static_count(type).value_or(0);
    }
    std::vector<ValueType> types;
    for (const ValueId output : from_.outputs(task)) {
      types.push_back(from_.type(output));
      const auto count = ir::static_count(types.back());
      if (!count) return false;
      needed += *count;
    }
    if (needed > std::min(std::max(available, kAlwaysFolded), kMostFolded) || is_long(task)) return false;
    const std::vector<StoredTensor> results = evaluate(op, read, types);
    for (size_t i = 0; i < results.size(); ++i) store(from_.outputs(task)[i], results[i]);
    return !results.empty();
  }

  // Returns whether the work is better done when the program runs.
  bool is_long(TaskId task) const {
    const Dim flops = ir::work_of(from_, task).flops;
    return !flops.is_constant() || flops.constant() > kMostFoldedWork;
  }

  bool reads_constants_only(TaskId task) {
    const auto inputs = from_.inputs(task);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid() || becomes_attribute(from_, task, i)) continue;
      const Graph::Value& value = graph().value(rewriter_.map(inputs[i]));
      if (value.kind != ir::ValueKind::kConstant || !value.data.present() || !ir::static_count(value.type))
        return false;
    }
    return !inputs.empty();
  }

  // Returns the results, or none if they cannot be computed.
  std::vector<StoredTensor> evaluate(const ir::OpInfo& op, const Reading& read, const std::vector<ValueType>& types) {
    std::vector<StoredTensor> tensors;
    for (const ValueId input : read.operands) {
      tensors.emplace_back();
      if (!input.valid()) continue;
      const Graph::Value& value = graph().value(rewriter_.map(input));
      tensors.back() = {value.type, value.data};
    }
    std::vector<const StoredTensor*> operands;
    for (size_t i = 0; i < tensors.size(); ++i) operands.push_back(read.operands[i].valid() ? &tensors[i] : nullptr);
    return compute(op, operands, read.attributes, types, context_.evaluator);
  }

  std::string name_of_constant(ValueId old) const {
    return std::string(from_.value(old).name) + (is_output(from_, old) ? ".value" : "");
  }

  void store(ValueId old, const StoredTensor& result) {
    const ValueType& type = from_.type(old);
    RANNC_CHECK(result.type.dtype == type.dtype && result.type.shape == type.shape)
        << "folding %" << from_.value(old).name << " gave another type";
    ValueType constant = type;
    constant.contents = ir::constant_contents(type, result.data);
    rewriter_.replace(
        old, graph().add_value(ir::ValueKind::kConstant, name_of_constant(old), std::move(constant), result.data));
  }

  // Copies a task, with operands of known contents moved into attributes.
  void copy(TaskId old) {
    bool moves = false;
    for (size_t i = 0; i < from_.inputs(old).size(); ++i) moves = moves || becomes_attribute(from_, old, i);
    if (!moves) {
      rewriter_.copy(old);
      return;
    }
    changed_ = true;
    Reading read = reading(old);
    for (ValueId& operand : read.operands) operand = rewriter_.map(operand);
    rebuild(old, read.operands, std::move(read.attributes));
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
  const Liveness live_;
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
