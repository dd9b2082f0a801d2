#include "frontend/internal/sizes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/dim/dim_bounds.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::frontend {

namespace {

constexpr double kLargest = 1 << 20;

/// One element: a size divided by an integer, or a number computed from constants only, such as the root of a table's
/// length.
struct Element {
  ir::Dim above;
  int64_t below = 1;
  std::optional<double> number = {};

  bool is_whole() const { return !number && below == 1; }
  std::optional<double> known() const {
    if (number || !above.is_constant()) return number;
    return static_cast<double>(above.constant()) / static_cast<double>(below);
  }
};

using Elements = std::vector<Element>;

bool is_readable(double number) { return std::abs(number) <= 0x1p52; }  // false for NaN

/// Rounds `number` to its type.
double held(double number, ir::DType dtype) {
  return dtype == ir::DType::kF64 ? number : static_cast<double>(static_cast<float>(number));
}

enum class Rounding : uint8_t { kDown, kUp, kToZero };

std::optional<Element> rounded(const Element& x, Rounding how) {
  if (x.number) {
    const double whole = how == Rounding::kDown ? std::floor(*x.number)
                         : how == Rounding::kUp ? std::ceil(*x.number)
                                                : std::trunc(*x.number);
    return Element{static_cast<int64_t>(whole)};
  }
  if (x.is_whole()) return x;
  if (how == Rounding::kUp) return Element{floor_div(x.above + ir::Dim(x.below - 1), ir::Dim(x.below))};
  if (!never_negative(x.above)) return std::nullopt;
  return Element{floor_div(x.above, ir::Dim(x.below))};
}

/// Multiplies by a constant. Only one factor is allowed without rounding in between, which keeps numbers small.
std::optional<Element> scaled(const Element& x, Fraction by) {
  if (x.number || x.below != 1 || by.above <= 0 || by.below <= 0) return std::nullopt;
  return Element{x.above * ir::Dim(by.above), by.below};
}

std::optional<Fraction> factor_of(const Element& x) {
  const auto known = x.known();
  if (!known || !(*known * kLargest >= 1 && *known <= kLargest)) return std::nullopt;
  return simplest_fraction(*known);
}

/// Adds or subtracts. One operand must be an integer, so that later rounding of the other is exact.
std::optional<Element> moved(Element a, Element b, int64_t sign) {
  for (Element* each : {&a, &b}) {
    const auto fraction = each->number ? factor_of({{}, 1, std::abs(*each->number)}) : std::nullopt;
    if (each->number && !fraction && *each->number != 0) return std::nullopt;
    if (each->number && !fraction) *each = Element{0};
    if (!each->number) continue;
    const int64_t above = *each->number < 0 ? -fraction->above : fraction->above;
    *each = Element{above, fraction->below};
  }
  if (a.below != 1 && b.below != 1) return std::nullopt;
  return Element{a.above * ir::Dim(b.below) + b.above * ir::Dim(a.below * sign), a.below * b.below};
}

enum class Arithmetic : uint8_t { kAdd, kSub, kMul, kDiv, kPow };

std::optional<Arithmetic> arithmetic_of(const ir::OpInfo& op) {
  static const ir::Ops kSum = "add", kDifference = "sub", kProduct = "mul", kQuotient = "div", kPower = "pow";
  if (kSum.contains(op)) return Arithmetic::kAdd;
  if (kDifference.contains(op)) return Arithmetic::kSub;
  if (kProduct.contains(op)) return Arithmetic::kMul;
  if (kQuotient.contains(op)) return Arithmetic::kDiv;
  if (kPower.contains(op)) return Arithmetic::kPow;
  return std::nullopt;
}

double of_numbers(Arithmetic how, double a, double b) {
  switch (how) {
    case Arithmetic::kAdd:
      return a + b;
    case Arithmetic::kSub:
      return a - b;
    case Arithmetic::kMul:
      return a * b;
    case Arithmetic::kDiv:
      return a / b;
    case Arithmetic::kPow:
      return std::pow(a, b);
  }
  return 0;
}

std::optional<Element> combined(Arithmetic how, const Element& a, const Element& b, ir::DType dtype) {
  const auto x = a.known(), y = b.known();
  if (x && y) {
    const double number = held(of_numbers(how, *x, *y), dtype);
    return is_readable(number) ? std::optional(Element{{}, 1, number}) : std::nullopt;
  }
  const auto by_a = factor_of(a), by_b = factor_of(b);
  switch (how) {
    case Arithmetic::kAdd:
      return moved(a, b, 1);
    case Arithmetic::kSub:
      return moved(a, b, -1);
    case Arithmetic::kMul:
      return by_b ? scaled(a, *by_b) : by_a ? scaled(b, *by_a) : std::nullopt;
    case Arithmetic::kDiv:
      return by_b ? scaled(a, {by_b->below, by_b->above}) : std::nullopt;
    case Arithmetic::kPow:
      return std::nullopt;
  }
  return std::nullopt;
}

/// Traces values back to sizes. Returns nothing if an element does not follow from them.
class Reader {
 public:
  explicit Reader(const ir::Graph& graph) : graph_(graph) {}

  std::optional<Elements> read(ValueId value) {
    constexpr int kMostTasks = 256;
    if (!value.valid() || ++visited_ > kMostTasks) return std::nullopt;
    const ir::ValueType& type = graph_.type(value);
    if (!type.shape || type.shape->size() > 1) return std::nullopt;
    if (type.contents) {
      Elements known;
      for (const ir::Dim& element : *type.contents) known.push_back({element});
      return known;
    }
    if (const auto number = ir::is_float(type.dtype) ? ir::scalar_constant(graph_, value) : std::nullopt) {
      return is_readable(*number) ? std::optional(Elements{{{}, 1, *number}}) : std::nullopt;
    }
    const TaskId task = graph_.producer(value);
    return task.valid() ? made_by(task, type.dtype) : std::nullopt;
  }

  static std::optional<Elements> each_rounded(std::optional<Elements> elements, Rounding how) {
    for (size_t i = 0; elements && i < elements->size(); ++i) {
      const auto whole = rounded((*elements)[i], how);
      if (!whole) return std::nullopt;
      (*elements)[i] = *whole;
    }
    return elements;
  }

 private:
  std::optional<Elements> made_by(TaskId task, ir::DType dtype) {
    static const ir::Ops kPasses = {"identity", "reshape", "unsqueeze", "squeeze", "stop_gradient"}, kCast = "cast",
                         kFloor = "floor", kCeil = "ceil", kRoot = "sqrt", kConcat = "concat";
    const bool whole = ir::is_integer(dtype);
    const ir::OpInfo& op = graph_.op(task);
    const auto operands = graph_.inputs(task);
    if (kConcat.contains(op)) return joined(operands);
    if (kPasses.contains(op) || (kCast.contains(op) && !whole)) return read(operands[0]);
    if (kCast.contains(op)) return each_rounded(read(operands[0]), Rounding::kToZero);
    if (kFloor.contains(op)) return each_rounded(read(operands[0]), Rounding::kDown);
    if (kCeil.contains(op)) return each_rounded(read(operands[0]), Rounding::kUp);
    if (kRoot.contains(op)) return roots(read(operands[0]), dtype);
    const auto how = arithmetic_of(op);
    return how && !whole ? computed(*how, read(operands[0]), read(operands[1]), dtype) : std::nullopt;
  }

  static std::optional<Elements> roots(std::optional<Elements> elements, ir::DType dtype) {
    for (size_t i = 0; elements && i < elements->size(); ++i) {
      const auto known = (*elements)[i].known();
      if (!known || *known < 0) return std::nullopt;
      (*elements)[i] = Element{{}, 1, held(std::sqrt(*known), dtype)};
    }
    return elements;
  }

  static std::optional<Elements> computed(Arithmetic how, const std::optional<Elements>& a,
                                          const std::optional<Elements>& b, ir::DType dtype) {
    if (!a || !b || a->empty() || b->empty()) return std::nullopt;
    if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return std::nullopt;
    Elements made;
    for (size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
      const auto one = combined(how, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i], dtype);
      if (!one) return std::nullopt;
      made.push_back(*one);
    }
    return made;
  }

  std::optional<Elements> joined(std::span<const ValueId> operands) {
    constexpr size_t kMost = 64;
    Elements all;
    for (const ValueId operand : operands) {
      const auto part = read(operand);
      if (!part || all.size() + part->size() > kMost) return std::nullopt;
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }

  const ir::Graph& graph_;
  int visited_ = 0;
};

std::optional<ir::Contents> contents_of(const std::optional<Elements>& elements) {
  if (!elements) return std::nullopt;
  ir::Contents contents;
  for (const Element& element : *elements) {
    if (!element.is_whole()) return std::nullopt;
    contents.push_back(element.above);
  }
  return contents;
}

}  // namespace

Fraction simplest_fraction(double number) {
  constexpr int64_t kMost = 1024;
  for (int64_t below = 1; below <= kMost; ++below) {
    const Fraction fraction{static_cast<int64_t>(std::rint(number * static_cast<double>(below))), below};
    if (static_cast<float>(fraction.value()) == static_cast<float>(number)) return fraction;
  }
  constexpr int kBits = 24;
  return {static_cast<int64_t>(std::rint(std::ldexp(number, kBits))), int64_t{1} << kBits};
}

std::optional<ir::Contents> sizes_through_floats(const ir::Graph& graph, ValueId value) {
  return contents_of(Reader(graph).read(value));
}

std::optional<ir::Contents> floats_cut_to_sizes(const ir::Graph& graph, ValueId value) {
  return contents_of(Reader::each_rounded(Reader(graph).read(value), Rounding::kToZero));
}

}  // namespace rannc::frontend
