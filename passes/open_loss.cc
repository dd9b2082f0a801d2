#include "passes/open_loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/constant.h"
#include "ir/op.h"
#include "ir/rewriter.h"
#include "passes/attach_loss.h"

namespace rannc::passes {

namespace {

using ir::Graph;
using ir::LossTerm;
using ir::ValueKind;

class Opener {
 public:
  explicit Opener(Graph& graph) : graph_(graph) {}

  // Adds the terms of `weight * value`.
  Result<void> open(ValueId value, double weight) {
    if (++steps_ > kMaxSteps) return closed(value);
    const std::string_view op = made_by(value);
    if (op == "core.identity" || op == "core.reshape" || op == "core.squeeze") return open(operand(value, 0), weight);
    if (op == "core.neg") return open(operand(value, 0), -weight);
    if (op == "core.add" || op == "core.sub") {
      RANNC_TRY(open(operand(value, 0), weight));
      return open(operand(value, 1), op == "core.add" ? weight : -weight);
    }
    if (op == "core.cross_entropy_sum" || op == "core.mse_sum")
      return term({value, weight, LossTerm::Denominator::kOne, {}});
    if (op == "core.mean") return open_mean(value, weight);
    if (op == "core.mul") {
      for (const size_t side : {0, 1}) {
        if (const auto factor = number(operand(value, side))) return open(operand(value, 1 - side), weight * *factor);
      }
    }
    if (op == "core.div") {
      if (const auto divisor = number(operand(value, 1))) return open(operand(value, 0), weight / *divisor);
      return open_quotient(value, weight);
    }
    return closed(value);
  }

 private:
  std::string_view made_by(ValueId value) const {
    const TaskId producer = value.valid() ? graph_.value(value).producer : TaskId();
    return producer.valid() ? std::string_view(graph_.op(producer).name) : std::string_view();
  }
  ValueId operand(ValueId value, size_t index) const {
    const auto inputs = graph_.inputs(graph_.value(value).producer);
    return index < inputs.size() ? inputs[index] : ValueId();
  }
  const ir::Attributes& attributes(ValueId value) const { return graph_.attributes(graph_.value(value).producer); }

  Result<void> term(LossTerm made) {
    graph_.add_loss(made);
    return {};
  }

  Diagnostic closed(ValueId value) const {
    const Graph::Value& found = graph_.value(value);
    if (!found.producer.valid()) return error(fmt::format("the loss reads %{}, which no task makes", found.name));
    return error(
        graph_.location(found.producer),
        fmt::format("the loss needs %{}, made by {}, which cannot be taken apart into sums over samples; the model "
                    "may give out predictions instead, with the loss asked for by name",
                    found.name, graph_.op(found.producer).name));
  }

  // A scalar constant.
  std::optional<double> number(ValueId value) const {
    if (!value.valid()) return std::nullopt;
    if (made_by(value) == "core.full") {
      const ir::Attribute* found = attributes(value).find("value");
      if (found == nullptr) return 0.0;
      if (const auto* dim = std::get_if<ir::Dim>(found)) {
        return dim->is_constant() ? std::optional(static_cast<double>(dim->constant())) : std::nullopt;
      }
      const auto* real = std::get_if<double>(found);
      return real ? std::optional(*real) : std::nullopt;
    }
    const Graph::Value& constant = graph_.value(value);
    if (constant.kind != ValueKind::kConstant) return std::nullopt;
    const auto numbers = ir::decode_numbers(constant.type, constant.data, 1);
    return numbers.ok() && numbers->size() == 1 ? std::optional(numbers->front()) : std::nullopt;
  }

  // Past casts and identities, to an input of the model; invalid elsewhere.
  ValueId input_behind(ValueId value) const {
    while (made_by(value) == "core.identity" || made_by(value) == "core.cast") value = operand(value, 0);
    return value.valid() && graph_.value(value).kind == ValueKind::kInput ? value : ValueId();
  }

  // cross_entropy_sum(logits, labels) / sum(cast(labels != ignored)).
  Result<void> open_quotient(ValueId value, double weight) {
    const ValueId sum = operand(value, 0), count = operand(value, 1);
    if (made_by(sum) != "core.cross_entropy_sum" || made_by(count) != "core.sum") return closed(value);
    ValueId mask = operand(count, 0);
    if (made_by(mask) == "core.cast") mask = operand(mask, 0);
    if (made_by(mask) != "core.ne" || attributes(count).has("axes")) return closed(value);
    const ValueId labels = operand(sum, 1);
    const int64_t ignored = attributes(sum).integer("ignore_index", -100);
    const bool same = operand(mask, 0) == labels && number(operand(mask, 1)) == static_cast<double>(ignored);
    if (!same || !input_behind(labels).valid()) return closed(value);
    return term({sum, weight, LossTerm::Denominator::kNotIgnored, input_behind(labels), ignored});
  }

  // mean((a - b)²) with an input on one side.
  Result<void> open_mean(ValueId value, double weight) {
    const ValueId square = operand(value, 0);
    ValueId difference;
    if (made_by(square) == "core.mul" && operand(square, 0) == operand(square, 1)) difference = operand(square, 0);
    if (made_by(square) == "core.pow" && number(operand(square, 1)) == 2.0) difference = operand(square, 0);
    if (made_by(difference) != "core.sub" || !folds_all(value)) return closed(value);
    for (const size_t side : {1, 0}) {
      const ValueId target = operand(difference, side);
      if (graph_.value(target).kind != ValueKind::kInput) continue;
      const ValueId prediction = operand(difference, 1 - side);
      const ValueId sum =
          graph_.add(ir::core("mse_sum"), {prediction, target}, {}, std::string(graph_.value(value).name) + ".sum",
                     graph_.location(graph_.value(value).producer));
      return term({sum, weight, LossTerm::Denominator::kElements, target});
    }
    return closed(value);
  }

  // Whether a mean runs over all axes: no list of them, or as many as the target has.
  bool folds_all(ValueId value) const {
    if (!attributes(value).has("axes")) return true;
    const ValueId difference = operand(operand(value, 0), 0);
    for (const size_t side : {0, 1}) {
      const auto& shape = graph_.type(operand(difference, side)).shape;
      if (shape) return attributes(value).integers("axes").size() == shape->size();
    }
    return false;
  }

  static constexpr int kMaxSteps = 1000;  // a loss of more terms is a graph that feeds on itself
  Graph& graph_;
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
