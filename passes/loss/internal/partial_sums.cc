#include "passes/loss/internal/partial_sums.h"

#include <algorithm>
#include <string>

#include "ir/match/match.h"
#include "ir/op/foreign.h"
#include "ir/op/op.h"
#include "passes/loss/internal/divisors.h"

namespace rannc::passes {

namespace {

using ir::Capture;
using ir::Dim;
using ir::Graph;
using ir::LossTerm;
using ir::Match;
using ir::Mix;
using ir::Pattern;

constexpr Capture kX{0}, kY{1};
constexpr int kMostSteps = 200;

// Returns whether the summed parts depend on the number of samples, for example by a division: it differs between a
// micro-batch and the mini-batch.
bool depends_on_count(const Graph& graph, ValueId sum) {
  std::vector<bool> seen(graph.value_count());
  std::vector<ValueId> open = {sum};
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (seen[value.index()]) continue;
    seen[value.index()] = true;
    const TaskId task = graph.producer(value);
    if (!task.valid()) continue;
    const auto operands = graph.inputs(task);
    for (size_t i = 0; i < operands.size(); ++i) {
      const ir::Role role = graph.op(task).known() ? graph.op(task).operand(i).role : ir::Role::kData;
      if (!operands[i].valid() || role == ir::Role::kSize || role == ir::Role::kShape) continue;
      const ir::ValueType& type = graph.type(operands[i]);
      if (type.batch.mix == Mix::kCounted && ir::is_float(type.dtype)) return true;
      open.push_back(operands[i]);
    }
  }
  return false;
}

class PartialSums {
 public:
  explicit PartialSums(Graph& graph) : graph_(graph) {}

  // A value of any shape, as a partial sum of that shape over a denominator.
  std::optional<LossTerm> of(ValueId value) {
    const ir::ValueType& type = graph_.type(value);
    if (!type.shape || type.batch.has_batch() || ++steps_ > kMostSteps) return std::nullopt;
    if (type.batch.is_partial()) return of_partial(value);
    if (!graph_.producer(value).valid() || type.batch.mix != Mix::kMixed) return std::nullopt;
    static const Pattern kMean = ir::op("mean", ir::any(kX));
    static const Pattern kQuotient = ir::op("div", ir::any(kX), ir::any(kY));
    static const Pattern kSum = ir::op({"add", "sub"}, ir::any(kX), ir::any(kY));
    static const Pattern kProduct = ir::commutative(ir::op("mul", ir::any(kX), ir::any(kY)));
    const auto mean = ir::match(graph_, value, kMean);
    if (mean && graph_.type((*mean)[kX]).batch.has_batch()) return of_mean(value, (*mean)[kX]);
    if (const auto found = ir::match(graph_, value, kQuotient)) return of_quotient(value, *found);
    if (const auto found = ir::match(graph_, value, kSum)) return of_sum(value, *found);
    if (const auto found = ir::match(graph_, value, kProduct)) {
      const bool first = is_fixed((*found)[kY]);
      if (!first && !is_fixed((*found)[kX])) return std::nullopt;
      return again(value, first ? (*found)[kX] : (*found)[kY]);
    }
    return again(value, graph_.inputs(graph_.producer(value))[0]);
  }

 private:
  // The same in every micro-batch.
  bool is_fixed(ValueId value) const {
    const ir::BatchLayout& layout = graph_.type(value).batch;
    return !layout.has_batch() && layout.mix == Mix::kNone;
  }

  // Rebuilds the task that makes `value` on other operands, if that gives a partial sum.
  std::optional<ValueId> rebuilt(ValueId value, std::string_view op, std::vector<ValueId> operands,
                                 const ir::Attributes& attributes) {
    const std::vector<std::string> names = {std::string(graph_.value(value).name) + ".sum"};
    const Location where = graph_.location(graph_.producer(value));
    const TaskId task = graph_.add_task(ir::core(op), operands, attributes, names, where);
    const ValueId made = graph_.outputs(task)[0];
    if (!ir::infer_types(graph_, task).ok() || !graph_.type(made).batch.is_partial()) return std::nullopt;
    return made;
  }

  // What is summed may have been divided by the number of samples before, each part by itself.
  std::optional<LossTerm> of_partial(ValueId value) {
    if (!depends_on_count(graph_, value)) return LossTerm{value};
    static const Pattern kParts = ir::op("sum", ir::op("div", ir::any(kX), ir::any(kY)));
    static const Pattern kSum = ir::op({"add", "sub"}, ir::any(kX), ir::any(kY));
    if (const auto found = ir::match(graph_, value, kParts)) {
      const ir::ValueType& by = graph_.type((*found)[kY]);
      if (by.batch.mix != Mix::kCounted || !(ir::element_count(*by.shape) == Dim(1))) return std::nullopt;
      auto term = divisor(graph_, (*found)[kY]);
      const ir::Attributes attributes = graph_.attributes(graph_.producer(value));
      const auto sum = term ? rebuilt(value, "sum", {(*found)[kX]}, attributes) : std::nullopt;
      if (!sum || depends_on_count(graph_, *sum)) return std::nullopt;
      term->numerator = *sum;
      return term;
    }
    if (const auto found = ir::match(graph_, value, kSum)) return of_sum(value, *found);
    for (const ValueId operand : graph_.inputs(graph_.producer(value))) {
      if (operand.valid() && graph_.type(operand).batch.is_partial()) return again(value, operand);
    }
    return std::nullopt;
  }

  std::optional<LossTerm> of_mean(ValueId value, ValueId x) {
    const ir::Shape shape = *graph_.type(x).shape;
    const ir::Attributes attributes = graph_.attributes(graph_.producer(value));
    Dim count = 1;
    const std::vector<int64_t> axes = attributes.integers("axes");
    for (size_t i = 0; i < shape.size(); ++i) {
      const auto from_end = static_cast<int64_t>(i) - static_cast<int64_t>(shape.size());
      const auto is_axis = [&](int64_t axis) { return axis == static_cast<int64_t>(i) || axis == from_end; };
      if (!attributes.has("axes") || std::any_of(axes.begin(), axes.end(), is_axis)) count = count * shape[i];
    }
    auto term = divisor(graph_, count);
    const auto sum = term ? rebuilt(value, "sum", {x}, attributes) : std::nullopt;
    if (!sum) return std::nullopt;
    term->numerator = *sum;
    return term;
  }

  std::optional<LossTerm> of_quotient(ValueId value, const Match& found) {
    if (is_fixed(found[kY])) return again(value, found[kX]);
    const auto part = of(found[kX]);
    auto per = divisor(graph_, found[kY]);
    if (!part || !per || part->denominator != LossTerm::Denominator::kOne) return std::nullopt;
    const ir::Shape &whole = *graph_.type(value).shape, &mine = *graph_.type(part->numerator).shape;
    if (whole != mine && !(ir::element_count(whole) == Dim(1))) return std::nullopt;
    per->numerator = part->numerator;
    per->weight *= part->weight;
    return per;
  }

  // Of sums over the same denominator.
  std::optional<LossTerm> of_sum(ValueId value, const Match& found) {
    auto a = of(found[kX]);
    const auto b = of(found[kY]);
    if (!a || !b) return std::nullopt;
    LossTerm compared = *b;
    compared.numerator = a->numerator;
    if (!(compared == *a)) return std::nullopt;
    return over(value, *std::move(a), {a->numerator, b->numerator});
  }

  // The task on the partial sum that its operand `through` is.
  std::optional<LossTerm> again(ValueId value, ValueId through) {
    if (!through.valid()) return std::nullopt;
    auto part = of(through);
    if (!part) return std::nullopt;
    std::vector<ValueId> operands;
    for (const ValueId operand : graph_.inputs(graph_.producer(value))) {
      operands.push_back(operand == through ? part->numerator : operand);
    }
    return over(value, *std::move(part), std::move(operands));
  }

  std::optional<LossTerm> over(ValueId value, LossTerm part, std::vector<ValueId> operands) {
    const TaskId task = graph_.producer(value);
    // Whether a foreign operator is homogeneous is not known.
    if (graph_.outputs(task).size() != 1 || !graph_.op(task).known() || ir::is_foreign(graph_.op(task))) {
      return std::nullopt;
    }
    const std::string op = graph_.op(task).name.substr(graph_.op(task).name.find('.') + 1);
    const auto made = rebuilt(value, op, std::move(operands), ir::Attributes(graph_.attributes(task)));
    if (!made) return std::nullopt;
    part.numerator = *made;
    return part;
  }

  Graph& graph_;
  int steps_ = 0;
};

Location where(const Graph& graph, ValueId value) {
  return graph.producer(value).valid() ? graph.location(graph.producer(value)) : Location{};
}

ValueId scalar(Graph& graph, ValueId value, ValueId loss) {
  if (graph.type(value).shape->empty()) return value;
  const ValueId made = graph.add(ir::core("reshape"), {value}, {{"shape", ir::Shape{}}},
                                 std::string(graph.value(loss).name) + ".scalar", where(graph, loss));
  RANNC_CHECK(ir::infer_types(graph, graph.producer(made)).ok()) << "one element is a scalar";
  return made;
}

// A value without samples counts once: it is summed over the samples and divided by their number.
std::optional<LossTerm> once(Graph& graph, ValueId loss) {
  const std::string name(graph.value(loss).name);
  if (graph.batch_symbol().empty()) {
    return graph.producer(loss).valid() ? std::optional(LossTerm{scalar(graph, loss, loss)}) : std::nullopt;
  }
  const ir::Shape samples = {Dim::symbol(graph.batch_symbol())};
  const ValueId each = graph.add(ir::core("expand"), {scalar(graph, loss, loss)}, {{"shape", samples}}, name + ".each",
                                 where(graph, loss));
  if (!ir::infer_types(graph, graph.producer(each)).ok()) return std::nullopt;
  const ValueId sum = graph.add(ir::core("sum"), {each}, {}, name + ".sum", where(graph, loss));
  if (!ir::infer_types(graph, graph.producer(sum)).ok()) return std::nullopt;
  return LossTerm{sum, 1, LossTerm::Denominator::kSamples};
}

}  // namespace

std::optional<LossTerm> partial_sum(Graph& graph, ValueId loss) {
  const ir::ValueType& type = graph.type(loss);
  if (!type.shape || !ir::is_float(type.dtype)) return std::nullopt;
  if (!(ir::element_count(*type.shape) == Dim(1)) || type.batch.has_batch()) return std::nullopt;
  if (type.batch.mix == Mix::kNone) return once(graph, loss);
  auto term = PartialSums(graph).of(loss);
  if (term && depends_on_count(graph, term->numerator)) return std::nullopt;
  if (term) term->numerator = scalar(graph, term->numerator, loss);
  return term;
}

}  // namespace rannc::passes
