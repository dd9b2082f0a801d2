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
constexpr ir::Capture kDifference{6}, kPrediction{7}, kTarget{8};

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

/// Origins of values.
class Origins {
 public:
  explicit Origins(const Graph& graph) : fed_(graph.value_count()), stored_(graph.value_count()) {
    for (const ValueId value : graph.values()) {
      const ir::ValueKind kind = graph.kind(value);
      fed_[value.index()] = kind == ir::ValueKind::kInput || kind == ir::ValueKind::kRandomInput;
      stored_[value.index()] = !graph.producer(value).valid();
    }
    for (const TaskId task : graph.tasks()) {
      for (const ValueId output : graph.outputs(task)) {
        for (const ValueId operand : graph.inputs(task)) add(operand, output);
      }
    }
  }
  bool from_inputs(ValueId value) const { return value.index() >= fed_.size() || fed_[value.index()]; }
  /// From inputs or stored tensors, of which some may be parameters.
  bool from_anything(ValueId value) const { return value.index() >= stored_.size() || stored_[value.index()]; }

 private:
  void add(ValueId operand, ValueId output) {
    if (!operand.valid()) return;
    fed_[output.index()] = fed_[output.index()] || fed_[operand.index()];
    stored_[output.index()] = stored_[output.index()] || stored_[operand.index()];
  }
  std::vector<bool> fed_, stored_;
};

class Opener {
 public:
  explicit Opener(Graph& graph) : graph_(graph), origins_(graph) {}

  // Adds the terms of `weight * value`.
  Result<void> open(ValueId value, double weight) {
    if (++steps_ > kMaxSteps || !origins_.from_anything(value)) return closed(value);
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
        {op({"identity", "reshape", "squeeze"}, any(kTerm), maybe(any())), &Opener::open_same},
        {op("neg", any(kTerm)), &Opener::open_negated},
        {op("add", any(kTerm), any(kOther)), &Opener::open_sum},
        {op("sub", any(kTerm), any(kOther)), &Opener::open_difference},
        {op({"cross_entropy_sum", "mse_sum"}), &Opener::add_sum},
        {mean_of_squares(), &Opener::add_mean_of_squares},
        {commutative(op("mul", constant(kNumber), any(kTerm))), &Opener::open_multiple},
        {op("div", any(kTerm), constant(kNumber)), &Opener::open_part},
        {mean_of_cross_entropies(), &Opener::add_mean_of_cross_entropies},
    };
    return kRules;
  }

  Result<void> open_same(const ir::Match& found, ValueId, double weight) { return open(found[kTerm], weight); }
  Result<void> open_negated(const ir::Match& found, ValueId, double weight) { return open(found[kTerm], -weight); }
  Result<void> open_sum(const ir::Match& found, ValueId value, double weight) {
    if (has_number(found)) return add_whole(value, weight);
    RANNC_TRY(open(found[kTerm], weight));
    return open(found[kOther], weight);
  }
  Result<void> open_difference(const ir::Match& found, ValueId value, double weight) {
    if (has_number(found)) return add_whole(value, weight);
    RANNC_TRY(open(found[kTerm], weight));
    return open(found[kOther], -weight);
  }
  // If no symbol counts samples, one side may be independent of the inputs: 1 - dice.
  bool has_number(const ir::Match& found) const {
    return graph_.batch_symbol().empty() &&
           !(origins_.from_inputs(found[kTerm]) && origins_.from_inputs(found[kOther]));
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

  static constexpr int kMaxSteps = 1000;  // a loss of more terms is a graph that feeds on itself
  Graph& graph_;
  const Origins origins_;
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

}  // namespace

Result<Outcome> OpenLoss::run(Graph& graph, PassContext&) const {
  std::vector<ValueId> opened;
  for (const LossSpec& term : terms_) {
    if (term.kind != LossSpec::Kind::kInGraph) continue;
    RANNC_ASSIGN(const ValueId output, find_output(graph, term));
    RANNC_TRY(Opener(graph).open(output, term.weight));
    opened.push_back(output);
  }
  if (opened.empty()) return Outcome{};
  graph = without_outputs(graph, opened);
  return Outcome{true};
}

}  // namespace rannc::passes
