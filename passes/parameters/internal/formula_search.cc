#include "passes/parameters/internal/formula_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "ir/state/name_source.h"
#include "passes/parameters/internal/formula_fits.h"
#include "passes/parameters/internal/formula_steps.h"
#include "passes/parameters/internal/verdicts.h"

namespace rannc::passes {

namespace {

/// Numbers that programs write beside operands: the small ones keep divisors from 0.
constexpr std::array kTerms = {1e-5, 1e-6, 1e-8, 1e-12, 1e-7, 1e-4, 1e-3, 1e-10, 1.0};
constexpr std::array kFactors = {2.0, 0.5, 1.0};
constexpr std::array kExponents = {2.0, 0.5, -1.0, -0.5, 3.0, 4.0};
constexpr double kLeast = 1e-12;
constexpr size_t kMostComputed = 8000;

/// Likely ones first: all but the first, the last, the first, all of them.
std::vector<uint32_t> sets_of_axes(size_t rank) {
  const uint32_t all = (1U << rank) - 1;
  std::vector<uint32_t> sets;
  const auto add = [&](uint32_t set) {
    if (set > 0 && std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(set);
  };
  for (const uint32_t set : {all & ~1U, 1U << (rank - 1), 1U, all}) add(set);
  for (uint32_t set = 1; set < all; ++set) add(set);
  return sets;
}

using Next = std::function<bool()>;
using Left = std::vector<const KnownStep*>;

/// Depth first: each step reads any of the values that are there. `true` ends the search.
class Search {
 public:
  Search(const FormulaQuestion& question, FormulaTarget target, ComputedFormula formula)
      : question_(question), target_(std::move(target)), formula_(std::move(formula)), leaves_(formula_.size()) {}

  std::optional<Formula> run() {
    Left left;
    for (const std::string& name : question_.made) {
      const KnownStep* const step = known_step(ir::traced_op(name));
      if (step == nullptr) return std::nullopt;
      picks_ = picks_ || step->step == Step::kPick;
      joins_ = joins_ || step->step == Step::kJoin;
      masks_ = masks_ || step->step == Step::kMask;
      turns_ = turns_ || step->step == Step::kTurn;
      if (step->step < Step::kTurn) left.push_back(step);
    }
    constexpr size_t kMostSteps = 10;
    if (left.size() > kMostSteps || formula_.size() == 0) return std::nullopt;
    for (size_t leaf = 0; leaf < leaves_; ++leaf) seen_.push_back(leaf);
    if (joins_ && !join_leaves()) return std::nullopt;
    for (size_t i = 0; i < leaves_; ++i) one_number_ = one_number_ || is_one_number(i);
    std::sort(left.begin(), left.end());
    extend(left);
    narrow_ = false;
    budget_ = formula_.computed() + kMostComputed;
    if (!best_) extend(left);
    return std::move(best_);
  }

 private:
  bool is_one_number(size_t value) const {
    const auto& numbers = formula_[value].numbers;
    return numbers.size() > 1 && std::all_of(numbers.begin(), numbers.end(), [&](double n) { return n == numbers[0]; });
  }

  /// All leaves in one row, of which elements are picked.
  bool join_leaves() {
    std::optional<size_t> row;
    for (size_t leaf = 0; leaf < leaves_; ++leaf) {
      const auto flat = formula_.apply(ir::core("reshape"), {leaf}, {{"shape", ir::Shape{ir::Dim(-1)}}});
      if (!flat) return false;
      row = row ? formula_.apply(ir::core("concat"), {*row, *flat}, {{"axis", ir::Dim(0)}}) : flat;
      if (!row) return false;
    }
    picks_ = true;
    seen_.push_back(*row);
    return true;
  }

  bool exhausted() const { return formula_.computed() > budget_; }

  bool extend(const Left& left) {
    if (exhausted()) return true;
    if (finish(left)) return true;
    for (size_t i = 0; i < left.size(); ++i) {
      if (i > 0 && left[i] == left[i - 1]) continue;
      Left others = left;
      others.erase(others.begin() + static_cast<ptrdiff_t>(i));
      const auto joins = std::count_if(others.begin(), others.end(), [](const KnownStep* step) {
        return step->step >= Step::kAdd && step->step <= Step::kProduct;
      });
      const size_t before = std::exchange(joins_left_, static_cast<size_t>(joins));
      const bool done = each_way(*left[i], [&] { return extend(others); });
      joins_left_ = before;
      if (done) return true;
    }
    return false;
  }

  /// Results of steps that nothing reads yet, but for `a` and `b`.
  size_t unread(size_t a, size_t b) const {
    return static_cast<size_t>(std::count_if(seen_.begin(), seen_.end(), [&](size_t value) {
      return value >= leaves_ && value != a && value != b && formula_[value].uses == 0;
    }));
  }
  /// Whether what is then left unread can still be put together.
  bool affordable(size_t a, size_t b) const { return unread(a, b) <= joins_left_; }

  bool finish(const Left& left) {
    const size_t last = seen_.back();
    if (last < leaves_) return std::any_of(seen_.begin(), seen_.end(), [&](size_t leaf) { return finish(left, leaf); });
    return unread(last, last) == 0 && finish(left, last);
  }

  bool finish(const Left& left, size_t value) {
    const bool scales = std::all_of(left.begin(), left.end(), [](const KnownStep* step) {
      return step->step == Step::kAdd || step->step == Step::kMultiply || step->step == Step::kNegate;
    });
    const size_t before = formula_.size();
    const auto fits = [&](std::optional<size_t> result) {
      const bool done = keep(result);
      formula_.shrink(before);
      return done;
    };
    if (left.empty() && fits(fit_layout(formula_, value, target_))) return true;
    if (left.empty() && picks_ && !one_number_ && fits(fit_picked(formula_, value, target_))) return true;
    if (left.empty() && masks_ && fits(fit_masked(formula_, value, target_))) return true;
    if (!left.empty() && scales && fits(fit_scaled(formula_, value, target_))) return true;
    if (left.size() != 1 || !question_.lost_constant) return false;
    const bool adds = left[0]->step == Step::kAdd;
    if (!adds && left[0]->step != Step::kMultiply) return false;
    return fits(fit_unknown(formula_, value, target_, adds ? Unknown::kTerm : Unknown::kFactor));
  }

  /// Notes what was found; true: no other formula can be nearer.
  bool keep(std::optional<size_t> result) {
    if (!result) return false;
    const double off = distance(formula_[*result].numbers, target_.numbers);
    if (off < nearest_) {
      nearest_ = off;
      best_ = formula_.formula_of(*result);
    }
    return off <= target_.tolerance / 20;
  }

  bool each_way(const KnownStep& step, const Next& next) {
    for (size_t i = seen_.size(); i-- > 0;) {
      if (each_way(step, seen_[i], next)) return true;
    }
    return false;
  }

  bool each_way(const KnownStep& step, size_t value, const Next& next) {
    const bool alone = step.step < Step::kAdd;
    if (alone && (!affordable(value, value) || (narrow_ && !is_fresh(value)))) return false;
    switch (step.step) {
      case Step::kUnary:
      case Step::kNegate:
        return attempt([&] { return formula_.apply(ir::core(step.core), {value}); }, next);
      case Step::kSquare:
        return attempt([&] { return formula_.apply(ir::core("mul"), {value, value}); }, next);
      case Step::kPower:
        return powers(value, next);
      case Step::kClamp:
        return clamps(value, next);
      case Step::kReduce:
      case Step::kNorm:
      case Step::kSpread:
        return over_axes(step, value, next);
      case Step::kSoftmax:
        return over_one_axis(step, value, next);
      case Step::kAdd:
        return with_number(step, value, kTerms, next) || with_other(step, value, next);
      case Step::kMultiply:
        return with_other(step, value, next) || with_number(step, value, kFactors, next);
      case Step::kExtreme:
      case Step::kProduct:
        return with_other(step, value, next);
      default:
        return false;
    }
  }

  template <class Make>
  bool attempt(const Make& make, const Next& next) {
    if (exhausted()) return true;
    const size_t before = formula_.size();
    const std::optional<size_t> made = make();
    if (made) seen_.push_back(*made);
    const bool done = made && is_informative() && next();
    if (made) seen_.pop_back();
    formula_.shrink(before);
    return done;
  }

  /// Whether the last value is made of numbers, and not of one number repeated.
  bool is_informative() const {
    const auto& numbers = formula_[formula_.size() - 1].numbers;
    return (one_number_ || !is_one_number(formula_.size() - 1)) &&
           std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); });
  }

  ir::DType dtype() const { return target_.tensor.type.dtype; }

  bool powers(size_t value, const Next& next) {
    const auto square = [&] { return formula_.apply(ir::core("mul"), {value, value}); };
    if (attempt(square, next)) return true;
    return std::any_of(kExponents.begin() + 1, kExponents.end(), [&](double exponent) {
      return attempt(
          [&] {
            return formula_.apply(ir::core("pow"), {value, formula_.add_scalar(dtype(), exponent)});
          },
          next);
    });
  }

  /// The bounds are the smallest and the largest number of the target, where it is cut there, or nothing reaches them.
  bool clamps(size_t value, const Next& next) {
    const auto [low, high] = std::minmax_element(target_.numbers.begin(), target_.numbers.end());
    const auto& numbers = formula_[value].numbers;
    const double lowest = *std::min_element(numbers.begin(), numbers.end());
    const double highest = *std::max_element(numbers.begin(), numbers.end());
    ir::Attributes cut;
    if (lowest < *low) cut.set("min", *low);
    if (highest > *high) cut.set("max", *high);
    const ir::Attributes unreached{{"min", kLeast}};
    if (lowest > kLeast && attempt([&] { return formula_.apply(ir::core("clamp"), {value}, unreached); }, next))
      return true;
    return !cut.empty() && attempt([&] { return formula_.apply(ir::core("clamp"), {value}, cut); }, next);
  }

  bool over_axes(const KnownStep& step, size_t value, const Next& next) {
    const size_t rank = formula_.shape(value).size();
    if (one_number_ || rank == 0 || rank > 4) return false;
    for (const uint32_t chosen : sets_of_axes(rank)) {
      if (axes_ && axes_->first == rank && axes_->second != chosen) continue;
      ir::Shape axes;
      for (size_t axis = 0; axis < rank; ++axis) {
        if ((chosen >> axis & 1U) != 0) axes.emplace_back(static_cast<int64_t>(axis));
      }
      const bool first = !axes_;
      if (first) axes_ = {rank, chosen};
      const bool done = over(step, value, axes, next);
      if (first) axes_.reset();
      if (done) return true;
    }
    return false;
  }

  bool over(const KnownStep& step, size_t value, const ir::Shape& axes, const Next& next) {
    const ir::Shape shape = formula_.shape(value);
    const auto is_one = [&](const ir::Dim& axis) { return shape[static_cast<size_t>(axis.constant())] == ir::Dim(1); };
    if (std::all_of(axes.begin(), axes.end(), is_one)) return false;
    const ir::Attributes attributes{{"axes", axes}, {"keepdim", true}};
    if (step.step == Step::kReduce)
      return attempt([&] { return formula_.apply(ir::core(step.core), {value}, attributes); }, next);
    if (step.step == Step::kSpread) {
      return attempt([&] { return spread(step, value, attributes, true); }, next) ||
             attempt([&] { return spread(step, value, attributes, false); }, next);
    }
    const auto euclidean = [&]() -> std::optional<size_t> {
      const auto square = formula_.apply(ir::core("mul"), {value, value});
      const auto sum = square ? formula_.apply(ir::core("sum"), {*square}, attributes) : square;
      return sum ? formula_.apply(ir::core("sqrt"), {*sum}) : sum;
    };
    const auto absolute = [&]() -> std::optional<size_t> {
      const auto sizes = formula_.apply(ir::core("abs"), {value});
      return sizes ? formula_.apply(ir::core("sum"), {*sizes}, attributes) : sizes;
    };
    return attempt(euclidean, next) || attempt(absolute, next);
  }

  /// Squares of distances to the mean over their number, or over one less.
  std::optional<size_t> spread(const KnownStep& step, size_t value, const ir::Attributes& attributes, bool corrected) {
    const auto mean = formula_.apply(ir::core("mean"), {value}, attributes);
    const auto off = mean ? formula_.apply(ir::core("sub"), {value, *mean}) : mean;
    const auto square = off ? formula_.apply(ir::core("mul"), {*off, *off}) : off;
    auto made = square ? formula_.apply(ir::core("mean"), {*square}, attributes) : square;
    if (!made) return made;
    const auto count = static_cast<double>(formula_[value].numbers.size()) /
                       static_cast<double>(std::max<size_t>(formula_[*made].numbers.size(), 1));
    if (corrected && count < 2) return std::nullopt;
    if (corrected) made = formula_.apply(ir::core("mul"), {*made, formula_.add_scalar(dtype(), count / (count - 1))});
    return made && !step.core.empty() ? formula_.apply(ir::core(step.core), {*made}) : made;
  }

  bool over_one_axis(const KnownStep& step, size_t value, const Next& next) {
    const size_t rank = one_number_ ? 0 : formula_.shape(value).size();
    for (size_t axis = rank; axis-- > 0;) {
      const ir::Attributes attributes{{"axis", ir::Dim(static_cast<int64_t>(axis))}};
      if (attempt([&] { return formula_.apply(ir::core(step.core), {value}, attributes); }, next)) return true;
    }
    return false;
  }

  std::optional<size_t> turned(size_t value) {
    if (formula_.shape(value).size() != 2) return std::nullopt;
    return formula_.apply(ir::core("permute"), {value}, {{"dims", ir::Shape{1, 0}}});
  }

  bool is_fresh(size_t value) const { return value < leaves_ || formula_[value].uses == 0; }
  bool is_unread(size_t value) const { return value >= leaves_ && formula_[value].uses == 0; }
  /// Two leaves, or one that is turned, or a value that nothing reads yet: most values are read once.
  bool likely(size_t a, size_t b) const {
    if (!is_fresh(a) || !is_fresh(b)) return false;
    return is_unread(a) || is_unread(b) || (a < leaves_ && b < leaves_ && (a != b || turns_));
  }

  /// Either operand may be turned before.
  bool with_other(const KnownStep& step, size_t value, const Next& next) {
    const auto made = [&](std::optional<size_t> a, std::optional<size_t> b) {
      return a && b ? formula_.apply(ir::core(step.core), {*a, *b}) : std::nullopt;
    };
    for (size_t i = seen_.size(); i-- > 0;) {
      const size_t other = seen_[i];
      if (other > value || !affordable(value, other)) continue;
      if (narrow_ && !likely(value, other)) continue;
      for (const auto& [a, b] : {std::pair(value, other), std::pair(other, value)}) {
        if (attempt([&, a = a, b = b] { return made(a, b); }, next)) return true;
        if (!turns_ && (value == other || step.commutes)) break;
        if (!turns_) continue;
        if (attempt([&, a = a, b = b] { return made(a, turned(b)); }, next)) return true;
        if (attempt([&, a = a, b = b] { return made(turned(a), b); }, next)) return true;
      }
    }
    return false;
  }

  bool with_number(const KnownStep& step, size_t value, std::span<const double> among, const Next& next) {
    if (!affordable(value, value) || (narrow_ && (!step.commutes || !is_unread(value)))) return false;
    const auto& numbers = formula_[value].numbers;
    const bool positive = value >= leaves_ && *std::min_element(numbers.begin(), numbers.end()) >= 0;
    return std::any_of(among.begin(), among.end(), [&](double number) {
      constexpr double kSmall = 0.1;
      if (number < kSmall && !positive) return false;  // it keeps a divisor from 0
      const auto after = [&] {
        return formula_.apply(ir::core(step.core), {value, formula_.add_scalar(dtype(), number)});
      };
      const auto before = [&] {
        const size_t constant = formula_.add_scalar(dtype(), number);
        return formula_.apply(ir::core(step.core), {constant, value});
      };
      return attempt(after, next) || (!step.commutes && attempt(before, next));
    });
  }

  const FormulaQuestion& question_;
  const FormulaTarget target_;
  ComputedFormula formula_;
  const size_t leaves_;
  std::vector<size_t> seen_;  // leaves and results of steps, in order: what steps may read
  size_t joins_left_ = 0;     // steps that read two values
  bool narrow_ = true;        // likely ways alone
  size_t budget_ = kMostComputed;
  bool picks_ = false, joins_ = false, masks_ = false, turns_ = false, one_number_ = false;
  std::optional<std::pair<size_t, uint32_t>> axes_;  // rank and axes of all sums
  std::optional<Formula> best_;
  double nearest_ = std::numeric_limits<double>::infinity();
};

double tolerance_of(ir::DType dtype) {
  if (dtype == ir::DType::kF64) return 1e-11;
  return dtype == ir::DType::kF32 ? 1e-5 : 1e-2;
}

}  // namespace

std::optional<Formula> find_formula(const FormulaQuestion& question, const Evaluator* evaluator) {
  ComputedFormula formula(evaluator), target(evaluator);
  if (!target.add_leaf(question.target)) return std::nullopt;
  for (const ir::StoredTensor& leaf : question.leaves) {
    if (!formula.add_leaf(leaf) || leaf.type.dtype != question.target.type.dtype) return std::nullopt;
  }
  const FormulaTarget wanted{target[0].tensor, target[0].numbers, tolerance_of(question.target.type.dtype)};
  return Search(question, wanted, std::move(formula)).run();
}

}  // namespace rannc::passes
