#include "passes/loss/attach_loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "ir/plan/fixed_samples.h"
#include "passes/loss/internal/body_parts.h"
#include "passes/loss/internal/totals_builder.h"

namespace rannc::passes {

using ir::Graph;
using ir::LossTerm;
using ir::ValueKind;
using ir::ValueType;

namespace {

/// Whether the importer of PyTorch files, which do not name outputs, made up the name: `output` or `output_1`.
bool is_generated(std::string_view name) {
  constexpr std::string_view kWord = "output";
  if (!name.starts_with(kWord)) return false;
  const std::string_view rest = name.substr(kWord.size());
  return rest.empty() || (rest.starts_with("_") && rest.find_first_not_of("0123456789", 1) == rest.npos);
}

}  // namespace

Result<ValueId> find_output(const Graph& graph, const LossSpec& term) {
  const auto& outputs = graph.outputs();
  if (term.output.empty() && outputs.size() == 1) return outputs.front();
  std::string names;
  for (const ValueId id : outputs) {
    if (!term.output.empty() && graph.value(id).name == term.output) return id;
    names += " " + std::string(graph.value(id).name);
  }
  if (term.output.empty()) return error("the loss names no output, and the model has several:" + names);
  Diagnostic unknown = error(
      fmt::format("the loss is on output {}, which the model does not have; its outputs are{}", term.output, names));
  const bool generated =
      std::any_of(outputs.begin(), outputs.end(), [&](ValueId id) { return is_generated(graph.value(id).name); });
  if (!generated) return unknown;
  return std::move(unknown).note(
      outputs.size() == 1 ? fmt::format("--output-name {} names the output of a PyTorch file", term.output)
                          : "--output-name NAME, once per output in order, names the outputs of a PyTorch file");
}

namespace {

Result<void> check_output(const Graph& graph, ValueId output) {
  const Graph::Value& value = graph.value(output);
  const auto fault = [&](std::string what) {
    const Location where = value.producer.valid() ? graph.location(value.producer) : Location{};
    return error(where, fmt::format("a loss on output %{}: {}", value.name, what));
  };
  if (!value.type.shape) return fault("its shape is not known");
  if (!ir::is_float(value.type.dtype)) return fault(fmt::format("it is {}, not a float", str(value.type.dtype)));
  if (!graph.batch_symbol().empty() && !value.type.batch.has_batch()) {
    return fault(fmt::format("its shape {} has no batch axis, so it would count once per micro-batch",
                             ir::str(*value.type.shape)));
  }
  return {};
}

// Class numbers for logits: the shape without the classes.
Result<ValueType> class_labels(const Graph::Value& logits, int64_t axis) {
  const ir::Shape& shape = *logits.type.shape;
  if (axis < 0 || axis >= static_cast<int64_t>(shape.size())) {
    return error(fmt::format("cross entropy on output %{} of shape {}: there is no axis of classes {}", logits.name,
                             ir::str(shape), axis));
  }
  ValueType type{ir::DType::kI64, shape, logits.type.batch, {}};
  if (type.batch.axis == axis) {
    return error(fmt::format("cross entropy on output %{} of shape {}: axis {} holds the samples, not the classes",
                             logits.name, ir::str(shape), axis));
  }
  type.shape->erase(type.shape->begin() + axis);
  if (type.batch.axis > axis) --type.batch.axis;
  return type;
}

// The input that holds the labels: one of the model's own, which may be of the output's type, one that an earlier term
// made, or a new one of this type.
Result<ValueId> labels_input(Graph& graph, const LossSpec& term, ValueId output, const ValueType& type) {
  const auto serves = [&](const ValueType& found) {
    return (found.dtype == type.dtype || (ir::is_float(type.dtype) && found.dtype == graph.type(output).dtype)) &&
           found.shape == type.shape;
  };
  const std::string wanted = term.labels.empty() ? std::string(graph.value(output).name) : term.labels;
  for (const std::string& name : {wanted, "labels/" + wanted}) {
    const ValueId found = graph.find(name);
    if (!found.valid() || graph.value(found).kind != ValueKind::kInput) continue;
    if (serves(graph.type(found))) return found;
    return error(fmt::format("labels %{} of the loss on output %{} are {}{}, but {}{} is needed", name,
                             graph.value(output).name, str(graph.type(found).dtype),
                             graph.type(found).shape ? ir::str(*graph.type(found).shape) : "[*]", str(type.dtype),
                             ir::str(*type.shape)));
  }
  const ValueId made = graph.add_value(ValueKind::kInput, "labels/" + wanted, type);
  graph.add_input(made);
  return made;
}

// Returns the input whose sum is the denominator: one of the model's own, or a new one with a number for each sample.
Result<ValueId> count_input(Graph& graph, const LossSpec& term, ValueId output) {
  for (const std::string& name : {term.count, "labels/" + term.count}) {
    const ValueId found = graph.find(name);
    if (found.valid() && graph.value(found).kind == ValueKind::kInput) return found;
  }
  ValueType type{ir::sum_dtype(graph.type(output).dtype), ir::Shape{}, {}, {}};
  if (!graph.batch_symbol().empty()) {
    type.shape = ir::Shape{ir::Dim::symbol(graph.batch_symbol())};
    type.batch.axis = 0;
  }
  const ValueId made = graph.add_value(ValueKind::kInput, "labels/" + term.count, type);
  graph.add_input(made);
  return made;
}

/// Builds the sum of one term.
class TermBuilder {
 public:
  TermBuilder(Graph& graph, const LossSpec& term, ValueId output, int64_t axis)
      : graph_(graph),
        term_(term),
        name_("loss/" + std::string(graph.value(output).name)),
        output_(output),
        axis_(axis) {}

  Result<ValueId> sum(ValueId labels) {
    RANNC_ASSIGN(output_, widened(output_));
    RANNC_ASSIGN(labels, widened(labels));
    switch (term_.kind) {
      case LossSpec::Kind::kCrossEntropy:
        return cross_entropy(labels);
      case LossSpec::Kind::kSoftCrossEntropy:
        return soft_cross_entropy(labels);
      case LossSpec::Kind::kBceWithLogits:
        return cross_entropy_of_bits(labels);
      case LossSpec::Kind::kMse:
        return last("mse_sum", {output_, labels});
      case LossSpec::Kind::kHuber:
      case LossSpec::Kind::kSmoothL1:
        if (term_.delta > 0) return last("huber_sum", {output_, labels}, {{"delta", term_.delta}});
        break;
      case LossSpec::Kind::kL1:
      case LossSpec::Kind::kInGraph:
        break;
    }
    RANNC_ASSIGN(const ValueId difference, add("sub", {output_, labels}));
    RANNC_ASSIGN(const ValueId size, add("abs", {difference}));
    return last("sum", {size});
  }

 private:
  Result<ValueId> cross_entropy(ValueId labels) {
    RANNC_ASSIGN(const ValueId weights, class_weights({classes()}));
    ir::Attributes attributes = {{"axis", ir::Dim(axis_)}, {"ignore_index", ir::Dim(term_.ignore_index)}};
    if (term_.label_smoothing > 0) attributes.set("label_smoothing", term_.label_smoothing);
    if (!weights.valid()) return last("cross_entropy_sum", {output_, labels}, std::move(attributes));
    return last("cross_entropy_sum", {output_, labels, weights}, std::move(attributes));
  }

  // -sum(weights * ((1 - smoothing) * target + smoothing / classes) * log_softmax(logits)).
  Result<ValueId> soft_cross_entropy(ValueId target) {
    ir::Shape along(graph_.type(output_).shape->size() - static_cast<size_t>(axis_), ir::Dim(1));
    along[0] = classes();
    RANNC_ASSIGN(const ValueId weights, class_weights(along));
    RANNC_ASSIGN(ValueId log, add("log_softmax", {output_}, {{"axis", ir::Dim(axis_)}}));
    if (weights.valid()) {
      RANNC_ASSIGN(log, add("mul", {log, weights}));
    }
    if (const double smoothing = term_.label_smoothing; smoothing > 0) {
      const double count = static_cast<double>(classes().constant());
      RANNC_ASSIGN(target, add("mul", {target, number("keep", 1 - smoothing)}));
      RANNC_ASSIGN(target, add("add", {target, number("share", smoothing / count)}));
    }
    RANNC_ASSIGN(const ValueId parts, add("mul", {target, log}));
    RANNC_ASSIGN(const ValueId total, add("sum", {parts}));
    return last("neg", {total});
  }

  Result<ValueId> cross_entropy_of_bits(ValueId target) {
    const std::vector<double>& weights = term_.pos_weight;
    if (weights.empty()) return last("bce_with_logits_sum", {output_, target});
    const ir::Shape& logits = *graph_.type(output_).shape;
    const bool one = weights.size() == 1;
    if (!one && (logits.empty() || logits.back() != ir::Dim(static_cast<int64_t>(weights.size())))) {
      return error(
          fmt::format("{} numbers of pos_weight on output %{} of shape {}: expected one, or one per element "
                      "of the last axis",
                      weights.size(), graph_.value(output_).name, ir::str(logits)));
    }
    const ir::Shape shape = one ? ir::Shape{} : ir::Shape{logits.back()};
    return last("bce_with_logits_sum", {output_, target, constant("pos_weight", shape, weights)});
  }

  const ir::Dim& classes() const { return (*graph_.type(output_).shape)[static_cast<size_t>(axis_)]; }

  // Invalid where there are none.
  Result<ValueId> class_weights(const ir::Shape& shape) {
    const std::vector<double>& weights = term_.class_weights;
    const bool whole = term_.kind == LossSpec::Kind::kSoftCrossEntropy;
    if (!classes().is_constant() && (whole || !weights.empty())) {
      return error(fmt::format("a loss on output %{} of shape {}: the number of classes on axis {} is not known",
                               graph_.value(output_).name, ir::str(*graph_.type(output_).shape), axis_));
    }
    if (weights.empty()) return ValueId();
    if (static_cast<int64_t>(weights.size()) != classes().constant()) {
      return error(fmt::format("{} class weights on output %{} of shape {}, which has {} classes on axis {}",
                               weights.size(), graph_.value(output_).name, ir::str(*graph_.type(output_).shape),
                               classes().str(), axis_));
    }
    return constant("class_weights", shape, weights);
  }

  ValueId constant(std::string_view suffix, const ir::Shape& shape, const std::vector<double>& numbers) {
    std::vector<int64_t> sizes;
    for (const ir::Dim& dim : shape) sizes.push_back(dim.constant());
    return ir::add_constant(graph_, fmt::format("{}.{}", name(), suffix), graph_.type(output_).dtype, sizes,
                            std::span<const double>(numbers));
  }
  ValueId number(std::string_view suffix, double value) { return constant(suffix, {}, {value}); }

  const std::string& name() const { return name_; }

  // In the type in which losses are summed.
  Result<ValueId> widened(ValueId value) {
    const ir::DType dtype = ir::sum_dtype(graph_.type(value).dtype);
    if (dtype == graph_.type(value).dtype) return value;
    return add("cast", {value}, {{"dtype", dtype}});
  }

  Result<ValueId> add(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {}) {
    return typed(graph_.add(ir::core(op), operands, std::move(attributes), fmt::format("{}.{}", name(), op)));
  }
  Result<ValueId> last(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes = {}) {
    return typed(graph_.add(ir::core(op), operands, std::move(attributes), name()));
  }
  Result<ValueId> typed(ValueId made) {
    RANNC_TRY(ir::infer_types(graph_, graph_.producer(made)));
    return made;
  }

  Graph& graph_;
  const LossSpec& term_;
  std::string name_;
  ValueId output_;
  int64_t axis_;
};

/// The divisor of one term.
class DivisorBuilder {
 public:
  DivisorBuilder(Graph& graph, const LossSpec& spec, ValueId output) : graph_(graph), spec_(spec), output_(output) {}

  /// Returns the coefficient of a sum for these labels, or for this count if the term names one. Constant factors go to
  /// its weight.
  Result<Coefficient> coefficient(ValueId labels, ValueId count, int64_t axis) {
    Coefficient by{spec_.weight};
    if (spec_.kind == LossSpec::Kind::kSmoothL1 && spec_.delta > 0) by.weight /= spec_.delta;
    if (count.valid()) {
      RANNC_ASSIGN(by.divisors.emplace_back(), add("sum", {count}));
    } else if (spec_.reduction == LossSpec::Reduction::kSamples) {
      by.divisors.push_back(size(samples()));
    } else if (spec_.reduction == LossSpec::Reduction::kMean && spec_.kind == LossSpec::Kind::kCrossEntropy) {
      RANNC_ASSIGN(by.divisors.emplace_back(), counted(labels));
    } else if (spec_.reduction == LossSpec::Reduction::kMean) {
      by.divisors.push_back(size(ir::element_count(*graph_.type(labels).shape)));
      // A label is as many elements as there are classes.
      const bool soft = spec_.kind == LossSpec::Kind::kSoftCrossEntropy;
      if (soft) by.weight *= static_cast<double>((*graph_.type(output_).shape)[static_cast<size_t>(axis)].constant());
    }
    return by;
  }

 private:
  ir::Dim samples() const {
    const std::string symbol = ir::samples_symbol(graph_);
    return symbol.empty() ? ir::Dim(ir::fixed_samples(graph_).value_or(1)) : ir::Dim::symbol(symbol);
  }

  // The number of labels that are not ignored, or the sum of the weights of their classes.
  Result<ValueId> counted(ValueId labels) {
    RANNC_ASSIGN(labels, add("cast", {labels}, {{"dtype", ir::DType::kI64}}));  // the ignored label may not fit others
    RANNC_ASSIGN(const ValueId counts, add("ne", {labels, integer(spec_.ignore_index)}));
    if (spec_.class_weights.empty()) {
      RANNC_ASSIGN(const ValueId ones, add("cast", {counts}, {{"dtype", ir::DType::kI64}}));
      return add("sum", {ones});
    }
    const std::vector<int64_t> shape = {static_cast<int64_t>(spec_.class_weights.size())};
    const ValueId weights = ir::add_constant(graph_, name(), ir::DType::kF64, shape, std::span(spec_.class_weights));
    RANNC_ASSIGN(const ValueId classes, add("where", {counts, labels, integer(0)}));
    RANNC_ASSIGN(const ValueId picked, add("gather", {weights, classes}, {{"axis", ir::Dim(0)}}));
    const std::vector<double> zero = {0};
    const ValueId none = ir::add_constant(graph_, name(), ir::DType::kF64, {}, std::span<const double>(zero));
    RANNC_ASSIGN(const ValueId kept, add("where", {counts, picked, none}));
    return add("sum", {kept});
  }

  ValueId integer(int64_t number) {
    const std::vector<int64_t> numbers = {number};
    return ir::add_constant(graph_, name(), ir::DType::kI64, {}, std::span<const int64_t>(numbers));
  }
  ValueId size(const ir::Dim& dim) { return add_size(graph_, dim, name(), {}); }
  Result<ValueId> add(std::string_view op, std::vector<ValueId> operands, ir::Attributes attributes = {}) {
    return add_task(graph_, op, std::move(operands), std::move(attributes), name());
  }
  std::string name() const { return "loss/" + std::string(graph_.value(output_).name) + ".count"; }

  Graph& graph_;
  const LossSpec& spec_;
  ValueId output_;
};

Result<void> attach(Graph& graph, const LossSpec& spec) {
  RANNC_ASSIGN(const ValueId output, find_output(graph, spec));
  RANNC_TRY(check_output(graph, output));
  const bool classes = spec.kind == LossSpec::Kind::kCrossEntropy;
  const bool softmax = classes || spec.kind == LossSpec::Kind::kSoftCrossEntropy;
  const auto rank = static_cast<int64_t>(graph.type(output).shape->size());
  const int64_t axis = spec.axis < 0 ? spec.axis + rank : spec.axis;
  ValueType type = graph.type(output);
  type.dtype = ir::sum_dtype(type.dtype);
  if (softmax) {
    RANNC_ASSIGN(ValueType of_classes, class_labels(graph.value(output), axis));
    if (classes) type = std::move(of_classes);
  }
  RANNC_ASSIGN(const ValueId labels, labels_input(graph, spec, output, type));
  RANNC_ASSIGN(const ValueId numerator, TermBuilder(graph, spec, output, axis).sum(labels));
  ValueId count;
  if (!spec.count.empty()) {
    RANNC_ASSIGN(count, count_input(graph, spec, output));
  }
  graph.add_loss({numerator});
  // No task of the model counts: bodies get copies of what is added here.
  Graph counting = graph.clone();
  RANNC_ASSIGN(const Coefficient by, DivisorBuilder(counting, spec, output).coefficient(labels, count, axis));
  const ir::StoredNotes none;
  Origins origins(counting, none);
  LinearForms forms(counting, origins);
  TotalsBuilder totals(counting, origins, forms);
  std::vector<LossTerm> losses = graph.losses();
  RANNC_ASSIGN(losses.back(), totals.term(numerator, by));
  std::move(totals).finish();
  graph.set_losses(std::move(losses));
  graph.set_totals(counting.totals());
  return {};
}

// A loss that is divided by a number of samples that is only assumed.
std::optional<Note> assumed_samples(const Graph& graph, const LossSpec& spec) {
  if (spec.kind == LossSpec::Kind::kInGraph || !spec.count.empty() || spec.reduction != LossSpec::Reduction::kSamples ||
      !ir::samples_symbol(graph).empty()) {
    return std::nullopt;
  }
  return Note{{},
              fmt::format("reduction=samples divides the loss by {}: the file has no batch symbol, so axis 0 of the "
                          "first input is assumed to count samples; reduction=sum does not divide",
                          ir::fixed_samples(graph).value_or(1))};
}

}  // namespace

Result<Outcome> AttachLoss::run(Graph& graph, PassContext& context) const {
  Outcome outcome;
  for (const LossSpec& term : terms_) {
    if (term.kind == LossSpec::Kind::kInGraph) continue;
    RANNC_TRY(attach(graph, term));
    if (auto assumed = assumed_samples(graph, term)) context.warnings.push_back(*std::move(assumed));
    outcome.changed = true;
  }
  return outcome;
}

}  // namespace rannc::passes
