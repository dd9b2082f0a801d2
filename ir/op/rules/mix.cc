// Propagation of partial sums over samples and of dependence on the number of samples.
#include <algorithm>

#include "ir/internal/attribute_kinds.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir {

namespace {

bool reads_data(const OpInfo& op, size_t operand) {
  const Role role = op.operand(operand).role;
  return role != Role::kSize && role != Role::kShape;
}

bool uses(const std::vector<Dim>& dims, std::string_view symbol) {
  return std::any_of(dims.begin(), dims.end(), [&](const Dim& dim) { return dim.uses(symbol); });
}

// The mix of a type, or `kCounted` for contents that count samples.
Mix mix_of(const ValueType& type, std::string_view batch) {
  if (type.batch.mix != Mix::kNone || !type.contents || batch.empty()) return type.batch.mix;
  return uses(*type.contents, batch) ? Mix::kCounted : Mix::kNone;
}

// Whether an attribute from which results are computed depends on the number of samples.
bool counts_by_attribute(const OpCall& call) {
  for (const AttributeInfo& info : call.op.attributes) {
    if (info.kind != AttributeKind::kScalar || call.batch_symbol.empty()) continue;
    const Attribute* given = call.attributes.given().find(info.name);
    const auto* dim = given ? std::get_if<Dim>(given) : nullptr;
    if (dim != nullptr && dim->uses(call.batch_symbol)) return true;
  }
  return false;
}

// Whether the result is a partial sum, given that at least one operand is.
bool stays_partial(const OpCall& call, const std::vector<Mix>& mixes) {
  const Linear linear = call.op.linear ? call.op.linear(call) : Linear::kNo;
  size_t partial = 0, data = 0;
  for (size_t i = 0; i < mixes.size(); ++i) {
    if (!call.has(i) || !reads_data(call.op, i)) continue;
    ++data;
    partial += mixes[i] == Mix::kPartial;
    if (mixes[i] == Mix::kPartial) continue;
    if (mixes[i] != Mix::kNone || call.in(i).batch.has_batch()) return false;
  }
  switch (linear) {
    case Linear::kNo:
      return false;
    case Linear::kFirst:
      return partial == 1 && mixes[0] == Mix::kPartial;
    case Linear::kEach:
      return partial == 1;
    case Linear::kTogether:
      return partial == data;
    case Linear::kWhole:
      break;  // no longer partial
  }
  return false;
}

Mix mix_of_results(const OpCall& call, const std::vector<Mix>& mixes) {
  const auto any = [&](Mix mix) { return std::find(mixes.begin(), mixes.end(), mix) != mixes.end(); };
  if (any(Mix::kMixed)) return Mix::kMixed;
  if (any(Mix::kPartial) && call.op.makes_whole()) return Mix::kNone;
  if (any(Mix::kPartial)) return stays_partial(call, mixes) ? Mix::kPartial : Mix::kMixed;
  return any(Mix::kCounted) || counts_by_attribute(call) ? Mix::kCounted : Mix::kNone;
}

/// Fails if the batch axis does not have the extent that the samples need.
Result<void> has_room_for_samples(const OpCall& call, const ValueType& type) {
  if (!type.batch.has_batch() || !type.shape) return {};
  const auto axis = static_cast<size_t>(type.batch.axis);
  const Dim needed = type.batch.outer * Dim::symbol(call.batch_symbol) * type.batch.inner;
  if (axis < type.shape->size() && (*type.shape)[axis] == needed) return {};
  return error(call.op.name + ": a result of shape " + str(*type.shape) + " has samples on axis " +
               std::to_string(axis) + ", which would have " + needed.str() + " elements");
}

}  // namespace

Result<std::vector<ValueType>> types_of(const OpCall& call) {
  if (const AttributeInfo* missing = call.op.missing(call.attributes.given())) {
    return error(call.op.name + ": attribute " + std::string(missing->name) + " is missing");
  }
  std::vector<Mix> mixes;
  std::vector<ValueType> bare;
  bare.reserve(call.inputs.size());
  std::vector<const ValueType*> inputs(call.inputs.begin(), call.inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    mixes.push_back(inputs[i] && reads_data(call.op, i) ? mix_of(*inputs[i], call.batch_symbol) : Mix::kNone);
    if (!inputs[i] || inputs[i]->batch.mix == Mix::kNone) continue;
    bare.push_back(*inputs[i]);
    bare.back().batch.mix = Mix::kNone;
    inputs[i] = &bare.back();
  }
  OpCall request = call;
  request.inputs = inputs;
  auto types = call.op.infer(request);
  for (size_t i = 0; types.ok() && i < types->size(); ++i) RANNC_TRY(has_room_for_samples(call, (*types)[i]));
  const Mix mix = mix_of_results(call, mixes);
  if (!types.ok() || mix == Mix::kNone) return types;
  for (ValueType& type : *types) {
    if (mix == Mix::kCounted) {
      // Values with samples may be divided by the number of samples. Contents contain the batch symbol themselves.
      if (!type.batch.has_batch() && type.batch.mix == Mix::kNone && !type.contents) type.batch.mix = mix;
      continue;
    }
    const bool keeps = mix == Mix::kPartial && !type.batch.has_batch() && type.batch.mix != Mix::kMixed;
    type.batch = {.mix = keeps ? Mix::kPartial : Mix::kMixed};
  }
  return types;
}

namespace {

// Whether results of a task may depend on samples without a batch axis.
bool may_mix(const Graph& graph, TaskId task) {
  bool samples = false, mixed = false;
  for (const ValueId input : graph.inputs(task)) {
    if (!input.valid()) continue;
    const ValueType& type = graph.type(input);
    samples = samples || type.batch.has_batch();
    mixed = mixed || mix_of(type, graph.batch_symbol()) != Mix::kNone;
  }
  if (mixed || graph.inputs(task).empty()) return true;
  const auto outputs = graph.outputs(task);
  return samples &&
         std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return !graph.type(v).batch.has_batch(); });
}

// Precondition of type rules. The verifier reports violations.
bool fits_its_entry(const Graph& graph, TaskId task, std::span<const ValueType* const> inputs) {
  const OpInfo& op = graph.op(task);
  const auto& attributes = graph.attributes(task);
  return op.known() && arity_fault(op, inputs, graph.outputs(task).size()).empty() &&
         op.missing(attributes) == nullptr && std::all_of(attributes.begin(), attributes.end(), [&](const auto& given) {
           return attribute_fault(op, given.first, given.second).empty();
         });
}

void fill_mixes(Graph& graph, TaskId task) {
  const std::vector<const ValueType*> inputs = type_list(graph, graph.inputs(task));
  const auto unknown = [](const ValueType* type) { return type != nullptr && !type->shape; };
  if (!fits_its_entry(graph, task, inputs) || std::any_of(inputs.begin(), inputs.end(), unknown)) return;
  const auto outputs = graph.outputs(task);
  std::vector<Equality> assumed;
  const auto types = types_of({graph.op(task), inputs, graph.attributes(task), graph.batch_symbol(),
                               static_cast<uint32_t>(outputs.size()), &assumed});
  if (!types.ok()) return;
  for (size_t i = 0; i < outputs.size(); ++i) {
    ValueType type = graph.type(outputs[i]);
    if (type.batch.has_batch() || (*types)[i].batch.has_batch() || (*types)[i].batch.mix == Mix::kNone) continue;
    type.batch.mix = (*types)[i].batch.mix;
    graph.set_type(outputs[i], std::move(type));
  }
}

}  // namespace

void fill_mixes(Graph& graph) {
  for (const ValueId value : graph.values()) {
    if (graph.type(value).batch.mix != Mix::kNone) return;
  }
  for (const TaskId task : graph.tasks()) {
    if (may_mix(graph, task)) fill_mixes(graph, task);
  }
}

}  // namespace rannc::ir
