// Derives offsets from the tasks that compute them, never from data of a sample.
#include "frontend/recipes/bags.h"

#include "ir/dim/dim_bounds.h"

namespace rannc::frontend {

using ir::Dim;
using ir::Shape;

namespace {

std::optional<Progression> of_contents(const Shape& contents) {
  if (contents.empty()) return std::nullopt;
  Progression found{contents.front(), {}, Dim(static_cast<int64_t>(contents.size()))};
  for (size_t i = 1; i < contents.size(); ++i) {
    const Dim step = contents[i] - contents[i - 1];
    if (found.step && !(*found.step == step)) return std::nullopt;
    found.step = step;
  }
  return found;
}

const Dim* integer(const ir::Attributes& attributes, std::string_view name) {
  const ir::Attribute* const found = attributes.find(name);
  return found ? std::get_if<Dim>(found) : nullptr;
}

/// Returns the start of a slice of one axis that has step 1 and a start that is never negative.
std::optional<Dim> cut_at_front(const ir::Attributes& slice) {
  const Shape *const starts = slice.list("starts"), *const steps = slice.list("steps");
  if (!starts || starts->size() != 1 || !ir::never_negative(starts->front())) return std::nullopt;
  if (steps && !(*steps == Shape{1})) return std::nullopt;
  return starts->front();
}

/// Returns the contents of a value of one element, if known.
std::optional<Dim> factor(const TaskWriter& writer, ValueId value) {
  const auto contents = writer.contents(value);
  return contents && contents->size() == 1 ? std::optional(contents->front()) : std::nullopt;
}

}  // namespace

std::optional<Progression> progression(const TaskWriter& writer, ValueId value) {
  constexpr ir::Capture kRange{0}, kOf{1}, kLeft{2}, kRight{3}, kSlice{4};
  static const ir::Pattern kRanges = ir::op("range").as(kRange);
  static const ir::Pattern kSame = ir::op({"identity", "cast", "reshape", "stop_gradient"}, ir::any(kOf));
  static const ir::Pattern kSlices = ir::op("slice", ir::any(kOf)).as(kSlice);
  static const ir::Pattern kProducts = ir::op("mul", ir::any(kLeft), ir::any(kRight));
  const ir::ValueType& type = writer.type(value);
  const bool is_wide = type.dtype == ir::DType::kI64 || type.dtype == ir::DType::kI32;
  if (!is_wide || !type.shape || type.shape->size() != 1) return std::nullopt;
  if (const auto contents = writer.contents(value)) return of_contents(*contents);
  const Dim count = type.shape->front();
  if (const auto found = writer.match(value, kRanges)) {
    const Dim* const first = integer(found->attributes(kRange), "start");
    const Dim* const step = integer(found->attributes(kRange), "delta");
    return first && step ? std::optional(Progression{*first, *step, count}) : std::nullopt;
  }
  if (const auto found = writer.match(value, kSame)) return progression(writer, (*found)[kOf]);
  if (const auto found = writer.match(value, kSlices)) {
    auto whole = progression(writer, (*found)[kOf]);
    const auto start = cut_at_front(found->attributes(kSlice));
    if (!whole || !whole->step || !start) return std::nullopt;
    return Progression{whole->first + *start * *whole->step, whole->step, count};
  }
  if (const auto found = writer.match(value, kProducts)) {
    for (const auto& [list, by] : {std::pair(kLeft, kRight), std::pair(kRight, kLeft)}) {
      const auto times = factor(writer, (*found)[by]);
      auto each = times ? progression(writer, (*found)[list]) : std::nullopt;
      if (!each) continue;
      each->first = each->first * *times;
      if (each->step) each->step = *each->step * *times;
      return each;
    }
  }
  return std::nullopt;
}

std::optional<EqualBags> equal_bags(const Progression& starts, const Dim& rows) {
  if (!(starts.first == Dim(0))) return std::nullopt;
  const Dim size = starts.count == Dim(1) ? rows : starts.step.value_or(Dim(0));
  if (ir::sign(size) != 1 || ir::certainly_equal(starts.count * size, rows) != true) return std::nullopt;
  return EqualBags{starts.count, size};
}

ValueId by_bag(TaskWriter& writer, ValueId flat, const EqualBags& bags) {
  return writer.emit("reshape", {flat}, {{"shape", Shape{bags.count, bags.size}}});
}

}  // namespace rannc::frontend
