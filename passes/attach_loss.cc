#include "passes/attach_loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/op.h"

namespace rannc::passes {

using ir::Graph;
using ir::LossTerm;
using ir::ValueKind;
using ir::ValueType;

Result<ValueId> find_output(const Graph& graph, const LossSpec& term) {
  const auto& outputs = graph.outputs();
  if (term.output.empty() && outputs.size() == 1) return outputs.front();
  std::string names;
  for (const ValueId id : outputs) {
    if (!term.output.empty() && graph.value(id).name == term.output) return id;
    names += " " + std::string(graph.value(id).name);
  }
  if (term.output.empty()) return error("the loss names no output, and the model has several:" + names);
  return error(
      fmt::format("the loss is on output {}, which the model does not have; its outputs are{}", term.output, names));
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
    return fault(fmt::format("its shape {} does not tell samples apart, so that it would count once a micro-batch",
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

// The input that holds the labels: one of the model's own, one that an earlier term made, or a new one.
Result<ValueId> labels_input(Graph& graph, const LossSpec& term, ValueId output, const ValueType& type) {
  const std::string wanted = term.labels.empty() ? std::string(graph.value(output).name) : term.labels;
  for (const std::string& name : {wanted, "labels/" + wanted}) {
    const ValueId found = graph.find(name);
    if (!found.valid() || graph.value(found).kind != ValueKind::kInput) continue;
    if (graph.type(found).dtype == type.dtype && graph.type(found).shape == type.shape) return found;
    return error(fmt::format("labels %{} of the loss on output %{} are {}{}, but {}{} is needed", name,
                             graph.value(output).name, str(graph.type(found).dtype),
                             graph.type(found).shape ? ir::str(*graph.type(found).shape) : "[*]", str(type.dtype),
                             ir::str(*type.shape)));
  }
  const ValueId made = graph.add_value(ValueKind::kInput, "labels/" + wanted, type);
  graph.add_input(made);
  return made;
}

LossTerm::Denominator denominator(const LossSpec& term) {
  if (term.reduction == LossSpec::Reduction::kSum) return LossTerm::Denominator::kOne;
  if (term.reduction == LossSpec::Reduction::kSamples) return LossTerm::Denominator::kSamples;
  const bool classes = term.kind == LossSpec::Kind::kCrossEntropy;
  return classes ? LossTerm::Denominator::kNotIgnored : LossTerm::Denominator::kElements;
}

Result<void> attach(Graph& graph, const LossSpec& term) {
  RANNC_ASSIGN(const ValueId output, find_output(graph, term));
  RANNC_TRY(check_output(graph, output));
  const bool classes = term.kind == LossSpec::Kind::kCrossEntropy;
  const auto rank = static_cast<int64_t>(graph.type(output).shape->size());
  const int64_t axis = term.axis < 0 ? term.axis + rank : term.axis;
  ValueType type = graph.type(output);
  if (classes) {
    RANNC_ASSIGN(type, class_labels(graph.value(output), axis));
  }
  RANNC_ASSIGN(const ValueId labels, labels_input(graph, term, output, type));
  ir::Attributes attributes;
  if (classes) attributes = {{"axis", ir::Dim(axis)}, {"ignore_index", ir::Dim(term.ignore_index)}};
  const ValueId sum = graph.add(ir::core(classes ? "cross_entropy_sum" : "mse_sum"), {output, labels},
                                std::move(attributes), "loss/" + std::string(graph.value(output).name));
  RANNC_TRY(ir::infer_types(graph, graph.value(sum).producer));
  LossTerm made{sum, term.weight, denominator(term), {}, term.ignore_index};
  const bool counts =
      made.denominator == LossTerm::Denominator::kElements || made.denominator == LossTerm::Denominator::kNotIgnored;
  if (counts) made.labels = labels;
  graph.add_loss(made);
  return {};
}

}  // namespace

Result<Outcome> AttachLoss::run(Graph& graph, PassContext&) const {
  Outcome outcome;
  for (const LossSpec& term : terms_) {
    if (term.kind == LossSpec::Kind::kInGraph) continue;
    RANNC_TRY(attach(graph, term));
    outcome.changed = true;
  }
  return outcome;
}

}  // namespace rannc::passes
