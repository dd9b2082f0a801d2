#include "passes/simplify/join_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/graph/results.h"
#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "passes/simplify/internal/slices.h"

namespace rannc::passes {

using namespace ir;  // NOLINT: reads as its neighbours

namespace {

/// Elements `start` to `end` of a value along an axis, all of the others.
struct Piece {
  ValueId of;
  size_t axis = 0;
  int64_t start = 0, end = 0;
};
using Pieces = std::vector<Piece>;  // one after another; neighbours that touch are one

class Follower {
 public:
  explicit Follower(const Graph& graph) : graph_(graph) {}

  /// Returns the pieces of a value along an axis; nullopt if sizes are unknown or there are too many pieces.
  std::optional<Pieces> pieces(ValueId value, size_t axis) {
    const auto extent = size(value, axis);
    if (!extent || ++visited_ > kMostVisited) return std::nullopt;
    const TaskId task = graph_.producer(value);
    std::optional<Pieces> found = task.valid() ? through(task, value, axis) : std::nullopt;
    return found ? found : Pieces{{value, axis, 0, *extent}};
  }

  /// Returns the value that a concatenation restores; invalid if there is none.
  ValueId joined(TaskId task) {
    visited_ = 0;
    const ValueId result = graph_.outputs(task)[0];
    const auto axis = axis_of(task, rank(result));
    if (!axis) return {};
    const auto found = pieces(result, *axis);
    if (!found || found->size() != 1 || found->front().of == result) return {};
    const Piece& whole = found->front();
    const bool all = whole.start == 0 && whole.end == size(whole.of, whole.axis);
    return all && same_but_for_ones(graph_.type(whole.of), graph_.type(result)) ? whole.of : ValueId();
  }

 private:
  static constexpr int kMostVisited = 256;

  size_t rank(ValueId value) const {
    const auto& shape = graph_.type(value).shape;
    return shape ? shape->size() : 0;
  }

  std::optional<int64_t> size(ValueId value, size_t axis) const { return known_size(graph_, value, axis); }

  std::optional<size_t> axis_of(TaskId task, size_t rank) const {
    const int64_t axis = OpAttributes(graph_.op(task), graph_.attributes(task)).integer("axis");
    const auto counted = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
    return counted >= 0 && counted < static_cast<int64_t>(rank) ? std::optional(static_cast<size_t>(counted))
                                                                : std::nullopt;
  }

  std::optional<Pieces> through(TaskId task, ValueId value, size_t axis) {
    static const Ops kConcat{"concat"}, kSplit{"split"}, kSlice{"slice"}, kUnsqueeze{"unsqueeze"};
    const OpInfo& op = graph_.op(task);
    if (kConcat.contains(op)) return of_concat(task, axis);
    if (kSplit.contains(op)) return of_split(task, value, axis);
    if (kSlice.contains(op)) return of_slice(task, axis);
    if (kUnsqueeze.contains(op)) return of_unsqueeze(task, axis);
    return std::nullopt;
  }

  std::optional<Pieces> of_concat(TaskId task, size_t axis) {
    if (axis_of(task, rank(graph_.outputs(task)[0])) != axis) return std::nullopt;
    Pieces all;
    for (const ValueId operand : graph_.inputs(task)) {
      const auto found = pieces(operand, axis);
      if (!found) return std::nullopt;
      for (const Piece& piece : *found) append(all, piece);
    }
    return all;
  }

  std::optional<Pieces> of_split(TaskId task, ValueId value, size_t axis) {
    if (axis_of(task, rank(value)) != axis) return std::nullopt;
    int64_t start = 0;
    for (const ValueId output : graph_.outputs(task)) {
      const auto extent = size(output, axis);
      if (!extent) return std::nullopt;
      if (output == value) return cut(graph_.inputs(task)[0], axis, start, start + *extent);
      start += *extent;
    }
    return std::nullopt;
  }

  std::optional<Pieces> of_slice(TaskId task, size_t axis) {
    const auto part = sliced_part(graph_, task);
    if (!part || part->axis != axis) return std::nullopt;
    return cut(graph_.inputs(task)[0], axis, part->start, part->end);
  }

  std::optional<Pieces> of_unsqueeze(TaskId task, size_t axis) {
    const ValueId result = graph_.outputs(task)[0];
    const std::vector<int64_t> axes = graph_.attributes(task).integers("axes");
    size_t before = 0;  // axes of length one that stand in front
    for (const int64_t each : axes) {
      const auto counted = static_cast<size_t>(each < 0 ? each + static_cast<int64_t>(rank(result)) : each);
      if (counted == axis) return std::nullopt;
      before += counted < axis ? 1 : 0;
    }
    return axes.empty() ? std::nullopt : pieces(graph_.inputs(task)[0], axis - before);
  }

  std::optional<Pieces> cut(ValueId from, size_t axis, int64_t start, int64_t end) {
    const auto all = pieces(from, axis);
    if (!all) return std::nullopt;
    Pieces part;
    int64_t at = 0;
    for (const Piece& piece : *all) {
      const int64_t length = piece.end - piece.start;
      const int64_t first = std::max<int64_t>(start - at, 0), last = std::min(end - at, length);
      if (first < last) append(part, {piece.of, piece.axis, piece.start + first, piece.start + last});
      at += length;
    }
    return part;
  }

  static void append(Pieces& all, const Piece& piece) {
    if (!all.empty() && all.back().of == piece.of && all.back().axis == piece.axis && all.back().end == piece.start) {
      all.back().end = piece.end;
    } else {
      all.push_back(piece);
    }
  }

  static bool same_but_for_ones(const ValueType& a, const ValueType& b) {
    const auto without = [](const Shape& shape) {
      Shape kept;
      for (const Dim& dim : shape) {
        if (!(dim == Dim(1))) kept.push_back(dim);
      }
      return kept;
    };
    return a.shape && b.shape && a.dtype == b.dtype && without(*a.shape) == without(*b.shape);
  }

  const Graph& graph_;
  int visited_ = 0;
};

Attributes shape_of(const Graph& graph, ValueId result) { return {{"shape", *graph.type(result).shape}}; }

/// Returns whether one type, reshaped to the other, has its batch axis in the same place.
bool stands_for(const Graph& graph, ValueId whole, ValueId result) {
  const ValueType *const type = &graph.type(whole), &wanted = graph.type(result);
  if (type->shape == wanted.shape) return type->batch == wanted.batch;
  const Attributes attributes = shape_of(graph, result);
  const auto types = types_of({core("reshape"), {&type, 1}, attributes, graph.batch_symbol()});
  return types.ok() && types->front().batch == wanted.batch;
}

ValueId seen_as(Rewriter& rewriter, const Graph& graph, ValueId whole, ValueId result) {
  const ValueId by = rewriter.map(whole);
  if (graph.type(whole).shape == graph.type(result).shape) return by;
  Graph& to = rewriter.graph();
  const ValueId seen = to.add(core("reshape"), {by}, shape_of(graph, result), std::string(graph.value(result).name),
                              graph.location(graph.producer(result)));
  RANNC_CHECK(infer_types(to, to.producer(seen)).ok()) << "the rule was asked before";
  return seen;
}

}  // namespace

Result<Outcome> JoinPieces::run(Graph& graph, PassContext& context) const {
  static const Ops kConcat{"concat"};
  const std::vector<bool> requested = results_of(graph);
  Follower follower(graph);
  Rewriter rewriter(graph);
  size_t joined = 0;
  for (const TaskId task : graph.tasks()) {
    const ValueId result = graph.outputs(task)[0];
    const bool may = kConcat.contains(graph.op(task)) && !requested[result.index()];
    const ValueId whole = may ? follower.joined(task) : ValueId();
    if (whole.valid() && stands_for(graph, whole, result)) {
      rewriter.replace(result, seen_as(rewriter, graph, whole, result));
      ++joined;
    } else {
      rewriter.copy(task);
    }
  }
  if (joined == 0) return Outcome{};
  graph = std::move(rewriter).finish();
  context.remarks.push_back({{}, fmt::format("removed {} concatenations of adjacent parts of one value", joined)});
  return Outcome{true};
}

}  // namespace rannc::passes
