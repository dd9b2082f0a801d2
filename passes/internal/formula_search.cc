#include "passes/internal/formula_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "passes/internal/formula_fits.h"
#include "passes/internal/tensor_origins.h"

namespace rannc::passes {

namespace {

/// What an operator of ATen is to the search.
enum class Step : uint8_t {
  kUnary,   ///< a core operator of the same name
  kNegate,
  kSquare,
  kPower,
  kClamp,
  kReduce,  ///< a core operator of the same name, over axes
  kNorm,
  kSpread,  ///< variance or standard deviation
  kSoftmax,
  kAdd,  ///< or a difference
  kMultiply,
  kExtreme,
  kProduct,
  kLayout,  ///< the same elements: seen to at the end, where broadcasting does not do without
  kPick,    ///< some of the elements, at constant places
  kJoin,
  kMask,
  kConstant,  ///< makes numbers of none
};

struct KnownStep {
  std::string_view aten;
  Step step;
  std::string_view core = {};
};

constexpr KnownStep kSteps[] = {
    {"abs", Step::kUnary, "abs"},
    {"neg", Step::kNegate, "neg"},
    {"exp", Step::kUnary, "exp"},
    {"log", Step::kUnary, "log"},
    {"sqrt", Step::kUnary, "sqrt"},
    {"rsqrt", Step::kUnary, "rsqrt"},
    {"reciprocal", Step::kUnary, "reciprocal"},
    {"sigmoid", Step::kUnary, "sigmoid"},
    {"tanh", Step::kUnary, "tanh"},
    {"relu", Step::kUnary, "relu"},
    {"softplus", Step::kUnary, "softplus"},
    {"sin", Step::kUnary, "sin"},
    {"cos", Step::kUnary, "cos"},
    {"erf", Step::kUnary, "erf"},
    {"silu", Step::kUnary, "silu"},
    {"gelu", Step::kUnary, "gelu"},
    {"sign", Step::kUnary, "sign"},
    {"square", Step::kSquare},
    {"pow", Step::kPower},
    {"clamp", Step::kClamp},
    {"clamp_min", Step::kClamp},
    {"sum", Step::kReduce, "sum"},
    {"mean", Step::kReduce, "mean"},
    {"amax", Step::kReduce, "amax"},
    {"amin", Step::kReduce, "amin"},
    {"linalg_vector_norm", Step::kNorm},
    {"norm", Step::kNorm},
    {"var", Step::kSpread},
    {"std", Step::kSpread, "sqrt"},
    {"softmax", Step::kSoftmax, "softmax"},
    {"_softmax", Step::kSoftmax, "softmax"},
    {"log_softmax", Step::kSoftmax, "log_softmax"},
    {"add", Step::kAdd, "add"},
    {"sub", Step::kAdd, "sub"},
    {"rsub", Step::kAdd, "sub"},
    {"mul", Step::kMultiply, "mul"},
    {"div", Step::kMultiply, "div"},
    {"maximum", Step::kExtreme, "maximum"},
    {"minimum", Step::kExtreme, "minimum"},
    {"matmul", Step::kProduct, "matmul"},
    {"mm", Step::kProduct, "matmul"},
    {"t", Step::kLayout},
    {"transpose", Step::kLayout},
    {"permute", Step::kLayout},
    {"numpy_T", Step::kLayout},
    {"view", Step::kLayout},
    {"_unsafe_view", Step::kLayout},
    {"reshape", Step::kLayout},
    {"flatten", Step::kLayout},
    {"unsqueeze", Step::kLayout},
    {"squeeze", Step::kLayout},
    {"expand", Step::kLayout},
    {"broadcast_in_dim", Step::kLayout},
    {"clone", Step::kLayout},
    {"contiguous", Step::kLayout},
    {"alias", Step::kLayout},
    {"_to_copy", Step::kLayout},
    {"slice", Step::kPick},
    {"select", Step::kPick},
    {"narrow", Step::kPick},
    {"split", Step::kPick},
    {"split_with_sizes", Step::kPick},
    {"chunk", Step::kPick},
    {"getitem", Step::kPick},
    {"index", Step::kPick},
    {"index_select", Step::kPick},
    {"gather", Step::kPick},
    {"embedding", Step::kPick},
    {"diagonal", Step::kPick},
    {"flip", Step::kPick},
    {"roll", Step::kPick},
    {"repeat", Step::kPick},
    {"tile", Step::kPick},
    {"repeat_interleave", Step::kPick},
    {"cat", Step::kJoin},
    {"stack", Step::kJoin},
    {"tril", Step::kMask},
    {"triu", Step::kMask},
    {"where", Step::kMask},
    {"masked_fill", Step::kMask},
    {"arange", Step::kConstant},
    {"ones", Step::kConstant},
    {"zeros", Step::kConstant},
    {"full", Step::kConstant},
    {"full_like", Step::kConstant},
    {"ones_like", Step::kConstant},
    {"zeros_like", Step::kConstant},
    {"scalar_tensor_default", Step::kConstant},
    {"lift_fresh_copy", Step::kConstant},
    {"eye", Step::kConstant},
};

const KnownStep* known_step(std::string_view aten) {
  const auto* const found =
      std::find_if(std::begin(kSteps), std::end(kSteps), [&](const KnownStep& step) { return step.aten == aten; });
  return found == std::end(kSteps) ? nullptr : found;
}

/// Numbers that programs write beside operands: the small ones keep divisors from 0.
constexpr std::array kTerms = {1e-5, 1e-6, 1e-8, 1e-12, 1e-7, 1e-4, 1e-3, 1e-10, 1.0};
constexpr std::array kFactors = {2.0, 0.5, 1.0};
constexpr std::array kExponents = {2.0, 0.5, -1.0, -0.5, 3.0, 4.0};
constexpr double kLeast = 1e-12;

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
  Search(const FormulaQuestion& question, FormulaTarget target, Formula formula)
      : question_(question),
        target_(std::move(target)),
        formula_(std::move(formula)),
        leaves_(formula_.size()) {}

  std::optional<FoundFormula> run() {
    Left left;
    for (const std::string& name : question_.made) {
      const KnownStep* const step = known_step(traced_op(name));
      if (step == nullptr) return std::nullopt;
      picks_ = picks_ || step->step == Step::kPick;
      joins_ = joins_ || step->step == Step::kJoin;
      masks_ = masks_ || step->step == Step::kMask;
      if (step->step < Step::kLayout) left.push_back(step);
    }
    constexpr size_t kMostSteps = 10;
    if (left.size() > kMostSteps || formula_.size() == 0) return std::nullopt;
    if (joins_ && !join_leaves()) return std::nullopt;
    for (size_t i = 0; i < leaves_; ++i) one_number_ = one_number_ || is_one_number(i);
    std::sort(left.begin(), left.end());
    extend(left);
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
    return true;
  }

  bool exhausted() const {
    constexpr size_t kMost = 5000;
    return formula_.computed() > kMost;
  }

  bool extend(const Left& left) {
    if (exhausted()) return true;
    const auto joins = std::count_if(left.begin(), left.end(), [](const KnownStep* step) {
      return step->step >= Step::kAdd && step->step <= Step::kProduct;
    });
    if (unread() > static_cast<size_t>(joins)) return false;
    if (finish(left)) return true;
    for (size_t i = 0; i < left.size(); ++i) {
      if (i > 0 && left[i] == left[i - 1]) continue;
      Left others = left;
      others.erase(others.begin() + static_cast<ptrdiff_t>(i));
      if (each_way(*left[i], [&] { return extend(others); })) return true;
    }
    return false;
  }

  /// Values that were made and that nothing reads yet but the last one.
  size_t unread() const {
    size_t count = 0;
    for (size_t i = leaves_; i + 1 < formula_.size(); ++i) count += formula_[i].op != nullptr && formula_[i].uses == 0;
    return count;
  }

  bool finish(const Left& left) {
    if (unread() > 0) return false;
    const size_t last = formula_.size() - 1, first = formula_.size() == leaves_ ? 0 : last;
    for (size_t value = first; value <= last; ++value) {
      if (finish(left, value)) return true;
    }
    return false;
  }

  bool finish(const Left& left, size_t value) {
    const bool scales = std::all_of(left.begin(), left.end(), [](const KnownStep* step) {
      return step->step == Step::kAdd || step->step == Step::kMultiply || step->step == Step::kNegate;
    });
    if (left.empty() && keep(fit_layout(formula_, value, target_))) return true;
    if (left.empty() && picks_ && !one_number_ && keep(fit_picked(formula_, value, target_))) return true;
    if (left.empty() && masks_ && keep(fit_masked(formula_, value, target_))) return true;
    if (!left.empty() && scales && keep(fit_scaled(formula_, value, target_))) return true;
    if (left.size() != 1 || !question_.lost_constant) return false;
    const bool adds = left[0]->step == Step::kAdd;
    if (!adds && left[0]->step != Step::kMultiply) return false;
    return keep(fit_unknown(formula_, value, target_, adds ? Unknown::kTerm : Unknown::kFactor));
  }

  /// Notes what was found; true: no other formula can be nearer.
  bool keep(std::optional<size_t> result) {
    if (!result) return false;
    const double off = distance(formula_[*result].numbers, target_.numbers);
    if (off < nearest_) {
      nearest_ = off;
      best_ = FoundFormula{formula_, *result};
    }
    return off <= target_.tolerance / 20;
  }

  bool each_way(const KnownStep& step, const Next& next) {
    for (size_t value = formula_.size(); value-- > 0;) {
      if (formula_[value].op == nullptr && value >= leaves_) continue;  // a constant
      if (each_way(step, value, next)) return true;
    }
    return false;
  }

  bool each_way(const KnownStep& step, size_t value, const Next& next) {
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
        return with_other(step, value, next) || with_number(step, value, kTerms, next);
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
    const bool done = make() && all_finite() && next();
    formula_.shrink(before);
    return done;
  }

  bool all_finite() const {
    const auto& numbers = formula_[formula_.size() - 1].numbers;
    return std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); });
  }

  ir::DType dtype() const { return target_.tensor.type.dtype; }

  bool powers(size_t value, const Next& next) {
    const auto square = [&] { return formula_.apply(ir::core("mul"), {value, value}); };
    if (attempt(square, next)) return true;
    return std::any_of(kExponents.begin() + 1, kExponents.end(), [&](double exponent) {
      return attempt(
          [&] { return formula_.apply(ir::core("pow"), {value, formula_.add_scalar(dtype(), exponent)}); }, next);
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
    if (corrected)
      made = formula_.apply(ir::core("mul"), {*made, formula_.add_scalar(dtype(), count / (count - 1))});
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

  /// Either operand may be turned before.
  bool with_other(const KnownStep& step, size_t value, const Next& next) {
    const auto made = [&](std::optional<size_t> a, std::optional<size_t> b) {
      return a && b ? formula_.apply(ir::core(step.core), {*a, *b}) : std::nullopt;
    };
    for (size_t other = value + 1; other-- > 0;) {
      if (formula_[other].op == nullptr && other >= leaves_) continue;
      for (const auto& [a, b] : {std::pair(value, other), std::pair(other, value)}) {
        if (attempt([&, a = a, b = b] { return made(a, b); }, next)) return true;
        if (attempt([&, a = a, b = b] { return made(a, turned(b)); }, next)) return true;
        if (attempt([&, a = a, b = b] { return made(turned(a), b); }, next)) return true;
      }
    }
    return false;
  }

  bool with_number(const KnownStep& step, size_t value, std::span<const double> among, const Next& next) {
    return std::any_of(among.begin(), among.end(), [&](double number) {
      const auto after = [&] {
        return formula_.apply(ir::core(step.core), {value, formula_.add_scalar(dtype(), number)});
      };
      const auto before = [&] {
        const size_t constant = formula_.add_scalar(dtype(), number);
        return formula_.apply(ir::core(step.core), {constant, value});
      };
      return attempt(after, next) || attempt(before, next);
    });
  }

  const FormulaQuestion& question_;
  const FormulaTarget target_;
  Formula formula_;
  const size_t leaves_;
  bool picks_ = false, joins_ = false, masks_ = false, one_number_ = false;
  std::optional<std::pair<size_t, uint32_t>> axes_;  // rank and axes of all sums
  std::optional<FoundFormula> best_;
  double nearest_ = std::numeric_limits<double>::infinity();
};

double tolerance_of(ir::DType dtype) {
  if (dtype == ir::DType::kF64) return 1e-11;
  return dtype == ir::DType::kF32 ? 1e-5 : 1e-2;
}

}  // namespace

std::optional<FoundFormula> find_formula(const FormulaQuestion& question, const Evaluator* evaluator) {
  Formula formula(evaluator), target(evaluator);
  if (!target.add_leaf(question.target)) return std::nullopt;
  for (const ir::StoredTensor& leaf : question.leaves) {
    if (!formula.add_leaf(leaf) || leaf.type.dtype != question.target.type.dtype) return std::nullopt;
  }
  const FormulaTarget wanted{target[0].tensor, target[0].numbers, tolerance_of(question.target.type.dtype)};
  return Search(question, wanted, std::move(formula)).run();
}

}  // namespace rannc::passes
