#include "passes/parameters/internal/formula_fits.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace rannc::passes {

namespace {

std::vector<int64_t> extents(const ir::StoredTensor& tensor) {
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : *tensor.type.shape) sizes.push_back(dim.constant());
  return sizes;
}

ir::Shape as_shape(std::span<const int64_t> sizes) { return {sizes.begin(), sizes.end()}; }

bool is_target(const ComputedFormula& formula, size_t value, const FormulaTarget& target) {
  return formula[value].tensor.type.shape == target.tensor.type.shape &&
         distance(formula[value].numbers, target.numbers) <= target.tolerance;
}

/// What any order of the elements keeps.
bool may_be_reordered(const ComputedFormula& formula, size_t value, const FormulaTarget& target) {
  const auto& numbers = formula[value].numbers;
  if (numbers.size() != target.numbers.size()) return false;
  double sum = 0, other = 0, size = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    sum += numbers[i];
    other += target.numbers[i];
    size = std::max({size, std::abs(numbers[i]), std::abs(target.numbers[i])});
  }
  return !(std::abs(sum - other) > target.tolerance * size * static_cast<double>(numbers.size()));
}

std::optional<size_t> reshaped(ComputedFormula& formula, size_t value, const FormulaTarget& target) {
  if (formula[value].tensor.type.shape == target.tensor.type.shape) return value;
  return formula.apply(ir::core("reshape"), {value}, {{"shape", *target.tensor.type.shape}});
}

/// Numbers that differ by more than rounding.
size_t distinct(std::vector<double> numbers, double tolerance) {
  if (numbers.empty()) return 0;
  std::sort(numbers.begin(), numbers.end());
  const double least = tolerance * std::max(std::abs(numbers.front()), std::abs(numbers.back()));
  size_t count = 1;
  for (size_t i = 1; i < numbers.size(); ++i) count += numbers[i] - numbers[i - 1] > least;
  return count;
}

/// A number that was written in a program, if one is near.
double as_written(double number, double tolerance) {
  if (number == 0) return 0;
  const double scale = std::pow(10.0, 4 - std::floor(std::log10(std::abs(number))));
  const double rounded = std::round(number * scale) / scale;
  return std::abs(rounded - number) <= 4 * tolerance * std::abs(number) ? rounded : number;
}

/// Places of the target's numbers among those of a value; empty where one is not there, or there twice.
std::vector<int64_t> places_of(const std::vector<double>& among, const std::vector<double>& wanted) {
  std::map<double, int64_t> place;
  for (size_t i = 0; i < among.size(); ++i) {
    const auto [at, fresh] = place.emplace(among[i], static_cast<int64_t>(i));
    if (!fresh) at->second = -1;
  }
  std::vector<int64_t> places;
  for (const double number : wanted) {
    const auto found = place.find(number);
    if (found == place.end() || found->second < 0) return {};
    places.push_back(found->second);
  }
  return places;
}

/// A box of a tensor, whose elements in order have those places.
struct SlicedBox {
  ir::Shape axes, starts, ends;
};

std::optional<SlicedBox> box_of(const std::vector<int64_t>& places, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> lowest(sizes), highest(sizes.size(), -1), index(sizes.size());
  const auto split = [&](int64_t place) {
    for (size_t axis = sizes.size(); axis-- > 0; place /= sizes[axis]) index[axis] = place % sizes[axis];
  };
  for (const int64_t place : places) {
    split(place);
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      lowest[axis] = std::min(lowest[axis], index[axis]);
      highest[axis] = std::max(highest[axis], index[axis]);
    }
  }
  SlicedBox box;
  int64_t count = 1;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    count *= highest[axis] - lowest[axis] + 1;
    if (lowest[axis] == 0 && highest[axis] + 1 == sizes[axis]) continue;
    box.axes.emplace_back(static_cast<int64_t>(axis));
    box.starts.emplace_back(lowest[axis]);
    box.ends.emplace_back(highest[axis] + 1);
  }
  const bool ordered = std::is_sorted(places.begin(), places.end());
  return ordered && count == static_cast<int64_t>(places.size()) ? std::optional(box) : std::nullopt;
}

}  // namespace

std::optional<size_t> fit_layout(ComputedFormula& formula, size_t value, const FormulaTarget& target) {
  if (!may_be_reordered(formula, value, target)) return std::nullopt;
  const size_t before = formula.size();
  const std::vector<int64_t> sizes = extents(formula[value].tensor);
  constexpr size_t kMostAxes = 4;
  std::vector<int64_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    const bool turned = !std::is_sorted(order.begin(), order.end());
    const auto moved =
        turned ? formula.apply(ir::core("permute"), {value}, {{"dims", as_shape(order)}}) : std::optional(value);
    const auto made = moved ? reshaped(formula, *moved, target) : std::nullopt;
    if (made && is_target(formula, *made, target)) return made;
    formula.shrink(before);
  } while (sizes.size() <= kMostAxes && std::next_permutation(order.begin(), order.end()));
  return std::nullopt;
}

std::optional<size_t> fit_scaled(ComputedFormula& formula, size_t value, const FormulaTarget& target) {
  const auto& numbers = formula[value].numbers;
  constexpr size_t kFewest = 3;
  if (numbers.size() != target.numbers.size() || distinct(target.numbers, 1e-3) < kFewest) return std::nullopt;
  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  if (!(*high > *low)) return std::nullopt;
  const double first = target.numbers[static_cast<size_t>(low - numbers.begin())];
  const double last = target.numbers[static_cast<size_t>(high - numbers.begin())];
  const double factor = as_written((last - first) / (*high - *low), target.tolerance);
  double term = first - factor * *low;
  if (std::abs(term) <= target.tolerance * std::max(std::abs(first), std::abs(last))) term = 0;
  term = as_written(term, target.tolerance);
  const size_t before = formula.size();
  const ir::DType dtype = target.tensor.type.dtype;
  auto made = std::optional(value);
  if (factor != 1) made = formula.apply(ir::core("mul"), {value, formula.add_scalar(dtype, factor)});
  if (made && term != 0) made = formula.apply(ir::core("add"), {*made, formula.add_scalar(dtype, term)});
  if (made) made = reshaped(formula, *made, target);
  if (made && is_target(formula, *made, target)) return made;
  formula.shrink(before);
  return std::nullopt;
}

std::optional<size_t> fit_picked(ComputedFormula& formula, size_t value, const FormulaTarget& target) {
  const std::vector<int64_t> places = places_of(formula[value].numbers, target.numbers);
  if (places.empty()) return std::nullopt;
  const size_t before = formula.size();
  std::optional<size_t> made;
  if (const auto box = box_of(places, extents(formula[value].tensor))) {
    made = box->axes.empty() ? std::optional(value)
                             : formula.apply(ir::core("slice"), {value},
                                             {{"axes", box->axes}, {"starts", box->starts}, {"ends", box->ends}});
  } else {
    const auto flat = formula.apply(ir::core("reshape"), {value}, {{"shape", ir::Shape{ir::Dim(-1)}}});
    const std::vector<double> indices(places.begin(), places.end());
    const ir::Shape shape{ir::Dim(static_cast<int64_t>(places.size()))};
    const size_t at = formula.add_constant(ir::DType::kI64, shape, indices);
    if (flat) made = formula.apply(ir::core("gather"), {*flat, at}, {{"axis", ir::Dim(0)}});
  }
  if (made) made = reshaped(formula, *made, target);
  if (made && is_target(formula, *made, target)) return made;
  formula.shrink(before);
  return std::nullopt;
}

std::optional<size_t> fit_masked(ComputedFormula& formula, size_t value, const FormulaTarget& target) {
  const auto& numbers = formula[value].numbers;
  if (formula[value].tensor.type.shape != target.tensor.type.shape) return std::nullopt;
  std::vector<double> kept(numbers.size()), filled(numbers.size());
  std::set<double> fillings;
  size_t count = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    kept[i] = numbers[i] == target.numbers[i] ? 1 : 0;
    count += numbers[i] == target.numbers[i] && numbers[i] != 0;
    if (kept[i] == 1) continue;
    filled[i] = target.numbers[i];
    fillings.insert(filled[i]);
  }
  constexpr size_t kFewest = 3;
  if (count < kFewest || fillings.size() != 1) return std::nullopt;
  const size_t before = formula.size();
  const auto add_constant = [&](const std::vector<double>& all) {
    return formula.add_constant(target.tensor.type.dtype, *target.tensor.type.shape, all);
  };
  auto made = formula.apply(ir::core("mul"), {value, add_constant(kept)});
  if (made && *fillings.begin() != 0) made = formula.apply(ir::core("add"), {*made, add_constant(filled)});
  if (made && is_target(formula, *made, target)) return made;
  formula.shrink(before);
  return std::nullopt;
}

std::optional<size_t> fit_unknown(ComputedFormula& formula, size_t value, const FormulaTarget& target, Unknown what) {
  const auto& numbers = formula[value].numbers;
  if (formula[value].tensor.type.shape != target.tensor.type.shape) return std::nullopt;
  std::vector<double> other(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (what == Unknown::kFactor && numbers[i] == 0) return std::nullopt;
    other[i] = what == Unknown::kFactor ? target.numbers[i] / numbers[i] : target.numbers[i] - numbers[i];
  }
  const size_t before = formula.size();
  const size_t constant = formula.add_constant(target.tensor.type.dtype, *target.tensor.type.shape, other);
  const auto made = formula.apply(ir::core(what == Unknown::kFactor ? "mul" : "add"), {value, constant});
  if (made && is_target(formula, *made, target)) return made;
  formula.shrink(before);
  return std::nullopt;
}

}  // namespace rannc::passes
