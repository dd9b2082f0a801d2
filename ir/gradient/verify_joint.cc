// Verifier of joint graphs. Rules:
//   J1  the first tasks are copies of the planning graph's tasks: operators, attributes, operands, results; further
//       results are auxiliary, or the tape of a `taped.…` task, which only its `vjp` task reads
//   J2  every other task belongs to a task of the planning graph and has the phase I or W
//   J3  a seed is an input with the type of its loss term or output; parts require at least one seed
//   J4  a part has the type of its parameter and names a task that reads it; at most one part per reading
//   J5  only tasks of phase W read results of phase W
//   J6  the gradient of an input has its type; inputs and outputs are listed once, in order
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/gradient/joint.h"
#include "ir/gradient/vjp.h"
#include "ir/op/op.h"
#include "ir/verify.h"

namespace rannc::ir {

namespace {

class JointVerifier {
 public:
  JointVerifier(const Joint& joint, const Graph& planning)
      : joint_(joint), graph_(joint.graph), planning_(planning), forward_(joint.forward_count()) {}

  std::vector<Diagnostic> verify() {
    found_ = ir::verify(graph_);
    if (!found_.empty() || !forward_tasks()) return std::move(found_);
    for (uint32_t i = forward_; i < graph_.task_count(); ++i) gradient_task(TaskId(i));
    seeds();
    borders();
    parts();
    return std::move(found_);
  }

 private:
  void add(Location where, std::string message, const char* rule) {
    found_.push_back(error(std::move(where), std::move(message), rule));
  }
  std::string_view name(ValueId value) const { return graph_.value(value).name; }

  bool forward_tasks() {
    if (joint_.origins.size() != graph_.task_count() || forward_ != planning_.task_count()) {
      add({}, fmt::format("{} forward tasks stand for {}", forward_, planning_.task_count()), "J1");
      return false;
    }
    const std::vector<ValueId> copies = joint_.copies_of(planning_);
    for (const TaskId task : planning_.tasks()) {
      if (!is_copy(task, copies)) {
        add(planning_.location(task), fmt::format("task #{} is not {}'s copy", task.index(), planning_.op(task).name),
            "J1");
      }
    }
    return found_.empty();
  }

  bool is_copy(TaskId task, const std::vector<ValueId>& copies) const {
    const auto taped = taped_of(graph_, task);
    const Attributes& attributes = taped ? taped->attributes : graph_.attributes(task);
    const bool same_op = operator_name(graph_, task) == planning_.op(task).name;
    if (!same_op || !(attributes == planning_.attributes(task))) return false;
    const auto from = planning_.inputs(task), to = graph_.inputs(task);
    if (from.size() != to.size() || planning_.outputs(task).size() > graph_.outputs(task).size()) return false;
    if (taped && !is_valid(*taped, planning_.outputs(task).size(), to.size())) return false;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i].valid() != to[i].valid() || (from[i].valid() && copies[from[i].index()] != to[i])) return false;
    }
    for (size_t i = 0; i < planning_.outputs(task).size(); ++i) {
      const ValueId made = planning_.outputs(task)[i], copy = graph_.outputs(task)[i];
      if (graph_.value(copy).name != planning_.value(made).name || !(graph_.type(copy) == planning_.type(made)))
        return false;
    }
    return true;
  }

  /// Whether the last result is a tape, which only `vjp` tasks read, and the values that its attributes list exist.
  bool is_valid(const Taped& taped, size_t results, size_t operands) const {
    const auto is_operand = [&](uint32_t place) { return place < operands; };
    const auto exists = [&](uint32_t place) { return place < operands + results; };
    const bool other_reader = graph_.any_use(taped.tape, [&](Graph::Use use) {
      const auto vjp = vjp_of(graph_, use.task);
      return !vjp || vjp->tape != taped.tape;
    });
    return taped.results.size() == results && !other_reader &&
           std::all_of(taped.wanted.begin(), taped.wanted.end(), is_operand) &&
           std::all_of(taped.shared.begin(), taped.shared.end(), exists);
  }

  void gradient_task(TaskId task) {
    const Joint::Origin& origin = joint_.origins[task.index()];
    if (!origin.task.valid() || origin.task.index() >= forward_ || origin.phase == Phase::kForward) {
      add(graph_.location(task), fmt::format("task #{} is of no forward task", task.index()), "J2");
    }
    if (origin.phase != Phase::kInput) return;
    for (const ValueId input : graph_.inputs(task)) {
      const TaskId maker = input.valid() ? graph_.producer(input) : TaskId();
      if (!maker.valid() || joint_.origins[maker.index()].phase != Phase::kWeight) continue;
      add(graph_.location(task), fmt::format("task #{} of phase I reads %{}, which W makes", task.index(), name(input)),
          "J5");
    }
  }

  void seeds() {
    const std::vector<LossTerm>& losses = graph_.losses();
    for (size_t term = 0; term < losses.size(); ++term) {
      const ValueId seed = term < joint_.seeds.size() ? joint_.seeds[term] : ValueId();
      if (!seed.valid()) continue;
      const ValueType &type = graph_.type(seed), &of = graph_.type(losses[term].numerator);
      if (graph_.kind(seed) == ValueKind::kInput && type.dtype == of.dtype && type.shape == of.shape) continue;
      add({}, fmt::format("%{} is no seed of loss term {}", name(seed), term), "J3");
    }
    for (const Joint::BorderGradient& output : joint_.outputs) {
      if (graph_.kind(output.gradient) == ValueKind::kInput && same_size(output)) continue;
      add({}, fmt::format("%{} is no seed of output %{}", name(output.gradient), name(output.value)), "J3");
    }
    const bool any = std::any_of(joint_.seeds.begin(), joint_.seeds.end(), [](ValueId seed) { return seed.valid(); });
    if (!any && joint_.outputs.empty() && !joint_.gradients.empty()) add({}, "gradients without a seed", "J3");
  }

  bool same_size(const Joint::BorderGradient& border) const {
    const ValueType &type = graph_.type(border.gradient), &of = graph_.type(border.value);
    return type.dtype == of.dtype && type.shape == of.shape;
  }

  void borders() {
    for (const Joint::BorderGradient& input : joint_.inputs) {
      if (graph_.kind(input.value) == ValueKind::kInput && same_size(input)) continue;
      add({}, fmt::format("%{} is no gradient of input %{}", name(input.gradient), name(input.value)), "J6");
    }
    for (const auto* list : {&joint_.outputs, &joint_.inputs}) {
      for (size_t i = 1; i < list->size(); ++i) {
        if ((*list)[i - 1].value < (*list)[i].value) continue;
        add({}, fmt::format("the gradient of %{} is listed twice or out of order", name((*list)[i].value)), "J6");
      }
    }
  }

  void parts() {
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (const Joint::ParameterGradient& part : joint_.gradients) {
      const auto fault = [&](std::string_view what) {
        add({},
            fmt::format("%{}, a part of %{}'s gradient in #{}: {}", name(part.gradient), name(part.parameter),
                        part.reader.index(), what),
            "J4");
      };
      if (!seen.emplace(part.parameter.index(), part.reader.index()).second) fault("there are two");
      if (graph_.kind(part.parameter) != ValueKind::kParameter) fault("it is no parameter");
      const auto reads = graph_.inputs(part.reader);
      if (part.reader.index() >= forward_ || std::find(reads.begin(), reads.end(), part.parameter) == reads.end())
        fault("that task does not read it");
      const ValueType &type = graph_.type(part.gradient), &of = graph_.type(part.parameter);
      if (type.dtype != of.dtype || type.shape != of.shape) fault("it has another type");
    }
  }

  const Joint& joint_;
  const Graph& graph_;
  const Graph& planning_;
  const uint32_t forward_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> verify(const Joint& joint, const Graph& planning) {
  return JointVerifier(joint, planning).verify();
}

}  // namespace rannc::ir
