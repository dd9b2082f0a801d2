#include "frontend/onnx/internal/file/stored_views.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::frontend {

namespace {

using Bytes = std::vector<std::byte>;

bool is_view(const ir::Graph& graph, TaskId task) {
  static const ir::Pattern kView = ir::op({"slice", "permute", "reshape"});
  return graph.location(task).node.empty() && ir::match(graph, task, kView).has_value();
}

std::vector<int64_t> sizes_of(const ir::Graph& graph, ValueId value) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : *graph.type(value).shape) sizes.push_back(dim.constant());
  return sizes;
}

/// Offset and strides of a box, in elements.
struct Layout {
  int64_t first = 0;
  std::vector<int64_t> strides;
};

Layout layout_of(const ir::Graph& graph, TaskId view) {
  const std::vector<int64_t> sizes = sizes_of(graph, graph.inputs(view)[0]);
  Layout layout{0, std::vector<int64_t>(sizes.size(), 1)};
  for (size_t i = sizes.size(); i-- > 1;) layout.strides[i - 1] = layout.strides[i] * sizes[i];
  const ir::Attributes& attributes = graph.attributes(view);
  if (const ir::Shape* const starts = attributes.list("starts")) {
    layout.first = (*starts)[0].constant() * layout.strides[static_cast<size_t>(attributes.integers("axes")[0])];
  }
  if (const ir::Shape* const order = attributes.list("dims")) {
    const std::vector<int64_t> own = layout.strides;
    for (size_t i = 0; i < order->size(); ++i) layout.strides[i] = own[static_cast<size_t>((*order)[i].constant())];
  }
  return layout;
}

Bytes picked(const Bytes& from, const std::vector<int64_t>& extents, const Layout& layout, size_t size) {
  Bytes bytes;
  std::vector<int64_t> at(extents.size());
  int64_t count = 1, offset = layout.first;
  for (const int64_t extent : extents) count *= extent;
  bytes.reserve(static_cast<size_t>(count) * size);
  for (; count > 0; --count) {
    const auto* const begin = from.data() + static_cast<size_t>(offset) * size;
    bytes.insert(bytes.end(), begin, begin + size);
    for (size_t axis = extents.size(); axis-- > 0;) {
      offset += layout.strides[axis];
      if (++at[axis] < extents[axis]) break;
      offset -= at[axis] * layout.strides[axis];
      at[axis] = 0;
    }
  }
  return bytes;
}

}  // namespace

bool is_stored(ir::ValueKind kind) {
  return kind == ir::ValueKind::kParameter || kind == ir::ValueKind::kBuffer || kind == ir::ValueKind::kConstant;
}

std::optional<ValueId> stored_behind(const ir::Graph& graph, ValueId view) {
  while (view.valid() && !is_stored(graph.kind(view))) {
    const TaskId maker = graph.producer(view);
    if (!maker.valid() || !is_view(graph, maker)) return std::nullopt;
    view = graph.inputs(maker)[0];
  }
  return view.valid() ? std::optional(view) : std::nullopt;
}

Result<ir::TensorData> viewed(const ir::Graph& graph, ValueId view, const ir::TensorData& stored) {
  const TaskId maker = graph.producer(view);
  if (!maker.valid() || !stored.present()) return stored;
  static const ir::Pattern kReshape = ir::op("reshape");
  RANNC_ASSIGN(ir::TensorData from, viewed(graph, graph.inputs(maker)[0], stored));
  if (ir::match(graph, maker, kReshape)) return from;
  RANNC_ASSIGN(const Bytes bytes, from.read());
  const size_t size = ir::byte_size(graph.type(view).dtype);
  return ir::TensorData::in_memory(picked(bytes, sizes_of(graph, view), layout_of(graph, maker), size));
}

bool is_computed_on(const ir::Graph& graph, ValueId value) {
  bool found = false;
  graph.for_each_use(value, [&](const ir::Graph::Use& use) {
    if (!graph.location(use.task).node.empty()) return;
    static const ir::Pattern kComputes = ir::op({"add", "mul", "neg", "abs", "sum"});
    found = found || (is_view(graph, use.task) ? is_computed_on(graph, graph.outputs(use.task)[0])
                                               : ir::match(graph, use.task, kComputes).has_value());
  });
  return found;
}

}  // namespace rannc::frontend
