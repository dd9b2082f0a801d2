#include "ir/graph/views.h"

#include <algorithm>
#include <numeric>

#include "ir/graph/memory_format.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::ir {

namespace {

using Strides = std::optional<Shape>;

Shape in_one_piece(const Shape& shape) {
  Shape strides(shape.size(), Dim(1));
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

bool lies_in_one_piece(const Shape& shape, const Shape& strides) {
  Dim expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == Dim(1)) continue;
    if (!(strides[i] == expected)) return false;
    expected = expected * shape[i];
  }
  return true;
}

// Contiguous neighboring axes form a chunk. Each chunk of `from` has to split into axes of `to`, as LibTorch requires.
Strides reshaped(const Shape& from, const Shape& strides, const Shape& to) {
  Shape found(to.size(), Dim(1));
  size_t axis = to.size();
  Dim chunk = 1, made = 1, distance = strides.empty() ? Dim(1) : strides.back();
  for (size_t i = from.size(); i-- > 0;) {
    chunk = chunk * from[i];
    const bool ends = i == 0 || (!(from[i - 1] == Dim(1)) && !(strides[i - 1] == chunk * distance));
    if (!ends) continue;
    while (axis > 0 && (!(made == chunk) || to[axis - 1] == Dim(1))) {
      found[axis - 1] = made * distance;
      made = made * to[axis - 1];
      --axis;
    }
    if (!(made == chunk)) return std::nullopt;
    if (i == 0) break;
    distance = strides[i - 1];
    chunk = made = 1;
  }
  return axis == 0 ? Strides(found) : std::nullopt;
}

// Strides of a part. Broadcast axes have stride 0. Nothing for slices with steps.
Strides of_part(const Shape& from, const Shape& strides, const Shape& to, const Attributes& attributes) {
  const Shape* steps = attributes.list("steps");
  const bool stepped =
      steps && std::any_of(steps->begin(), steps->end(), [](const Dim& by) { return !(by == Dim(1)); });
  if (to.size() < from.size() || stepped) return std::nullopt;
  const size_t more = to.size() - from.size();
  Shape found(to.size(), Dim(0));
  for (size_t i = 0; i < from.size(); ++i) {
    const bool stretched = from[i] == Dim(1) && !(to[i + more] == Dim(1));
    found[i + more] = stretched ? Dim(0) : strides[i];
  }
  return found;
}

/// Elements before a part of `from`; nothing where that is not simple to say.
std::optional<Dim> begin_of_part(const Graph& graph, TaskId task, ValueId to, const Shape& from, const Shape& strides) {
  static const Ops kStretches{"expand"}, kSplits{"split"};
  const Shape& shape = *graph.type(to).shape;
  if (kStretches.contains(graph.op(task)) || shape == from) return Dim(0);
  if (!kSplits.contains(graph.op(task))) return std::nullopt;
  const int64_t given = OpAttributes(graph.op(task), graph.attributes(task)).integer("axis");
  const auto axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(from.size()) : given);
  Dim before = 0;
  for (const ValueId part : graph.outputs(task)) {
    if (part == to) break;
    before = before + (*graph.type(part).shape)[axis];
  }
  return before * strides[axis];
}

Strides permuted(const Shape& strides, const std::vector<int64_t>& axes) {
  if (axes.size() != strides.size()) return std::nullopt;
  Shape found;
  for (const int64_t axis : axes) {
    found.push_back(strides[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(axes.size()) : axis)]);
  }
  return found;
}

bool is_operand(View view) { return view == View::kSame || view == View::kWhereSameType; }
bool keeps_order(View view) { return is_operand(view) || view == View::kWhole || view == View::kWhereContiguous; }

}  // namespace

Views::Views(const Graph& graph) : scattered_(graph.value_count(), false) {
  base_.reserve(graph.value_count());
  for (const ValueId value : graph.values()) base_.push_back(value);
  for (const TaskId task : graph.tasks()) follow(graph, task);
}

Views::Strides Views::strides_of(const Graph& graph, ValueId value) const {
  if (const auto found = strides_.find(value.index()); found != strides_.end()) return found->second;
  if (!graph.type(value).shape) return std::nullopt;
  return in_one_piece(*graph.type(value).shape);
}

bool Views::is_dense(const Graph& graph, ValueId value, std::span<const int64_t> axes) const {
  const Strides strides = strides_of(graph, value);
  if (!strides || strides->size() != axes.size()) return false;
  Shape shape, distances;
  for (const int64_t axis : axes) {
    shape.push_back((*graph.type(value).shape)[static_cast<size_t>(axis)]);
    distances.push_back((*strides)[static_cast<size_t>(axis)]);
  }
  return lies_in_one_piece(shape, distances);
}

bool Views::merges(const Graph& graph, ValueId value, size_t apart) const {
  if (!is_scattered(value)) return true;
  const Strides strides = strides_of(graph, value);
  if (!strides) return false;
  const Shape& shape = *graph.type(value).shape;
  size_t last = shape.size();  // of the axes to merge, the one before
  for (size_t i = shape.size() - std::min(apart, shape.size()); i-- > 0;) {
    if (shape[i] == Dim(1)) continue;
    if (last < shape.size() && !((*strides)[i] == (*strides)[last] * shape[last])) return false;
    last = i;
  }
  return true;
}

bool Views::has_rows(const Graph& graph, ValueId value, int64_t bytes) const {
  const Strides strides = strides_of(graph, value);
  if (!strides || strides->empty()) return false;
  const Shape& shape = *graph.type(value).shape;
  const Dim size(static_cast<int64_t>(byte_size(graph.type(value).dtype)));
  const auto is_multiple = [&](const Dim& elements) { return exact_div(elements * size, Dim(bytes)).has_value(); };
  const auto begin = begins_.find(value.index());
  if (begin != begins_.end() && (!begin->second || !is_multiple(*begin->second))) return false;
  for (size_t i = 0; i + 1 < shape.size(); ++i) {
    if (shape[i] == Dim(1)) continue;
    if ((*strides)[i] == Dim(0) || !is_multiple((*strides)[i])) return false;
  }
  return shape.back() == Dim(1) || strides->back() == Dim(1);
}

std::optional<std::vector<int64_t>> Views::axes_in_memory(const Graph& graph, ValueId value) const {
  const Strides strides = strides_of(graph, value);
  if (!strides) return std::nullopt;
  std::vector<int64_t> left(strides->size()), axes;
  std::iota(left.begin(), left.end(), 0);
  while (!left.empty()) {
    const auto farthest = std::find_if(left.begin(), left.end(), [&](int64_t axis) {
      return std::all_of(left.begin(), left.end(), [&](int64_t other) {
        const auto i = static_cast<size_t>(axis), j = static_cast<size_t>(other);
        return exact_div((*strides)[i], (*strides)[j]).has_value();
      });
    });
    if (farthest == left.end()) return std::nullopt;
    axes.push_back(*farthest);
    left.erase(farthest);
  }
  return axes;
}

void Views::scatter(ValueId value, Strides strides) {
  scattered_[value.index()] = true;
  strides_.emplace(value.index(), std::move(strides));
}

void Views::lay_out(const Graph& graph, TaskId task) {
  const OpInfo& op = graph.op(task);
  if (op.axes_in_memory != nullptr) {
    const std::vector<int64_t> axes = op.axes_in_memory(graph.attributes(task));
    for (const ValueId value : graph.outputs(task)) lay_out(graph, value, axes);
  } else if (op.view == View::kNone && is_elementwise(op)) {
    const ValueId as = operand_like_result(graph, task);
    if (!as.valid() || !is_scattered(as)) return;
    if (const auto axes = axes_in_memory(graph, as)) lay_out(graph, graph.outputs(task)[0], *axes);
  }
}

void Views::lay_out(const Graph& graph, ValueId value, std::span<const int64_t> axes) {
  const auto& shape = graph.type(value).shape;
  if (!shape || shape->size() != axes.size()) return;
  Shape strides(axes.size(), Dim(1));
  Dim stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const auto axis = static_cast<size_t>(axes[i]);
    strides[axis] = stride;
    stride = stride * (*shape)[axis];
  }
  if (!lies_in_one_piece(*shape, strides)) scatter(value, std::move(strides));
}

void Views::follow(const Graph& graph, TaskId task) {
  const View view = graph.op(task).view;
  const auto inputs = graph.inputs(task);
  lay_out(graph, task);
  if (view == View::kNone || inputs.empty() || !inputs[0].valid()) return;
  const ValueId first = graph.outputs(task)[0];
  if (view == View::kWhereSameType && graph.type(inputs[0]).dtype != graph.type(first).dtype) return;
  for (const ValueId to : graph.outputs(task)) {
    if (keeps_order(view) && !is_scattered(inputs[0])) {
      base_[to.index()] = base(inputs[0]);
    } else {
      follow(graph, task, inputs[0], to);
    }
    if (base(to) != to) begin(graph, task, inputs[0], to);
  }
}

void Views::begin(const Graph& graph, TaskId task, ValueId from, ValueId to) {
  std::optional<Dim> found = Dim(0);
  if (const auto known = begins_.find(from.index()); known != begins_.end()) found = known->second;
  if (graph.op(task).view == View::kPart) {
    const Strides strides = graph.type(to).shape ? strides_of(graph, from) : std::nullopt;
    const auto more = strides ? begin_of_part(graph, task, to, *graph.type(from).shape, *strides) : std::nullopt;
    found = found && more ? std::optional(*found + *more) : std::nullopt;
  }
  if (!found || !(*found == Dim(0))) begins_.emplace(to.index(), std::move(found));
}

void Views::follow(const Graph& graph, TaskId task, ValueId from, ValueId to) {
  const View view = graph.op(task).view;
  const Strides strides = graph.type(to).shape ? strides_of(graph, from) : std::nullopt;
  Strides found;
  if (strides && view == View::kPart) {
    found = of_part(*graph.type(from).shape, *strides, *graph.type(to).shape, graph.attributes(task));
  } else if (strides && view == View::kPermuted) {
    found = permuted(*strides, graph.attributes(task).integers("dims"));
  } else if (strides && is_operand(view)) {
    found = strides;
  } else if (strides) {
    found = reshaped(*graph.type(from).shape, *strides, *graph.type(to).shape);
  }
  if (view == View::kWhereContiguous && !found) return;  // a copy
  base_[to.index()] = base(from);
  if (!found || !lies_in_one_piece(*graph.type(to).shape, *found)) scatter(to, std::move(found));
}

}  // namespace rannc::ir
