/// Translates operators of rows sorted by class, as the tokens of mixtures of experts are.
#include "frontend/internal/rows/classes.h"

#include <fmt/format.h>

#include "frontend/internal/rows/picked_rows.h"
#include "frontend/torchscript/internal/indexed_axes.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

/// The number of rows of each class. Other integers are counted by the dispatcher.
void count_classes(Call& call, int64_t bins, DType dtype) {
  const auto choice = call.good() ? choice_of_rows(call.graph(), call.tensor("self")) : std::nullopt;
  if (!choice || choice->classes != bins) return call.use_dispatcher();
  const ValueId hot = call.emit("one_hot", {choice->indices}, {{"depth", Dim(bins)}, {"axis", Dim(-1)}});
  Shape axes;
  for (int64_t i = 0; i < call.rank(choice->indices); ++i) axes.emplace_back(i);
  const ValueId counts = call.emit("sum", {call.cast(hot, DType::kI64)}, {{"axes", axes}, {"keepdim", false}});
  if (call.good()) call.give(call.cast(counts, dtype));
}

/// Bins of width 1 from 0, or of slightly less so that the last class is in the last bin.
void histc(Call& call) {
  const int64_t bins = call.integer("bins");
  const double low = call.number("min"), high = call.number("max");
  const auto count = static_cast<double>(bins);
  if (!call.good()) return;
  if (low != 0 || (high != count && high != count - 1)) return call.use_dispatcher();
  count_classes(call, bins, call.dtype(call.tensor("self")));
}

void bincount(Call& call) {
  if (call.has("weights")) return call.use_dispatcher();
  count_classes(call, call.integer("minlength"), DType::kI64);
}

/// The matrix of one class.
ValueId matrix_of(Call& call, ValueId matrices, int64_t index) {
  const ir::Attributes at = {{"axes", Shape{0}}, {"starts", Shape{index}}, {"ends", Shape{index + 1}}};
  return call.emit("squeeze", {call.emit("slice", {matrices}, at)}, {{"axes", Shape{0}}});
}

/// The sizes of groups of which `ends` are the running sums.
std::optional<Shape> group_sizes(Call& call, ValueId ends) {
  constexpr ir::Capture kSizes{0};
  static const ir::Pattern kEnds =
      ir::through({"cast", "identity"}, ir::op("cumsum", ir::through({"cast", "identity"}, ir::any(kSizes))));
  const auto found = call.match(ends, kEnds);
  return found ? call.contents((*found)[kSizes]) : std::nullopt;
}

/// Rows that are sorted by class: a product of the rows of each class.
ValueId by_sizes(Call& call, ValueId x, ValueId matrices, const Shape& sizes) {
  std::vector<ValueId> parts = call.emit_all("split", {x}, {{"axis", Dim(0)}, {"sizes", sizes}}, sizes.size());
  for (size_t i = 0; i < parts.size(); ++i)
    parts[i] = call.emit("matmul", {parts[i], matrix_of(call, matrices, static_cast<int64_t>(i))});
  return call.emit("concat", parts, {{"axis", Dim(0)}});
}

/// Any groups: the product of all rows with each matrix, of which each row keeps that of its group.
ValueId by_ends(Call& call, ValueId x, ValueId matrices, ValueId ends, int64_t groups) {
  const Dim rows = call.shape(x)->front();
  const ValueId places = call.emit("range", {}, {{"start", Dim(0)}, {"limit", rows}, {"delta", Dim(1)}});
  const ValueId column = call.emit("unsqueeze", {places}, {{"axes", Shape{1}}});
  const ValueId passed = call.emit("le", {call.cast(ends, DType::kI64), column});
  const ValueId group = call.emit("sum", {call.cast(passed, DType::kI64)}, {{"axes", Shape{1}}, {"keepdim", true}});
  ValueId made;
  for (int64_t i = 0; i < groups && call.good(); ++i) {
    const ValueId product = call.emit("matmul", {x, matrix_of(call, matrices, i)});
    const ValueId is_own = call.emit("eq", {group, call.scalar(static_cast<double>(i), DType::kI64)});
    made = call.emit("where", {is_own, product, made.valid() ? made : call.scalar(0, call.dtype(x))});
  }
  return made;
}

/// Products of consecutive rows with the matrix of their group.
void grouped_mm(Call& call) {
  const ValueId x = call.tensor(call.item(0), "self"), matrices = call.tensor(call.item(1), "mat2");
  const ValueId ends = call.item(2).is_none() ? ValueId() : call.tensor(call.item(2), "offs");
  const Shape* const shape = call.shape(matrices);
  if (!shape || !call.good()) return;
  if (call.has("bias")) return call.fail(fmt::format("{}: a bias is not supported", call.schema()));
  const auto is_rows = [&] { return call.rank(x) == 2 && call.rank(matrices) == 3 && shape->front().is_constant(); };
  if (ends.valid() && !is_rows())
    return call.fail(
        fmt::format("{}: only groups of rows [rows, in] with matrices [groups, in, out] are supported", call.schema()));
  ValueId made;
  if (!ends.valid()) {
    made = call.emit("matmul", {x, matrices});
  } else if (!is_picked(call.type(x))) {
    made = by_ends(call, x, matrices, ends, shape->front().constant());
  } else if (const auto sizes = group_sizes(call, ends);
             sizes && Dim(static_cast<int64_t>(sizes->size())) == shape->front()) {
    made = by_sizes(call, x, matrices, *sizes);
  } else {
    return call.fail(
        fmt::format("{}: the ends of groups of sorted rows must be the running sums of the numbers of "
                    "rows of each class",
                    call.schema()));
  }
  if (call.good()) call.give(call.cast(made, call.dtype("out_dtype", call.dtype(x))));
}

}  // namespace

bool puts_back(Call& call, ValueId index, ValueId written) {
  if (!call.good() || !sorts_rows(call.graph(), index) || call.type(written).shape->size() != 1) return false;
  return is_whole(call, written, call.type(index).shape->front()) ||
         is_whole(call, written, unsorted_count(call.graph(), index));
}

bool give_unsorted(Call& call, ValueId x, int64_t axis, ValueId index) {
  const auto places = call.good() ? sorted_behind(call.graph(), index) : std::nullopt;
  if (!places) return false;
  const Shape* const from = call.shape(x);
  if (!from || !is_picked((*from)[static_cast<size_t>(axis)])) return false;
  Shape to = *from, column(to.size(), Dim(1));
  const Dim rows = to[static_cast<size_t>(axis)];
  column[static_cast<size_t>(axis)] = rows;
  const ValueId wide = call.emit("expand", {call.emit("reshape", {*places}, {{"shape", column}})}, {{"shape", to}});
  to[static_cast<size_t>(axis)] = unsorted_count(call.graph(), *places);
  const DType dtype = call.dtype(x);
  const ValueId zeros = call.emit("expand", {call.scalar(0, dtype)}, {{"shape", to}});
  call.result("scatter_elements", {zeros, wide, x}, {{"axis", Dim(axis)}, {"reduction", std::string("none")}});
  return true;
}

std::span<const Translator> class_translators() {
  static constexpr Translator kTable[] = {
      {"histc", histc},
      {"bincount", bincount},
      {"_grouped_mm", grouped_mm},
      {"transformers::grouped_mm_fallback", grouped_mm},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
