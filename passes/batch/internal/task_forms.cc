#include "passes/batch/internal/task_forms.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/match/match.h"

namespace rannc::passes {

namespace {

using ir::Attributes;
using ir::BatchLayout;
using ir::Dim;
using ir::Graph;
using ir::Ops;
using ir::Shape;
using ir::ValueType;

/// One task and what it reads now.
class Forms {
 public:
  Forms(const Graph& from, TaskId task, std::span<const ValueType* const> operands, const Samples& samples)
      : from_(from),
        task_(task),
        samples_(samples),
        now_(operands.empty() || operands[0] == nullptr ? nullptr : operands[0]),
        to_(*from.type(from.outputs(task)[0]).shape) {}

  std::vector<TaskForm> list(const BatchLayout* wanted) {
    static const Ops kReshape{"reshape", "squeeze"};
    const ir::OpInfo& op = from_.op(task_);
    forms_.push_back({&op, from_.attributes(task_), from_.inputs(task_).size()});
    if (now_ != nullptr && now_->batch.has_batch()) {
      if (kReshape.contains(op)) reshape();
      if (Ops("expand").contains(op)) expand();
      if (Ops("slice").contains(op)) slice();
      if (Ops("split").contains(op)) split();
    } else if (wanted != nullptr) {
      make(op, *wanted);
    }
    return std::move(forms_);
  }

 private:
  void add(const ir::OpInfo& op, Attributes attributes, size_t operands) {
    forms_.push_back({&op, std::move(attributes), operands});
  }

  void reshape() {
    const Shape& before = *from_.type(from_.inputs(task_)[0]).shape;
    for (const BatchLayout& place : places_after_reshape(before, now_->batch, to_, samples_)) {
      add(ir::core("reshape"), {{"shape", with_samples(to_, place, samples_)}}, 1);
    }
  }

  void expand() {
    Shape shape = to_;
    const size_t axis = to_.size() - now_->shape->size() + static_cast<size_t>(now_->batch.axis);
    shape[axis] = (*now_->shape)[static_cast<size_t>(now_->batch.axis)];
    add(ir::core("expand"), {{"shape", std::move(shape)}}, 1);
  }

  bool is_of_samples(int64_t axis) const {
    return (axis < 0 ? axis + static_cast<int64_t>(to_.size()) : axis) == now_->batch.axis;
  }

  // Cuts along the samples' axis that leave all of them, or whole mini-batches of several.
  void slice() {
    const Attributes& given = from_.attributes(task_);
    const Shape *const starts = given.list("starts"), *const ends = given.list("ends");
    if (ends == nullptr) return;
    Shape all = *ends, first = starts == nullptr ? Shape() : *starts, last = *ends;
    for (size_t i = 0; i < all.size(); ++i) {
      const Shape* const axes = given.list("axes");
      if (!is_of_samples(axes == nullptr ? static_cast<int64_t>(i) : (*axes)[i].constant())) continue;
      all[i] = (*now_->shape)[now_->batch.axis];
      if (i < first.size()) first[i] = of_mini_batches(first[i]);
      last[i] = of_mini_batches(last[i]);
    }
    Attributes changed = given;
    changed.set("ends", std::move(all));
    add(from_.op(task_), changed, from_.inputs(task_).size());
    if (starts == nullptr || (first == *starts && last == *ends)) return;
    changed.set("starts", std::move(first));
    changed.set("ends", std::move(last));
    add(from_.op(task_), std::move(changed), from_.inputs(task_).size());
  }

  // A number of places along the samples' axis, in mini-batches where it is a multiple of them.
  Dim of_mini_batches(const Dim& places) const {
    const auto count = ir::exact_div(places, Dim(samples_.baked) * now_->batch.inner);
    constexpr int64_t kFar = int64_t{1} << 40;  // to the end
    const bool far = !places.is_constant() || places.constant() >= kFar || places.constant() <= -kFar;
    return count && !far ? *count * samples_.dim() * now_->batch.inner : places;
  }

  // Parts of one or several mini-batches.
  void split() {
    const Shape* const sizes = from_.attributes(task_).list("sizes");
    const auto axis = integer("axis", 0);
    if (sizes == nullptr || !axis || !is_of_samples(axis->constant())) return;
    Shape changed = *sizes;
    for (Dim& size : changed) size = of_mini_batches(size);
    Attributes attributes = from_.attributes(task_);
    attributes.set("sizes", std::move(changed));
    add(from_.op(task_), std::move(attributes), from_.inputs(task_).size());
  }

  // An attribute of the task; nothing where it is no integer.
  std::optional<Dim> integer(std::string_view name, int64_t otherwise) const {
    const ir::Attribute* const found = from_.attributes(task_).find(name);
    if (found == nullptr) return Dim(otherwise);
    const auto* const dim = std::get_if<Dim>(found);
    return dim == nullptr ? std::nullopt : std::optional(*dim);
  }

  // A value that no samples reach gets an axis of them.
  void make(const ir::OpInfo& op, const BatchLayout& wanted) {
    Attributes changed = from_.attributes(task_);
    const auto axis = static_cast<size_t>(wanted.axis);
    if (Ops("expand").contains(op)) {
      add(op, {{"shape", with_samples(to_, wanted, samples_)}}, 1);
    } else if (Ops("full").contains(op)) {
      changed.set("shape", with_samples(to_, wanted, samples_));
      add(op, std::move(changed), 0);
    } else if (const Shape* const repeats = changed.list("repeats"); Ops("tile").contains(op) && repeats != nullptr) {
      const auto times = ir::exact_div((*repeats)[axis], samples_.baked);
      if (!times) return;
      Shape more = *repeats;
      more[axis] = *times * samples_.dim();
      changed.set("repeats", std::move(more));
      add(op, std::move(changed), 1);
    } else if (Ops("range").contains(op) && from_.inputs(task_).empty()) {
      const auto start = integer("start", 0), step = integer("delta", 1);
      if (!start || !step) return;
      changed.set("limit", *start + samples_.dim() * *step);
      add(op, std::move(changed), 0);
    }
  }

  const Graph& from_;
  const TaskId task_;
  const Samples& samples_;
  const ValueType* const now_;
  const Shape to_;
  std::vector<TaskForm> forms_;
};

}  // namespace

std::vector<TaskForm> task_forms(const Graph& from, TaskId task, std::span<const ValueType* const> operands,
                                 const BatchLayout* wanted, const Samples& samples) {
  const auto unknown = [&](ValueId value) { return value.valid() && !from.type(value).shape; };
  const auto inputs = from.inputs(task);
  if (unknown(from.outputs(task)[0]) || std::any_of(inputs.begin(), inputs.end(), unknown)) {
    return {{&from.op(task), from.attributes(task), from.inputs(task).size()}};
  }
  return Forms(from, task, operands, samples).list(wanted);
}

Result<std::vector<ValueType>> types_of(TaskForm& form, std::span<const ValueType* const> operands, const Graph& from,
                                        TaskId task, const Samples& samples) {
  const auto outputs = from.outputs(task);
  const auto results = static_cast<uint32_t>(outputs.size());
  std::vector<ir::Equality> assumed;
  const auto read = operands.first(std::min(form.operands, operands.size()));
  if (form.op->fit != nullptr) {
    RANNC_ASSIGN(form.attributes, form.op->fit({*form.op, read, form.attributes, samples.symbol, results, &assumed}));
  }
  RANNC_ASSIGN(std::vector<ValueType> types,
               ir::types_of({*form.op, read, form.attributes, samples.symbol, results, &assumed}));
  for (size_t i = 0; i < types.size(); ++i) {
    const ValueType& before = from.type(outputs[i]);
    if (is_same_when_baked(types[i], before, samples)) continue;
    return error(fmt::format("{} would give {} where the file has {}", form.op->name, ir::str(*types[i].shape),
                             ir::str(*before.shape)));
  }
  return types;
}

}  // namespace rannc::passes
