#include "passes/batch/hoist_uniform.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ir/graph/results.h"
#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "passes/batch/internal/uniformity.h"
#include "passes/internal/compute.h"

namespace rannc::passes {

using namespace ir;  // NOLINT: reads as its neighbours

namespace {

bool is_expand(const OpInfo& op) {
  static const Ops kExpand{"expand"};
  return kExpand.contains(op);
}

/// Computes parts of one sample, from constants on.
class OneSample {
 public:
  OneSample(const Graph& graph, const Uniformity& uniformity, const Evaluator* evaluator)
      : graph_(graph), uniformity_(uniformity), evaluator_(evaluator) {
    std::vector<bool> wanted(graph.value_count());
    for (uint32_t i = graph.task_count(); i-- > 0;) mark(TaskId(i), wanted);
    for (const TaskId task : graph.tasks()) {
      const auto outputs = graph.outputs(task);
      const bool fixed = !outputs.empty() && uniformity.of(outputs[0]) == Uniformity::Kind::kFixed;
      const bool read = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return wanted[v.index()]; });
      if (uniformity.of_samples(task) || (fixed && read)) evaluate(task);
    }
  }

  /// The numbers of one sample's part; null where they are not known here.
  const StoredTensor* find(ValueId value) const {
    const auto found = tensors_.find(value);
    return found == tensors_.end() ? nullptr : &found->second;
  }

 private:
  /// Marks values that tasks with samples read, directly or through tasks without samples.
  void mark(TaskId task, std::vector<bool>& wanted) const {
    const auto outputs = graph_.outputs(task);
    const bool read = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return wanted[v.index()]; });
    if (!read && !uniformity_.of_samples(task)) return;
    for (const ValueId operand : graph_.inputs(task)) {
      if (operand.valid()) wanted[operand.index()] = true;
    }
  }

  const StoredTensor* operand(ValueId value) {
    const Graph::Value& found = graph_.value(value);
    if (found.kind == ValueKind::kConstant && found.data.present() && static_count(found.type)) {
      return &tensors_.try_emplace(value, StoredTensor{found.type, found.data}).first->second;
    }
    return find(value);
  }

  /// A range or a few sizes whose numbers the type says.
  bool follows_from_type(TaskId task) {
    const ValueId output = graph_.outputs(task)[0];
    const ValueType& type = uniformity_.one_sample(output);
    const auto known = [](const Dim& dim) { return dim.is_constant(); };
    const bool all = graph_.outputs(task).size() == 1 && type.contents && is_integer(type.dtype) &&
                     std::all_of(type.contents->begin(), type.contents->end(), known);
    if (!all) return false;
    std::vector<int64_t> numbers;
    for (const Dim& dim : *type.contents) numbers.push_back(dim.constant());
    tensors_[output] = {type, encode_integers(type.dtype, numbers)};
    return true;
  }

  void evaluate(TaskId task) {
    constexpr int64_t kMostElements = 1 << 22;
    if (follows_from_type(task)) return;
    std::vector<const StoredTensor*> operands;
    std::vector<const ValueType*> operand_types;
    for (const ValueId each : graph_.inputs(task)) {
      operands.push_back(each.valid() ? operand(each) : nullptr);
      if (each.valid() && operands.back() == nullptr) return;
      operand_types.push_back(each.valid() ? &uniformity_.one_sample(each) : nullptr);
    }
    std::vector<ValueType> types;
    int64_t elements = 0;
    for (const ValueId output : graph_.outputs(task)) {
      types.push_back(uniformity_.one_sample(output));
      elements += static_count(types.back()).value_or(kMostElements + 1);
      if (elements > kMostElements) return;
    }
    const OpInfo& op = graph_.op(task);
    const Attributes attributes = uniformity_.one_sample(task);
    const OpCall call(op, operand_types, attributes, graph_.batch_symbol());
    const Dim flops = op.work ? op.work(call, types).flops : Dim(0);
    if (!flops.is_constant() || flops.constant() > kMostFoldedWork) return;
    keep(task, types, compute(op, operands, attributes, types, evaluator_));
  }

  void keep(TaskId task, const std::vector<ValueType>& types, std::vector<StoredTensor> results) {
    for (size_t i = 0; i < results.size(); ++i) {
      const bool fits = results[i].type.dtype == types[i].dtype && results[i].type.shape == types[i].shape;
      RANNC_CHECK(fits) << graph_.op(task).name << " gave another type for one sample";
      tensors_[graph_.outputs(task)[i]] = {types[i], std::move(results[i].data)};
    }
  }

  const Graph& graph_;
  const Uniformity& uniformity_;
  const Evaluator* evaluator_;
  std::map<ValueId, StoredTensor> tensors_;
};

/// Builds a graph in which tasks of uniform values compute one sample.
class Hoist {
 public:
  Hoist(const Graph& graph, const Evaluator* evaluator)
      : graph_(graph),
        uniformity_(graph),
        one_(graph, uniformity_, evaluator),
        whole_(results_of(graph)),
        part_(graph.value_count()),
        parts_(graph.value_count()),
        rewriter_(graph) {}

  /// Returns the number of replaced tasks.
  size_t plan() {
    size_t gone = 0;
    for (uint32_t i = graph_.task_count(); i-- > 0;) {
      const TaskId task(i);
      if (is_copied(task)) {
        want_operands(task);
      } else {
        ++gone;
      }
      if (uniformity_.of_samples(task)) want_parts(task);
    }
    return gone;
  }

  Graph build() && {
    for (const TaskId task : graph_.tasks()) {
      const bool copied = is_copied(task);
      if (copied) copy(task);
      if (!uniformity_.of_samples(task)) continue;
      if (is_made(task)) make_parts(task);
      if (copied) continue;
      for (const ValueId output : graph_.outputs(task)) {
        if (whole_[output.index()]) expand(output);
      }
    }
    return std::move(rewriter_).finish();
  }

 private:
  /// Whether samples are there for the first time: no operand has them.
  bool introduces_samples(TaskId task) const {
    const auto in = graph_.inputs(task);
    return std::none_of(in.begin(), in.end(),
                        [&](ValueId operand) { return operand.valid() && graph_.type(operand).batch.has_batch(); });
  }

  /// Whether the batched task must be kept in addition to the one-sample task: it has results that are not one sample's
  /// part, or all samples of its result are read and it expands already, or its result is not an expanded part.
  bool is_copied(TaskId task) const {
    if (!uniformity_.of_samples(task)) return true;
    const auto outputs = graph_.outputs(task);
    const auto requested = [&](ValueId value) { return whole_[value.index()]; };
    const auto expands = [&](ValueId value) {
      const BatchLayout& layout = graph_.type(value).batch;
      return layout.outer == Dim(1) && layout.inner == Dim(1) && uniformity_.of(value) == Uniformity::Kind::kUniform;
    };
    return std::any_of(outputs.begin(), outputs.end(), requested) &&
           (introduces_samples(task) || !std::all_of(outputs.begin(), outputs.end(), expands));
  }

  /// The smallest value of which a value is an expansion, when there is one sample.
  ValueId unexpanded(ValueId value) const {
    while (true) {
      const TaskId maker = graph_.producer(value);
      if (!maker.valid() || !is_expand(graph_.op(maker)) || !uniformity_.of_samples(maker)) return value;
      value = graph_.inputs(maker)[0];
    }
  }

  /// Per operand the part that stands for it, in tasks that broadcast it, or mask by it, to the same result; invalid
  /// where none does.
  std::vector<ValueId> broadcast_parts(TaskId task) const {
    static const Ops kAttention{"attention"};
    const OpInfo& op = graph_.op(task);
    const auto in = graph_.inputs(task);
    std::vector<ValueId> parts(in.size());
    const bool masks = kAttention.contains(op);
    if (!op.known() || !(op.broadcasts || masks) || uniformity_.of_samples(task)) return parts;
    std::vector<const ValueType*> types = type_list(graph_, in);
    for (size_t i = masks ? 3 : 0; i < in.size(); ++i) {
      if (!in[i].valid() || uniformity_.of(in[i]) != Uniformity::Kind::kUniform) continue;
      for (const ValueId part : {unexpanded(in[i]), in[i]}) {
        const ValueType* const whole = std::exchange(types[i], &uniformity_.one_sample(part));
        const auto found = ir::types_of({op, types, graph_.attributes(task), graph_.batch_symbol()});
        if (found.ok() && found->size() == 1 && (*found)[0] == graph_.type(graph_.outputs(task)[0])) {
          parts[i] = part;
          break;
        }
        types[i] = whole;
      }
    }
    return parts;
  }

  void want_part(ValueId value) { part_[value.index()] = true; }

  void want_operands(TaskId task) {
    const auto in = graph_.inputs(task);
    const std::vector<ValueId> parts = broadcast_parts(task);
    for (size_t i = 0; i < in.size(); ++i) {
      if (parts[i].valid()) {
        want_part(parts[i]);
      } else if (in[i].valid()) {
        whole_[in[i].index()] = true;
      }
    }
  }

  /// Whether to build the one-sample task: its result is needed and not constant.
  bool is_made(TaskId task) const {
    const auto outputs = graph_.outputs(task);
    return std::any_of(outputs.begin(), outputs.end(),
                       [&](ValueId value) { return part_[value.index()] && one_.find(value) == nullptr; });
  }

  void want_parts(TaskId task) {
    for (const ValueId output : graph_.outputs(task)) {
      if (whole_[output.index()] && !is_copied(task)) want_part(unexpanded(output));
    }
    if (!is_made(task)) return;
    for (const ValueId operand : graph_.inputs(task)) {
      if (operand.valid()) want_part(operand);
    }
  }

  std::string fresh_name(ValueId value) {
    const std::string name = fmt::format("{}.sample", graph_.value(value).name);
    std::string fresh = name;
    for (int suffix = 1; graph_.find(fresh).valid() || rewriter_.graph().find(fresh).valid(); ++suffix)
      fresh = fmt::format("{}.{}", name, suffix);
    return fresh;
  }

  /// The new value of one sample's part.
  ValueId part(ValueId value) {
    if (uniformity_.of(value) == Uniformity::Kind::kFixed) return rewriter_.map(value);
    ValueId& made = parts_[value.index()];
    if (!made.valid()) {
      const StoredTensor& stored = *one_.find(value);
      ValueType type = stored.type;
      type.contents = constant_contents(type, stored.data);
      made = rewriter_.graph().add_value(ValueKind::kConstant, fresh_name(value), std::move(type), stored.data);
    }
    return made;
  }

  /// The part of a task that is not computed here.
  void make_parts(TaskId task) {
    std::vector<ValueId> operands;
    for (const ValueId operand : graph_.inputs(task)) operands.push_back(operand.valid() ? part(operand) : operand);
    std::vector<std::string> names;
    for (const ValueId output : graph_.outputs(task)) names.push_back(fresh_name(output));
    const TaskId made = rewriter_.graph().add_task(graph_.op(task), operands, uniformity_.one_sample(task), names,
                                                   graph_.location(task));
    for (size_t i = 0; i < names.size(); ++i) {
      const ValueId old = graph_.outputs(task)[i];
      parts_[old.index()] = rewriter_.graph().outputs(made)[i];
      rewriter_.graph().set_type(parts_[old.index()], uniformity_.one_sample(old));
    }
  }

  /// A value as an expansion of its part.
  void expand(ValueId value) {
    const ValueType& type = graph_.type(value);
    const std::string names[] = {std::string(graph_.value(value).name)};
    const ValueId operands[] = {part(unexpanded(value))};
    const Location where = graph_.location(graph_.producer(value));
    const TaskId made = rewriter_.graph().add_task(core("expand"), operands, {{"shape", *type.shape}}, names, where);
    rewriter_.replace(value, rewriter_.graph().outputs(made)[0]);
    rewriter_.graph().set_type(rewriter_.map(value), type);
  }

  void copy(TaskId task) {
    const auto in = graph_.inputs(task);
    const std::vector<ValueId> parts = broadcast_parts(task);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < in.size(); ++i) operands.push_back(parts[i].valid() ? part(parts[i]) : rewriter_.map(in[i]));
    rewriter_.copy(task, operands);
  }

  const Graph& graph_;
  const Uniformity uniformity_;
  const OneSample one_;
  std::vector<bool> whole_, part_;  // which values are asked for
  std::vector<ValueId> parts_;      // new values, by old ones
  Rewriter rewriter_;
};

}  // namespace

Result<Outcome> HoistUniform::run(Graph& graph, PassContext& context) const {
  if (graph.batch_symbol().empty()) return Outcome{};
  Hoist hoist(graph, context.evaluator);
  const size_t gone = hoist.plan();
  if (gone == 0) return Outcome{};
  graph = std::move(hoist).build();
  remove_dead(graph);
  context.remarks.emplace_back().message =
      fmt::format("{} tasks compute for one sample what is the same for all", gone);
  return Outcome{true};
}

}  // namespace rannc::passes
