#include "passes/parameters/internal/copy_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace rannc::passes {

namespace {

using Elements = std::vector<double>;

/// A form as the search tries it, in order of computation.
struct Fit {
  enum class Reduction : uint8_t { kNone, kSum, kL1, kL2 } reduction = Reduction::kNone;
  std::vector<int64_t> axes = {};   ///< of the reduction
  int64_t sliced = -1;              ///< axis; -1: not sliced
  int64_t start = 0, end = 0;       ///< of the slice
  std::vector<int64_t> order = {};  ///< of the axes after the slice; empty: unchanged
  bool squared = false;
  double factor = 1, shift = 0;
};

constexpr size_t kMostAxes = 5;
constexpr int64_t kMostJudged = 1 << 26;  ///< elements of all views of one tensor
constexpr size_t kFewest = 4;             ///< elements that two unknowns are judged by

int64_t count(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// Distance between elements that are one behind another along each axis.
std::vector<int64_t> strides_of(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Elements of a tensor, in row-major order of the box.
struct Box {
  std::vector<int64_t> extents, strides;
  int64_t first = 0;
};

/// Calls `visit(offset)` for each element, as long as it returns true; whether it always did.
template <class Visit>
bool for_each_element(const Box& box, Visit visit) {
  std::vector<int64_t> at(box.extents.size());
  int64_t offset = box.first;
  for (int64_t left = count(box.extents); left > 0; --left) {
    if (!visit(offset)) return false;
    for (size_t axis = box.extents.size(); axis-- > 0;) {
      offset += box.strides[axis];
      if (++at[axis] < box.extents[axis]) break;
      offset -= at[axis] * box.strides[axis];
      at[axis] = 0;
    }
  }
  return true;
}

double tolerance(ir::DType dtype) { return dtype == ir::DType::kF64 ? 1e-13 : dtype == ir::DType::kF32 ? 1e-6 : 0; }

bool same_bits(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

Box box_of(const Numbers& source, const Fit& form) {
  Box box{source.shape, strides_of(source.shape)};
  if (form.sliced >= 0) {
    const auto axis = static_cast<size_t>(form.sliced);
    box.first = form.start * box.strides[axis];
    box.extents[axis] = form.end - form.start;
  }
  const Box own = box;
  for (size_t i = 0; i < form.order.size(); ++i) {
    box.extents[i] = own.extents[static_cast<size_t>(form.order[i])];
    box.strides[i] = own.strides[static_cast<size_t>(form.order[i])];
  }
  return box;
}

/// The elements of `source` as a view has them.
Elements viewed(const Numbers& source, const Fit& form) {
  Elements elements;
  const Box box = box_of(source, form);
  elements.reserve(static_cast<size_t>(count(box.extents)));
  for_each_element(box, [&](int64_t at) {
    elements.push_back(source.elements[static_cast<size_t>(at)]);
    return true;
  });
  return elements;
}

bool is_exact(const Numbers& source, const Fit& form, const Numbers& made) {
  size_t next = 0;
  return for_each_element(box_of(source, form), [&](int64_t at) {
    return same_bits(source.elements[static_cast<size_t>(at)], made.elements[next++]);
  });
}

Elements reduced(const Numbers& source, const Fit& form) {
  std::vector<int64_t> kept = source.shape;
  for (const int64_t axis : form.axes) kept[static_cast<size_t>(axis)] = 1;
  std::vector<int64_t> strides = strides_of(kept);
  for (const int64_t axis : form.axes) strides[static_cast<size_t>(axis)] = 0;
  Elements sums(static_cast<size_t>(count(kept)));
  size_t next = 0;
  for_each_element({source.shape, strides}, [&](int64_t at) {
    const double x = source.elements[next++];
    using enum Fit::Reduction;
    sums[static_cast<size_t>(at)] += form.reduction == kL2 ? x * x : form.reduction == kL1 ? std::abs(x) : x;
    return true;
  });
  if (form.reduction == Fit::Reduction::kL2) {
    for (double& sum : sums) sum = std::sqrt(sum);
  }
  return sums;
}

/// A number as a program writes it, where rounding hides it.
double snapped(double number, double off) {
  constexpr double kParts = 1024;
  const double near = std::round(number * kParts) / kParts;
  return std::abs(near - number) <= off ? near : number;
}

class Judge {
 public:
  explicit Judge(const Numbers& made)
      : made_(made),
        dtype_(made.dtype),
        largest_(std::accumulate(made.elements.begin(), made.elements.end(), 0.0,
                                 [](double most, double x) { return std::max(most, std::abs(x)); })) {}

  template <class Function>
  bool is_near(const Elements& x, Function function) const {
    const double off = tolerance(dtype_) * largest_;
    return off > 0 && std::isfinite(off) && x.size() == made_.elements.size() &&
           std::equal(x.begin(), x.end(), made_.elements.begin(),
                      [&](double a, double b) { return std::abs(function(a) - b) <= off; });
  }

  /// Completes a form whose reduction or view gives `x`.
  std::optional<Fit> completed(Fit form, const Elements& x) const {
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    if (x.size() < kFewest || x.size() != made_.elements.size() || *least == *most) return std::nullopt;
    if (is_near(x, [](double a) { return a * a; })) {
      form.squared = true;
      return form;
    }
    const auto at = [&](auto place) { return made_.elements[static_cast<size_t>(place - x.begin())]; };
    const double off = 4 * tolerance(dtype_);
    form.factor = snapped((at(most) - at(least)) / (*most - *least), off);
    form.shift = snapped(at(most) - form.factor * *most, off * largest_);
    const bool is_affine = form.factor != 0 && is_near(x, [&](double a) { return form.factor * a + form.shift; });
    return is_affine ? std::optional(form) : std::nullopt;
  }

 private:
  const Numbers& made_;
  ir::DType dtype_;
  double largest_;
};

/// Orders of the axes that have more than one element, those of one staying where they are.
std::vector<std::vector<int64_t>> orders(const std::vector<int64_t>& shape) {
  std::vector<int64_t> moving;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) moving.push_back(static_cast<int64_t>(i));
  }
  std::vector<std::vector<int64_t>> all;
  const std::vector<int64_t> places = moving;
  do {
    std::vector<int64_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = 0; i < places.size(); ++i) order[static_cast<size_t>(places[i])] = moving[i];
    const bool moved = !std::is_sorted(order.begin(), order.end());
    all.push_back(moved ? std::move(order) : std::vector<int64_t>());
  } while (std::next_permutation(moving.begin(), moving.end()));
  return all;
}

/// Views that have as many elements as asked for.
std::vector<Fit> views(const Numbers& source, int64_t wanted) {
  std::vector<Fit> found;
  const int64_t all = count(source.shape);
  if (wanted == all) {
    for (auto& order : orders(source.shape)) found.push_back({.order = std::move(order)});
    return found;
  }
  for (size_t axis = 0; axis < source.shape.size(); ++axis) {
    const int64_t extent = source.shape[axis], beside = all / extent;
    if (wanted % beside != 0 || wanted > all) continue;
    const int64_t length = wanted / beside;
    for (int64_t start = 0; start + length <= extent; ++start) {
      Fit form;
      form.sliced = static_cast<int64_t>(axis), form.start = start, form.end = start + length;
      found.push_back(std::move(form));
    }
  }
  return found;
}

std::vector<Fit> reductions(const Numbers& source, int64_t wanted) {
  std::vector<Fit> found;
  for (unsigned subset = 1; subset < 1U << source.shape.size(); ++subset) {
    Fit form;
    int64_t gone = 1;
    for (size_t axis = 0; axis < source.shape.size(); ++axis) {
      if ((subset >> axis & 1U) == 0) continue;
      form.axes.push_back(static_cast<int64_t>(axis));
      gone *= source.shape[axis];
    }
    if (gone == 1 || count(source.shape) / gone != wanted) continue;
    using enum Fit::Reduction;
    for (const auto reduction : {kL2, kL1, kSum}) {
      form.reduction = reduction;
      found.push_back(form);
    }
  }
  return found;
}

std::vector<Fit> of_single_number(double source, double made, ir::DType dtype) {
  const auto rounded = [&](double x) {
    return dtype == ir::DType::kF32 ? static_cast<double>(static_cast<float>(x)) : x;
  };
  std::vector<Fit> found;
  const auto add = [&](double computed, Fit form) {
    if (same_bits(rounded(computed), made)) found.push_back(std::move(form));
  };
  add(source, {});
  add(-source, {.factor = -1});
  add(1 - source, {.factor = -1, .shift = 1});
  add(source * source, {.squared = true});
  return found;
}

std::vector<Fit> fits_of(const Numbers& source, const Numbers& made) {
  const int64_t wanted = count(made.shape), all = count(source.shape);
  if (source.dtype != made.dtype || source.shape.size() > kMostAxes || wanted == 0 || wanted > all) return {};
  if (all == 1) return of_single_number(source.elements[0], made.elements[0], made.dtype);
  const std::vector<Fit> seen = wanted > 1 ? views(source, wanted) : std::vector<Fit>();
  std::vector<Fit> found;
  for (const Fit& form : seen) {
    if (is_exact(source, form, made)) found.push_back(form);
  }
  if (!found.empty()) return found;
  const Judge judge(made);
  for (Fit& form : reductions(source, wanted)) {
    if (judge.is_near(reduced(source, form), [](double a) { return a; })) found.push_back(std::move(form));
  }
  if (!found.empty() || static_cast<int64_t>(seen.size()) * wanted > kMostJudged) return found;
  for (const Fit& form : seen) {
    if (auto whole = judge.completed(form, viewed(source, form))) found.push_back(*std::move(whole));
  }
  return found;
}

std::string text_of(const Fit& fit) {
  using enum Fit::Reduction;
  std::string text = "it";
  if (fit.reduction == kSum) text = "its sum";
  if (fit.reduction == kL1) text = "its sum of magnitudes";
  if (fit.reduction == kL2) text = "its norm";
  if (fit.sliced >= 0) text = fmt::format("its part {} to {} of axis {}", fit.start, fit.end, fit.sliced);
  if (!fit.order.empty()) text = "its transpose";
  if (fit.squared) text += ", squared";
  if (fit.factor == -1) {
    text += ", negated";
  } else if (fit.factor != 1) {
    text += fmt::format(", times {:.6g}", fit.factor);
  }
  if (fit.shift != 0) text += fmt::format(", plus {:.6g}", fit.shift);
  return text;
}

ir::Shape dims_of(const std::vector<int64_t>& sizes) { return {sizes.begin(), sizes.end()}; }

Formula formula_of(const Fit& fit, const Numbers& source, const Numbers& made) {
  using enum Fit::Reduction;
  Formula formula;
  const auto apply = [&](std::string_view op, ir::Attributes attributes = {}) {
    formula.then(op, {formula.result}, std::move(attributes));
  };
  const auto square = [&] { formula.then("mul", {formula.result, formula.result}); };
  const auto with_number = [&](std::string_view op, double number) {
    const size_t x = formula.result;
    formula.then(op, {x, formula.add_number(made.dtype, number)});
  };
  std::vector<int64_t> shape = box_of(source, fit).extents;
  for (const int64_t axis : fit.axes) shape[static_cast<size_t>(axis)] = 1;
  if (fit.reduction == kL2) square();
  if (fit.reduction == kL1) apply("abs");
  if (fit.reduction != kNone) apply("sum", {{"axes", dims_of(fit.axes)}, {"keepdim", true}});
  if (fit.reduction == kL2) apply("sqrt");
  if (fit.sliced >= 0)
    apply("slice", {{"starts", ir::Shape{fit.start}}, {"ends", ir::Shape{fit.end}}, {"axes", ir::Shape{fit.sliced}}});
  if (!fit.order.empty()) apply("permute", {{"dims", dims_of(fit.order)}});
  if (shape != made.shape) apply("reshape", {{"shape", dims_of(made.shape)}});
  if (fit.squared) square();
  if (fit.factor == -1) {
    apply("neg");
  } else if (fit.factor != 1) {
    with_number("mul", fit.factor);
  }
  if (fit.shift != 0) with_number("add", fit.shift);
  return formula;
}

}  // namespace

std::vector<CopyForm> forms_of_copy(const Numbers& source, const Numbers& made) {
  std::vector<CopyForm> forms;
  for (const Fit& fit : fits_of(source, made)) {
    const bool is_view = fit.reduction == Fit::Reduction::kNone && !fit.squared && fit.factor == 1 && fit.shift == 0;
    forms.push_back({formula_of(fit, source, made), text_of(fit), is_view});
  }
  return forms;
}

}  // namespace rannc::passes
