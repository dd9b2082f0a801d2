#include "frontend/onnx/internal/control/counted_trips.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "frontend/onnx/internal/model/scan.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

/// Limits on the depth and number of nodes to follow.
constexpr int kDeepestSum = 64, kMostNodesOfSums = 4096;
/// Larger numbers and factors might overflow in sums and products.
constexpr int64_t kLargest = int64_t{1} << 40, kLargestFactor = 1024;
constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

/// The sum of `start`, multiples of states before the trip, and `trips` times the trip number.
struct Sum {
  ir::Dim start = 0;
  std::map<size_t, int64_t> states = {};
  int64_t trips = 0;
};

bool is_number(const Sum& sum) { return sum.states.empty() && sum.trips == 0 && sum.start.is_constant(); }

/// Whether a sum is a factor that cannot cause overflow.
bool is_factor(const Sum& sum) { return is_number(sum) && std::abs(sum.start.constant()) <= kLargestFactor; }

bool is_small(const Sum& sum) {
  const auto within = [](int64_t number) { return std::abs(number) <= kLargest; };
  const bool counts =
      std::all_of(sum.states.begin(), sum.states.end(), [&](const auto& s) { return within(s.second); });
  return counts && within(sum.trips) && (!sum.start.is_constant() || within(sum.start.constant()));
}

Sum added(const Sum& a, const Sum& b, int64_t times) {
  Sum sum = a;
  sum.start = sum.start + b.start * ir::Dim(times);
  sum.trips += b.trips * times;
  for (const auto& [state, count] : b.states) {
    if ((sum.states[state] += count * times) == 0) sum.states.erase(state);
  }
  return sum;
}

/// Sums that must all be positive.
using AllPositive = std::vector<Sum>;

/// Returns the minimum over symbols of at least 1. Nothing unless the sum is nondecreasing in every symbol.
std::optional<int64_t> least(const ir::Dim& dim) {
  std::set<std::string> symbols;
  dim.collect_symbols(symbols);
  ir::Bindings ones;
  for (const std::string& symbol : symbols) {
    ones[symbol] = 1;
    const ir::Dim step = dim.substitute(symbol, ir::Dim::symbol(symbol) + ir::Dim(1)) - dim;
    if (!step.is_constant() || step.constant() < 0) return std::nullopt;
  }
  return dim.evaluate(ones);
}

class Counting {
 public:
  explicit Counting(const CountingLoop& loop) : loop_(loop) {
    for (int i = 0; i < loop.body.input_size(); ++i) formals_.emplace(loop.body.input(i).name(), i);
    for (const TensorProto& tensor : loop.body.initializer()) stored_.emplace(tensor.name(), &tensor);
    for (const NodeProto& node : loop.body.node()) {
      for (const std::string& output : node.output()) made_.emplace(output, &node);
    }
  }

  std::optional<ir::Dim> trips() {
    const auto all = condition(loop_.body.output(0).name(), 0);
    if (!all) return std::nullopt;
    std::optional<ir::Dim> trips;
    for (const Sum& sum : *all) {
      const auto rate = by_trip(sum);
      if (!rate) return std::nullopt;
      const auto own = trips_above_zero(rate->first, rate->second);
      if (!own) return std::nullopt;
      if (*own == ir::Dim(kEndless)) continue;
      trips = trips ? min(*trips, *own) : *own;
    }
    return trips;
  }

 private:
  static bool is_above(const NodeProto& node) { return node.op_type().starts_with("Greater"); }

  std::optional<Sum> sum(const std::string& name, int depth) {
    if (depth > kDeepestSum || ++nodes_ > kMostNodesOfSums) return std::nullopt;
    if (const auto formal = formals_.find(name); formal != formals_.end()) {
      if (formal->second == 0) return Sum{0, {}, 1};
      if (formal->second == 1) return std::nullopt;
      return Sum{0, {{static_cast<size_t>(formal->second) - 2, 1}}, 0};
    }
    if (const auto tensor = stored_.find(name); tensor != stored_.end()) return number(loop_.stored(*tensor->second));
    if (const auto node = made_.find(name); node != made_.end()) return sum_of(*node->second, depth + 1);
    return number(loop_.around(name));
  }

  static std::optional<Sum> number(const std::optional<ir::Dim>& known) {
    if (!known || (known->is_constant() && std::abs(known->constant()) > kLargest)) return std::nullopt;
    return Sum{*known};
  }

  std::optional<Sum> sum_of(const NodeProto& node, int depth) {
    const std::string_view op = node.op_type();
    if (op == "Constant") return number(constant(node));
    if (node.input_size() < 1) return std::nullopt;
    if (op == "Identity" || op == "Squeeze" || op == "Unsqueeze" || op == "Reshape" || (op == "Cast" && keeps(node)))
      return sum(node.input(0), depth);
    // A cast to the type of another count, which is an integer.
    if (op == "CastLike" && node.input_size() == 2 && sum(node.input(1), depth)) return sum(node.input(0), depth);
    if (node.input_size() != 2 || (op != "Add" && op != "Sub" && op != "Mul")) return std::nullopt;
    const auto a = sum(node.input(0), depth), b = sum(node.input(1), depth);
    if (!a || !b) return std::nullopt;
    if (op == "Mul" && (!(is_factor(*a) ? b : a)->start.is_constant() || (!is_factor(*a) && !is_factor(*b))))
      return std::nullopt;
    const Sum made = op != "Mul"     ? added(*a, *b, op == "Add" ? 1 : -1)
                     : is_factor(*a) ? added({}, *b, a->start.constant())
                                     : added({}, *a, b->start.constant());
    return is_small(made) ? std::optional(made) : std::nullopt;
  }

  std::optional<ir::Dim> constant(const NodeProto& node) const {
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == "value" && attribute.has_t()) return loop_.stored(attribute.t());
      if (attribute.name() == "value_int" && attribute.ref_attr_name().empty()) return ir::Dim(attribute.i());
    }
    return std::nullopt;
  }

  /// Whether a cast is to i32 or i64.
  static bool keeps(const NodeProto& node) {
    return std::any_of(node.attribute().begin(), node.attribute().end(), [](const auto& attribute) {
      return attribute.name() == "to" && (attribute.i() == TensorProto::INT64 || attribute.i() == TensorProto::INT32);
    });
  }

  std::optional<AllPositive> condition(const std::string& name, int depth) {
    if (depth > kDeepestSum || ++nodes_ > kMostNodesOfSums) return std::nullopt;
    if (const auto formal = formals_.find(name); formal != formals_.end()) {
      return formal->second == 1 ? std::optional(AllPositive{}) : std::nullopt;
    }
    const auto found = made_.find(name);
    if (found == made_.end()) return std::nullopt;
    const NodeProto& node = *found->second;
    const std::string_view op = node.op_type();
    if (op == "Identity" || op == "Squeeze" || op == "Unsqueeze" || op == "Reshape" || op == "Cast")
      return node.input_size() < 1 ? std::nullopt : condition(node.input(0), depth + 1);
    if (op == "Not" && node.input_size() == 1) return negated(node.input(0), depth + 1);
    if (node.input_size() != 2) return std::nullopt;
    if (op == "And") {
      auto all = condition(node.input(0), depth + 1);
      const auto more = condition(node.input(1), depth + 1);
      if (!all || !more || all->size() + more->size() > kDeepestSum) return std::nullopt;
      all->insert(all->end(), more->begin(), more->end());
      return all;
    }
    return compared(node, depth + 1);
  }

  /// Converts a < b, a <= b, a > b or a >= b to a positive difference.
  std::optional<AllPositive> compared(const NodeProto& node, int depth) {
    const std::string_view op = node.op_type();
    if (op != "Less" && op != "LessOrEqual" && op != "Greater" && op != "GreaterOrEqual") return std::nullopt;
    const auto a = sum(node.input(0), depth), b = sum(node.input(1), depth);
    if (!a || !b) return std::nullopt;
    Sum above = is_above(node) ? added(*a, *b, -1) : added(*b, *a, -1);
    if (op.ends_with("OrEqual")) above.start = above.start + ir::Dim(1);
    return AllPositive{above};
  }

  /// Converts a negated comparison. Numbers that approach each other by 1 per trip are unequal until they meet.
  std::optional<AllPositive> negated(const std::string& name, int depth) {
    const auto found = made_.find(name);
    if (found == made_.end() || found->second->input_size() != 2) return std::nullopt;
    const NodeProto& node = *found->second;
    if (node.op_type() != "Equal") {
      const auto positive = compared(node, depth);
      if (!positive) return std::nullopt;
      return AllPositive{added({1}, positive->front(), -1)};
    }
    const auto a = sum(node.input(0), depth), b = sum(node.input(1), depth);
    if (!a || !b) return std::nullopt;
    const Sum apart = added(*a, *b, -1);
    const auto rate = by_trip(apart);
    if (!rate || std::abs(rate->second) != 1) return std::nullopt;
    const bool falls = rate->second < 0;
    const auto lowest = least(falls ? rate->first : ir::Dim(0) - rate->first);
    if (!lowest || *lowest < 0) return std::nullopt;
    return AllPositive{falls ? apart : added({}, apart, -1)};
  }

  /// Increment of a state per trip, if it is a constant.
  std::optional<int64_t> step(size_t state) {
    const auto known = steps_.find(state);
    if (known != steps_.end()) return known->second;
    std::optional<int64_t> step;
    if (static_cast<int>(state) + 1 < loop_.body.output_size()) {
      const auto after = sum(loop_.body.output(static_cast<int>(state) + 1).name(), 0);
      const Sum own{0, {{state, 1}}, 0};
      if (after) {
        const Sum more = added(*after, own, -1);
        if (is_number(more)) step = more.start.constant();
      }
    }
    return steps_[state] = step;
  }

  /// Rewrites a sum as `first + second * trip`.
  std::optional<std::pair<ir::Dim, int64_t>> by_trip(const Sum& sum) {
    std::pair<ir::Dim, int64_t> rate{sum.start, sum.trips};
    for (const auto& [state, times] : sum.states) {
      const auto own = step(state);
      if (!own || state >= loop_.states.size() || !loop_.states[state]) return std::nullopt;
      rate.first = rate.first + *loop_.states[state] * ir::Dim(times);
      rate.second += *own * times;
    }
    return rate;
  }

  /// Number of trips through the first at whose end `start + rate * trip` is not positive. Nothing: unknown.
  static std::optional<ir::Dim> trips_above_zero(const ir::Dim& start, int64_t rate) {
    const auto lowest = least(start);
    if (rate >= 0 && lowest && *lowest > 0) return ir::Dim(kEndless);
    if (rate >= 0) return start.is_constant() ? std::optional(ir::Dim(1)) : std::nullopt;
    const ir::Dim above = rate == -1 ? start : floor_div(start + ir::Dim(-rate - 1), ir::Dim(-rate));
    return ir::Dim(1) + (lowest && *lowest >= 0 ? above : max(above, ir::Dim(0)));
  }

  const CountingLoop& loop_;
  std::map<std::string_view, int> formals_;
  std::map<std::string_view, const TensorProto*> stored_;
  std::map<std::string_view, const NodeProto*> made_;
  std::map<size_t, std::optional<int64_t>> steps_;
  int nodes_ = 0;
};

}  // namespace

std::optional<ir::Dim> counted_trips(const CountingLoop& loop) {
  if (loop.body.input_size() < 2 || loop.body.output_size() < 1) return std::nullopt;
  return Counting(loop).trips();
}

}  // namespace rannc::frontend
