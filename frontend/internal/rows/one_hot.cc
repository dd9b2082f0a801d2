#include "frontend/internal/rows/one_hot.h"

#include <algorithm>

#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::frontend {

using ir::Dim;
using ir::Graph;
using ir::Shape;

namespace {

constexpr ir::Capture kClassIndex{0}, kHotAxis{1};

}  // namespace

std::optional<AxisOf> before(const Graph& graph, const AxisOf& at) {
  static const ir::Ops kPermuted = "permute", kReshaped = "reshape", kSame = {"cast", "identity"};
  const TaskId task = graph.producer(at.value);
  const ir::OpInfo& op = graph.op(task);
  if (graph.inputs(task).empty()) return std::nullopt;
  const ValueId from = graph.inputs(task)[0];
  if (kPermuted.contains(op))
    return AxisOf{from, graph.attributes(task).integers("dims")[static_cast<size_t>(at.axis)]};
  if (kSame.contains(op)) return AxisOf{from, at.axis};
  if (!kReshaped.contains(op)) return std::nullopt;
  const Shape &to = *graph.type(at.value).shape, &own = *graph.type(from).shape;
  const auto behind = [](const Shape& shape, size_t axis) {
    return ir::element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()));
  };
  const auto axis = static_cast<size_t>(at.axis);
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] == to[axis] && behind(own, i) == behind(to, axis)) return AxisOf{from, static_cast<int64_t>(i)};
  }
  return std::nullopt;
}

std::optional<ValueId> classes_of(const Graph& graph, const AxisOf& at) {
  static const ir::Pattern kOneHot = ir::op("one_hot", ir::any(kClassIndex)).as(kHotAxis);
  // ONNX counts negative numbers from the end.
  static const ir::Pattern kPlain = ir::any(kClassIndex);
  static const ir::Pattern kWrapped =
      ir::op("where", ir::op("lt", ir::through({"cast", "identity"}, ir::any(kClassIndex)), ir::constant(0)), ir::any(),
             ir::any());
  static const ir::Pattern kCompared =
      ir::op("where",
             ir::op("eq", ir::op("unsqueeze", ir::either({kWrapped, kPlain})).as(kHotAxis),
                    ir::through({"reshape"}, ir::op("range").with("start", Dim(0)).with("delta", Dim(1)))),
             ir::any(), ir::any());
  const auto rank = static_cast<int64_t>(graph.type(at.value).shape->size());
  if (const auto hot = ir::match(graph, at.value, kOneHot)) {
    const int64_t axis = hot->attributes(kHotAxis).integer("axis");
    if ((axis < 0 ? axis + rank : axis) == at.axis) return (*hot)[kClassIndex];
  }
  const auto hot = ir::match(graph, at.value, kCompared);
  if (hot && hot->attributes(kHotAxis).integers("axes") == std::vector<int64_t>{at.axis}) return (*hot)[kClassIndex];
  return std::nullopt;
}

std::optional<int64_t> axis_left(const Graph& graph, TaskId sum) {
  const auto& shape = graph.type(graph.inputs(sum)[0]).shape;
  const std::vector<int64_t> axes = graph.attributes(sum).integers("axes");
  if (!shape || axes.size() + 1 != shape->size()) return std::nullopt;
  const auto rank = static_cast<int64_t>(shape->size());
  std::vector<bool> summed(shape->size());
  for (const int64_t axis : axes) summed[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  return std::find(summed.begin(), summed.end(), false) - summed.begin();
}

}  // namespace rannc::frontend
