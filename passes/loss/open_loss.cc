#include "passes/loss/open_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "passes/loss/attach_loss.h"
#include "passes/loss/internal/partial_sums.h"

namespace rannc::passes {

namespace {

using ir::Graph;
using ir::LossTerm;

constexpr ir::Capture kTerm{0}, kOther{1}, kNumber{2};
constexpr ir::Capture kSum{3}, kLossLabels{4}, kIgnored{5};
constexpr ir::Capture kDifference{6}, kPrediction{7}, kTarget{8}, kJoined{9};

// Labels may be cast where their values are compared, never where they are counted.
bool counts_what_is_summed(const ir::Match& found) {
  const int64_t ignored = found.attributes(kSum).integer("ignore_index", -100);
  return found.number(kIgnored) == static_cast<double>(ignored);
}

// cross_entropy_sum(logits, labels) / sum(cast(labels != ignored)).
ir::Pattern mean_of_cross_entropies() {
  using namespace ir;
  const Pattern labels = through({"identity", "cast"}, input(kTarget)).as(kLossLabels);
  const Pattern counted = through("cast", op("ne", same(kLossLabels), constant(kIgnored)));
  return op("div", op("cross_entropy_sum", any(), labels).as(kSum), op("sum", counted).without("axes"))
      .where(counts_what_is_summed);
}

// Whether a mean of squares runs over all axes: no list of them, or as many as the target has.
bool folds_all(const ir::Match& found) {
  const ir::Attributes& mean = found.graph().attributes(found.tasks()[0]);
  if (!mean.has("axes")) return true;
  for (const ValueId side : found.graph().inputs(found.task(kDifference))) {
    const auto& shape = found.graph().type(side).shape;
    if (shape) return mean.integers("axes").size() == shape->size();
  }
  return false;
}

// mean((a - b)²) with an input on one side; a square does not tell a - b from b - a.
ir::Pattern mean_of_squares() {
  using namespace ir;
  const Pattern difference = commutative(op("sub", any(kPrediction), input(kTarget))).as(kDifference);
  const Pattern square = either({op("mul", difference, same(kDifference)), op("pow", difference, constant(2.0))});
  return op("mean", square).where(folds_all);
}

// Whether a sum or mean runs over all elements of joined values, none of which have samples.
bool folds_joined(const ir::Match& found) {
  const ir::Graph& graph = found.graph();
  const ir::Attributes& fold = graph.attributes(found.tasks()[0]);
  const ir::ValueType& joined = graph.type(graph.outputs(found.task(kJoined))[0]);
  return joined.shape && !joined.batch.has_batch() && ir::element_count(*joined.shape).is_constant() &&
         (!fold.has("axes") || fold.integers("axes").size() == joined.shape->size());
}

/// Returns whether each value depends on an input or a random input.
std::vector<bool> from_inputs(const Graph& graph) {
  std::vector<bool> fed(graph.value_count());
  for (const ValueId value : graph.values()) {
    const ir::ValueKind kind = graph.kind(value);
    fed[value.index()] = kind == ir::ValueKind::kInput || kind == ir::ValueKind::kRandomInput;
  }
  for (const TaskId task : graph.tasks()) {
    for (const ValueId output : graph.outputs(task)) {
      for (const ValueId operand : graph.inputs(task)) {
        if (operand.valid() && fed[operand.index()]) fed[output.index()] = true;
      }
    }
  }
  return fed;
}

class Opener {
 public:
  explicit Opener(Graph& graph) : graph_(graph), from_inputs_(from_inputs(graph)) {}

  // Adds the terms of `weight * value`.
  Result<void> open(ValueId value, double weight) {
    if (++steps_ > kMaxSteps) return closed(value);
    for (const Rule& rule : rules()) {
      if (const auto found = ir::match(graph_, value, rule.pattern)) return (this->*rule.open)(*found, value, weight);
    }
    auto found = partial_sum(graph_, value);
    if (!found) return closed(value);
    found->weight *= weight;
    return term(*std::move(found));
  }

 private:
  struct Rule {
    ir::Pattern pattern;
    Result<void> (Opener::*open)(const ir::Match&, ValueId value, double weight);
  };

  // In the order of trial.
  static const std::vector<Rule>& rules() {
    using namespace ir;
    static const std::vector<Rule> kRules = {
        {op({"identity", "reshape", "squeeze", "unsqueeze"}, any(kTerm), maybe(any())), &Opener::open_same},
        {op("neg", any(kTerm)), &Opener::open_negated},
        {op("add", any(kTerm), any(kOther)), &Opener::open_sum},
        {op("sub", any(kTerm), any(kOther)), &Opener::open_difference},
        {op({"cross_entropy_sum", "mse_sum"}), &Opener::add_sum},
        {mean_of_squares(), &Opener::add_mean_of_squares},
        {commutative(op("mul", constant(kNumber), any(kTerm))), &Opener::open_multiple},
        {op("div", any(kTerm), constant(kNumber)), &Opener::open_part},
        {mean_of_cross_entropies(), &Opener::add_mean_of_cross_entropies},
        {op({"sum", "mean"}, op("concat").as(kJoined)).where(folds_joined), &Opener::open_joined},
    };
    return kRules;
  }

  Result<void> open_same(const ir::Match& found, ValueId, double weight) { return open(found[kTerm], weight); }
  Result<void> open_negated(const ir::Match& found, ValueId, double weight) { return open(found[kTerm], -weight); }
  Result<void> open_sum(const ir::Match& found, ValueId value, double weight) {
    if (has_number(found)) return add_whole(value, weight);
    return open_addends(found, weight, weight);
  }
  Result<void> open_difference(const ir::Match& found, ValueId value, double weight) {
    if (has_number(found)) return add_whole(value, weight);
    return open_addends(found, weight, -weight);
  }
  // A zero, from which exporters begin a sum, is no term.
  Result<void> open_addends(const ir::Match& found, double weight, double other_weight) {
    const bool first = !is_zero(found[kTerm]);
    if (first) RANNC_TRY(open(found[kTerm], weight));
    return first && is_zero(found[kOther]) ? Result<void>() : open(found[kOther], other_weight);
  }
  bool is_zero(ValueId value) const {
    static const ir::Pattern kZero = ir::through({"identity", "cast", "reshape", "squeeze"}, ir::constant(0.0));
    return ir::match(graph_, value, kZero).has_value();
  }
  // If no symbol counts samples, a side that depends on no input is no term of its own: 1 - dice.
  bool has_number(const ir::Match& found) const {
    return graph_.batch_symbol().empty() && !(is_term(found[kTerm]) && is_term(found[kOther]));
  }
  bool is_term(ValueId value) const {
    const bool added = value.index() >= from_inputs_.size();  // by this class, for a sum of what depends on inputs
    return added || (graph_.producer(value).valid() && from_inputs_[value.index()]);
  }
  // A mini-batch that is never split needs no sums.
  Result<void> add_whole(ValueId value, double weight) {
    auto whole = partial_sum(graph_, value);
    if (!whole) return closed(value);
    whole->weight *= weight;
    return term(*std::move(whole));
  }
  Result<void> open_multiple(const ir::Match& found, ValueId, double weight) {
    return open(found[kTerm], weight * found.number(kNumber));
  }
  Result<void> open_part(const ir::Match& found, ValueId, double weight) {
    return open(found[kTerm], weight / found.number(kNumber));
  }
  // A sum or mean of stacked scalars has a term for each.
  Result<void> open_joined(const ir::Match& found, ValueId value, double weight) {
    if (graph_.batch_symbol().empty()) return add_whole(value, weight);
    const Location where = graph_.location(graph_.producer(value));
    const auto joined = graph_.inputs(found.task(kJoined));
    const std::vector<ValueId> parts(joined.begin(), joined.end());
    static const ir::Pattern kMean = ir::op("mean");
    if (ir::match(graph_, value, kMean)) {
      const ir::Shape& shape = *graph_.type(graph_.outputs(found.task(kJoined))[0]).shape;
      weight /= static_cast<double>(ir::element_count(shape).constant());
    }
    for (const ValueId part : parts) {
      if (ir::element_count(*graph_.type(part).shape) == ir::Dim(1)) {
        RANNC_TRY(open(part, weight));
        continue;
      }
      const std::string name = std::string(graph_.value(part).name) + ".sum";
      const ValueId sum = graph_.add(ir::core("sum"), {part}, {}, name, where);
      RANNC_TRY(ir::infer_types(graph_, graph_.producer(sum)));
      RANNC_TRY(open(sum, weight));
    }
    return {};
  }
  Result<void> add_sum(const ir::Match&, ValueId value, double weight) {
    return term({value, weight, LossTerm::Denominator::kOne, {}});
  }
  Result<void> add_mean_of_cross_entropies(const ir::Match& found, ValueId, double weight) {
    const int64_t ignored = found.attributes(kSum).integer("ignore_index", -100);
    return term({found[kSum], weight, LossTerm::Denominator::kNotIgnored, found[kTarget], ignored});
  }
  Result<void> add_mean_of_squares(const ir::Match& found, ValueId value, double weight) {
    const ValueId sum =
        graph_.add(ir::core("mse_sum"), {found[kPrediction], found[kTarget]}, {},
                   std::string(graph_.value(value).name) + ".sum", graph_.location(graph_.producer(value)));
    return term({sum, weight, LossTerm::Denominator::kElements, found[kTarget]});
  }

  Result<void> term(LossTerm made) {
    graph_.add_loss(std::move(made));
    return {};
  }

  Diagnostic closed(ValueId value) const {
    const Graph::Value& found = graph_.value(value);
    if (!found.producer.valid()) return error(fmt::format("the loss reads %{}, which no task makes", found.name));
    return error(
        graph_.location(found.producer),
        fmt::format("the loss needs %{}, made by {}, which cannot be rewritten as sums over samples; the model "
                    "may output predictions instead, with the loss specified by name",
                    found.name, graph_.op(found.producer).name));
  }

  static constexpr int kMaxSteps = 20'000;  // a sum of itself, again and again, has exponentially many terms
  Graph& graph_;
  const std::vector<bool> from_inputs_;
  int steps_ = 0;
};

// The graph without some of its outputs and what only they needed.
Graph without_outputs(const Graph& graph, const std::vector<ValueId>& dropped) {
  ir::Rewriter rewriter(graph);
  for (const TaskId task : graph.tasks()) rewriter.copy(task);
  std::vector<ValueId> outputs;
  for (const ValueId output : graph.outputs()) {
    if (std::find(dropped.begin(), dropped.end(), output) == dropped.end()) outputs.push_back(rewriter.map(output));
  }
  Graph left = std::move(rewriter).finish();
  left.set_outputs(std::move(outputs));
  ir::remove_dead(left);
  return left;
}

// Other outputs that one micro-batch does not determine: means and sums over samples, such as parts of the loss.
std::vector<ValueId> undetermined(const Graph& graph) {
  std::vector<ValueId> found;
  for (const ValueId output : graph.outputs()) {
    const ir::BatchLayout& layout = graph.type(output).batch;
    if (layout.mix == ir::Mix::kMixed || layout.is_partial()) found.push_back(output);
  }
  return found;
}

}  // namespace

Result<Outcome> OpenLoss::run(Graph& graph, PassContext& context) const {
  std::vector<ValueId> opened;
  for (const LossSpec& term : terms_) {
    if (term.kind != LossSpec::Kind::kInGraph) continue;
    RANNC_ASSIGN(const ValueId output, find_output(graph, term));
    RANNC_TRY(Opener(graph).open(output, term.weight));
    opened.push_back(output);
  }
  if (opened.empty()) return Outcome{};
  for (const ValueId output : undetermined(graph)) {
    if (std::find(opened.begin(), opened.end(), output) != opened.end()) continue;
    opened.push_back(output);
    context.open.push_back(
        {graph.location(graph.producer(output)),
         fmt::format(
             "output '{}' is left out: it combines the samples of a mini-batch, of which a micro-batch has a part",
             graph.value(output).name)});
  }
  graph = without_outputs(graph, opened);
  return Outcome{true};
}

}  // namespace rannc::passes
