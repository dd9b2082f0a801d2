#include "passes/training/differentiate.h"

#include <algorithm>
#include <optional>

#include "ir/gradient/gradient.h"
#include "ir/gradient/vjp.h"
#include "ir/graph/execution_frequency.h"
#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "ir/plan/plan.h"
#include "ir/verify.h"

namespace rannc::passes {

namespace {

using ir::Frequency;
using ir::Graph;
using ir::Joint;
using ir::Phase;

class Differentiator {
 public:
  Differentiator(const Graph& from, const StageBorder& border)
      : from_(from),
        border_(border),
        often_(ir::execution_frequency(from)),
        active_(ir::needs_gradient(from, border.sources)),
        reached_(ir::reached_by_gradients(from, border.returned)),
        copies_(from.value_count()),
        parts_(from.value_count()) {
    for (const ValueId value : from.values()) {
      active_[value.index()] = active_[value.index()] && reached_[value.index()];
    }
  }

  Result<Joint> run() {
    copy_forward();
    seed();
    for (uint32_t i = from_.task_count(); i-- > 0;) {
      if (is_active(TaskId(i))) differentiate(TaskId(i));
    }
    send_back();
    std::sort(joint_.gradients.begin(), joint_.gradients.end(), [](const auto& a, const auto& b) {
      return std::pair(a.parameter.index(), a.reader.index()) < std::pair(b.parameter.index(), b.reader.index());
    });
    RANNC_TRY(nothing_is_mixed());
    return std::move(joint_);
  }

 private:
  // --- the forward pass

  bool is_active(TaskId task) const {
    const auto outputs = from_.outputs(task), inputs = from_.inputs(task);
    const auto active = [&](ValueId value) { return value.valid() && active_[value.index()]; };
    return ir::passes_gradients(from_, task, reached_) && std::any_of(outputs.begin(), outputs.end(), active) &&
           std::any_of(inputs.begin(), inputs.end(), active);
  }

  void copy_forward() {
    ir::Rewriter rewriter(from_);
    for (const TaskId task : from_.tasks()) {
      const size_t results = results_of(task);
      if (is_active(task) && ir::keeps_tape(from_.op(task))) {
        copy_with_tape(rewriter, task);
      } else if (results > from_.outputs(task).size()) {
        copy_with_auxiliary(rewriter, task, results);
      } else {
        rewriter.copy(task);
      }
      joint_.origins.push_back({task, Phase::kForward});
    }
    for (const ValueId value : from_.values()) {
      if (rewriter.mapped(value)) copies_[value.index()] = rewriter.map(value);
    }
    joint_.graph = std::move(rewriter).finish();
  }

  // Returns the number of results of a task with those that only its gradient reads.
  size_t results_of(TaskId task) const {
    const ir::OpInfo& op = from_.op(task);
    const auto inputs = from_.inputs(task), outputs = from_.outputs(task);
    if (op.gradient_takes_auxiliary == nullptr || !is_active(task)) return outputs.size();
    const std::vector<bool> each = wanted_of(task);
    uint64_t wanted = 0;
    for (size_t i = 0; i < std::min<size_t>(each.size(), 64); ++i) wanted |= uint64_t{each[i]} << i;
    const auto operands = ir::type_list(from_, inputs), results = ir::type_list(from_, outputs);
    return op.min_results() +
           op.gradient_takes_auxiliary({op, operands, results, from_.attributes(task), wanted, border_.device});
  }

  // Returns whether the gradient of each operand is wanted.
  std::vector<bool> wanted_of(TaskId task) const {
    std::vector<bool> wanted;
    for (const ValueId input : from_.inputs(task)) wanted.push_back(input.valid() && active_[input.index()]);
    return wanted;
  }

  std::vector<std::string> names_of_results(TaskId task) const {
    std::vector<std::string> names;
    for (const ValueId output : from_.outputs(task)) names.emplace_back(from_.value(output).name);
    return names;
  }

  static std::vector<ValueId> mapped(const ir::Rewriter& rewriter, std::span<const ValueId> values) {
    std::vector<ValueId> found;
    for (const ValueId value : values) found.push_back(rewriter.map(value));
    return found;
  }

  void copy_with_auxiliary(ir::Rewriter& rewriter, TaskId task, size_t results) {
    const ir::OpInfo& op = from_.op(task);
    std::vector<std::string> names = names_of_results(task);
    for (size_t i = names.size(); i < results; ++i) names.push_back(names[0] + "." + std::string(op.results[i].name));
    Graph& graph = rewriter.graph();
    const TaskId copy =
        graph.add_task(op, mapped(rewriter, from_.inputs(task)), from_.attributes(task), names, from_.location(task));
    const auto typed = ir::infer_types(graph, copy);
    RANNC_CHECK(typed.ok()) << typed.diagnostic().str();
    replace_results(rewriter, task, copy);
  }

  void copy_with_tape(ir::Rewriter& rewriter, TaskId task) {
    if (!views_) views_.emplace(from_);
    ir::TapedCopy taped = ir::taped_copy(from_, task, wanted_of(task), *views_);
    std::vector<std::string> names = names_of_results(task);
    names.push_back(names[0] + ".tape");
    Graph& graph = rewriter.graph();
    const TaskId copy = graph.add_task(graph.foreign_op(taped.name), mapped(rewriter, from_.inputs(task)),
                                       std::move(taped.attributes), names, from_.location(task));
    graph.set_type(graph.outputs(copy).back(), std::move(taped.tape));
    replace_results(rewriter, task, copy);
  }

  void replace_results(ir::Rewriter& rewriter, TaskId task, TaskId copy) const {
    Graph& graph = rewriter.graph();
    const auto outputs = from_.outputs(task);
    for (size_t i = 0; i < outputs.size(); ++i) {
      graph.set_type(graph.outputs(copy)[i], from_.type(outputs[i]));
      rewriter.replace(outputs[i], graph.outputs(copy)[i]);
    }
  }

  // --- sums of gradients

  // Adds the input that holds the gradient of a value.
  ValueId add_seed(std::string_view prefix, ValueId of) {
    ir::ValueType type = from_.type(of);
    type.contents.reset();
    if (!type.batch.has_batch()) type.batch = {};
    const std::string name = std::string(prefix) + std::string(from_.value(of).name);
    const ValueId seed = graph().add_value(ir::ValueKind::kInput, name, std::move(type));
    graph().add_input(seed);
    parts_[of.index()].push_back(seed);
    return seed;
  }

  void seed() {
    for (const ir::LossTerm& term : from_.losses()) {
      joint_.seeds.emplace_back();
      if (active_[term.numerator.index()]) joint_.seeds.back() = add_seed("seed.", term.numerator);
    }
    for (const ValueId value : border_.returned) {
      if (active_[value.index()]) joint_.outputs.push_back({copies_[value.index()], add_seed("grad.", value)});
    }
  }

  // Sums the gradients of the inputs of a stage. One that no gradient reaches is not listed.
  void send_back() {
    for (const ValueId source : border_.sources) {
      std::vector<ValueId> parts = std::move(parts_[source.index()]);
      if (parts.empty()) continue;
      const TaskId reader = from_.uses(source).front().task;
      const ValueId sum = sum_of(parts, reader);
      claim(reader, Phase::kInput);
      joint_.inputs.push_back({copies_[source.index()], sum});
    }
  }

  // Tasks from `first` on belong to the gradient of `task`.
  void claim(TaskId task, Phase phase) {
    while (joint_.origins.size() < graph().task_count()) joint_.origins.push_back({task, phase});
  }

  ValueId add(std::string_view op, std::vector<ValueId> operands, TaskId task) {
    const TaskId made = graph().add_task(ir::core(op), operands, {}, std::vector<std::string>(1), from_.location(task));
    const auto typed = ir::infer_types(graph(), made);
    RANNC_CHECK(typed.ok()) << typed.diagnostic().str();
    return graph().outputs(made)[0];
  }

  // Returns their sum in order; invalid if there are none.
  ValueId sum_of(const std::vector<ValueId>& parts, TaskId task) {
    ValueId sum;
    for (const ValueId part : parts) sum = sum.valid() ? add("add", {sum, part}, task) : part;
    return sum;
  }

  // Returns the gradient of a result of `task`; invalid if none reaches it. For a value that is computed once per step,
  // parts of single micro-batches are completed first.
  ValueId gradient_of(TaskId task, ValueId result) {
    std::vector<ValueId> parts = std::move(parts_[result.index()]);
    const auto is_partial = [&](ValueId part) { return graph().type(part).batch.is_partial(); };
    const auto whole = often_[task.index()] == Frequency::kMicroBatch
                           ? parts.begin()
                           : std::stable_partition(parts.begin(), parts.end(), is_partial);
    std::vector<ValueId> summed(whole, parts.end());
    parts.erase(whole, parts.end());
    if (!parts.empty()) summed.insert(summed.begin(), add("total", {sum_of(parts, task)}, task));
    const ValueId sum = sum_of(summed, task);
    claim(task, is_weight(result) ? Phase::kWeight : Phase::kInput);
    return sum;
  }

  // --- rules

  void differentiate(TaskId task) {
    if (passes_on(task)) return pass_on(task);
    std::vector<ValueId> gradients;
    for (const ValueId result : from_.outputs(task)) gradients.push_back(gradient_of(task, result));
    if (std::none_of(gradients.begin(), gradients.end(), [](ValueId v) { return v.valid(); })) return;
    gradients.resize(graph().outputs(task).size());
    const std::vector<bool> wanted = wanted_of(task);
    const uint32_t first = graph().task_count();
    ir::GradientCall call(graph(), task, gradients, wanted);
    const ir::OpInfo& op = from_.op(task);
    if (op.gradient == nullptr || !op.gradient(call)) ir::add_vjp(call);
    give(task, call, first);
  }

  // Whether a task copies a weight into another memory format, so that both have the same gradient. Its parts need not
  // be completed first: those of a parameter stay final in the backward pass, not at the end of the step.
  bool passes_on(TaskId task) const {
    static const ir::Ops kCopies{"contiguous"};
    const ValueId copy = from_.outputs(task)[0];
    const std::vector<ValueId>& parts = parts_[copy.index()];
    return kCopies.contains(from_.op(task)) && is_weight(copy) &&
           std::all_of(parts.begin(), parts.end(), [&](ValueId v) { return joint_.graph.type(v).batch.is_partial(); });
  }

  void pass_on(TaskId task) {
    const std::vector<ValueId> parts = std::move(parts_[from_.outputs(task)[0].index()]);
    const ValueId weight = from_.inputs(task)[0];
    if (from_.kind(weight) == ir::ValueKind::kParameter && !parts.empty()) {
      add_part(task, weight, sum_of(parts, task));
    } else {
      parts_[weight.index()].insert(parts_[weight.index()].end(), parts.begin(), parts.end());
    }
    claim(task, Phase::kWeight);
  }

  void give(TaskId task, const ir::GradientCall& call, uint32_t first) {
    claim(task, Phase::kWeight);
    const auto inputs = from_.inputs(task);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!call.wants(i)) continue;
      RANNC_CHECK(call.given(i).valid()) << call.op().name << " gives no gradient of operand " << i;
      if (from_.kind(inputs[i]) == ir::ValueKind::kParameter) {
        add_part(task, inputs[i], call.given(i));
      } else {
        parts_[inputs[i].index()].push_back(call.given(i));
        if (!is_weight(inputs[i])) mark_input(call.given(i), first);
      }
    }
    if (from_.op(task).has_gradient_kernel(from_.attributes(task))) share_phase(first);
  }

  // Whether a value is computed from parameters once per step or less. Nothing in I needs its gradient.
  bool is_weight(ValueId value) const {
    const TaskId task = from_.producer(value);
    return task.valid() && often_[task.index()] != Frequency::kMicroBatch;
  }

  // Adds the parts of a task that reads a parameter twice.
  void add_part(TaskId task, ValueId parameter, ValueId gradient) {
    const ValueId copy = copies_[parameter.index()];
    if (!joint_.gradients.empty()) {
      Joint::ParameterGradient& last = joint_.gradients.back();
      if (last.parameter == copy && last.reader == task) {
        last.gradient = add("add", {last.gradient, gradient}, task);
        claim(task, Phase::kWeight);
        return;
      }
    }
    joint_.gradients.push_back({copy, task, gradient});
  }

  // What an activation's gradient is made of, among the tasks from `first` on, is of phase I.
  void mark_input(ValueId gradient, uint32_t first) {
    std::vector<ValueId> open = {gradient};
    while (!open.empty()) {
      const TaskId maker = graph().producer(open.back());
      open.pop_back();
      if (!maker.valid() || maker.index() < first || joint_.origins[maker.index()].phase == Phase::kInput) continue;
      joint_.origins[maker.index()].phase = Phase::kInput;
      for (const ValueId input : graph().inputs(maker)) {
        if (input.valid()) open.push_back(input);
      }
    }
  }

  // Moves all tasks from `first` on to phase I if one of them is there. One kernel computes what they make.
  void share_phase(uint32_t first) {
    const auto begin = joint_.origins.begin() + first, end = joint_.origins.begin() + graph().task_count();
    const auto is_input = [](const Joint::Origin& origin) { return origin.phase == Phase::kInput; };
    if (std::none_of(begin, end, is_input)) return;
    std::for_each(begin, end, [](Joint::Origin& origin) { origin.phase = Phase::kInput; });
  }

  Result<void> nothing_is_mixed() const {
    for (uint32_t i = 0; i < joint_.graph.task_count(); ++i) {
      for (const ValueId output : joint_.graph.outputs(TaskId(i))) {
        if (joint_.graph.type(output).batch.mix != ir::Mix::kMixed) continue;
        const std::string name(joint_.graph.value(output).name);
        return error(joint_.graph.location(TaskId(i)),
                     joint_.graph.op(TaskId(i)).name + " makes %" + name +
                         ", a gradient that would mix the samples of a micro-batch: its parts cannot be added up");
      }
    }
    return {};
  }

  Graph& graph() { return joint_.graph; }

  const Graph& from_;
  const StageBorder& border_;
  const std::vector<Frequency> often_;
  std::vector<bool> active_;                 // by value: a parameter above, a loss below
  const std::vector<bool> reached_;          // by value: a loss below
  std::vector<ValueId> copies_;              // by value
  std::vector<std::vector<ValueId>> parts_;  // by value: gradients, in the order in which they are added
  std::optional<ir::Views> views_;           // of `from_`, if a task keeps its tape
  Joint joint_;
};

}  // namespace

Result<Joint> differentiate(const Graph& graph) {
  if (graph.losses().empty()) return error("there is no loss to differentiate");
  const StageBorder none;
  return Differentiator(graph, none).run();
}

Result<Joint> differentiate(const Graph& graph, const StageBorder& border) {
  return Differentiator(graph, border).run();
}

Result<Outcome> Differentiate::run(Graph& graph, PassContext& context) const {
  RANNC_ASSIGN(Joint joint, differentiate(graph));
  RANNC_TRY(ir::as_result(ir::verify(joint, graph)));
  context.joint = std::make_shared<const ir::Joint>(std::move(joint));
  return Outcome{};
}

}  // namespace rannc::passes
