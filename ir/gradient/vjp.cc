#include "ir/gradient/vjp.h"

#include <algorithm>

#include "ir/graph/byte_count.h"
#include "ir/op/foreign.h"

namespace rannc::ir {

namespace {

constexpr std::string_view kPrefix = "vjp.", kResults = "vjp_results", kWanted = "vjp_wanted", kOnTape = "vjp_tape";
constexpr std::string_view kTaped = "taped.", kTapedWanted = "tape.wanted", kTapedShared = "tape.shared";

/// Number of results to repeat: all but auxiliary ones that no gradient reaches.
size_t repeated_results(const GradientCall& call) {
  const OpInfo& op = call.op();
  size_t count = call.result_count();
  const auto is_auxiliary = [&](size_t i) {
    return i < op.results.size() && op.results[i].presence == Presence::kOptional;
  };
  while (count > 1 && is_auxiliary(count - 1) && !call.gradient(count - 1).valid()) --count;
  return count;
}

/// The core operator of a name, or the entry of any foreign operator; null if it is neither.
const OpInfo* operator_of(std::string_view name) {
  const OpInfo* op = find_op(name);
  return op == nullptr && is_foreign_name(name) ? &any_foreign_op() : op;
}

std::vector<uint32_t> indices(const Attributes& attributes, std::string_view name) {
  std::vector<uint32_t> found;
  for (const int64_t index : attributes.integers(name)) found.push_back(static_cast<uint32_t>(index));
  return found;
}

uint64_t mask_of(const std::vector<uint32_t>& operands) {
  uint64_t mask = 0;
  for (const uint32_t operand : operands) mask |= operand < 64 ? uint64_t{1} << operand : 0;
  return mask;
}

/// What the tape of a call keeps. Of an operator whose entry does not specify it: float operands, and bytes for all
/// results.
TapeUse use_of(const TapeCall& call) {
  TapeUse use;
  if (call.op.tape) {
    const auto unknown = [](const ValueType* type) { return type != nullptr && !type->shape; };
    const bool known = std::none_of(call.inputs.begin(), call.inputs.end(), unknown) &&
                       std::none_of(call.outputs.begin(), call.outputs.end(), unknown);
    if (call.op.tape->rule != nullptr && known) use = call.op.tape->rule(call);
    use.keeps.insert(use.keeps.begin(), call.op.tape->keeps.begin(), call.op.tape->keeps.end());
    return use;
  }
  for (uint32_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i] != nullptr && is_float(call.inputs[i]->dtype)) use.keeps.push_back({Kept::Of::kOperand, i});
  }
  for (const ValueType* result : call.outputs) use.own_bytes = use.own_bytes + byte_count(*result);
  return use;
}

/// What the tape of a copy keeps.
struct TapeContent {
  std::vector<bool> shared;  ///< by operand, then by result: whether the tape shares its memory
  Dim own_bytes;
};

/// Wanted operands are the leaves of the tape. A kernel that needs an operand in one piece keeps a copy if it is not.
TapeContent content_of(const Graph& graph, TaskId task, const std::vector<bool>& wanted, const TapeUse& use,
                       const Views& views) {
  const auto inputs = graph.inputs(task), outputs = graph.outputs(task);
  TapeContent content{wanted, use.own_bytes};
  content.shared.resize(inputs.size() + outputs.size());
  const auto wants = [&](size_t operand) { return operand < wanted.size() && wanted[operand]; };
  for (const Kept& kept : use.keeps) {
    if (kept.where_wanted != Kept::kAlways && !wants(kept.where_wanted)) continue;
    const bool operand = kept.of == Kept::Of::kOperand;
    const auto values = operand ? inputs : outputs;
    if (kept.index >= values.size() || !values[kept.index].valid()) continue;
    const ValueId value = values[kept.index];
    if (kept.in_one_piece && views.is_scattered(value)) {
      content.own_bytes = content.own_bytes + byte_count(graph.type(value));
    } else {
      content.shared[kept.index + (operand ? 0 : inputs.size())] = true;
    }
  }
  return content;
}

Shape places_of(const std::vector<bool>& marked) {
  Shape places;
  for (size_t i = 0; i < marked.size(); ++i) {
    if (marked[i]) places.emplace_back(static_cast<int64_t>(i));
  }
  return places;
}

/// The values whose memory the tape of a `taped.…` task shares, each once.
std::vector<ValueId> shared_with_tape(const GradientCall& call) {
  std::vector<ValueId> found;
  for (const uint32_t place : indices(call.attributes().given(), kTapedShared))
    found.push_back(place < call.operand_count() ? call.operand(place) : call.result(place - call.operand_count()));
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<ValueType> gradient_types(const GradientCall& call, const Shape& wanted) {
  bool samples = false;
  for (size_t i = 0; i < call.result_count(); ++i)
    samples = samples || (call.gradient(i).valid() && call.type(call.gradient(i)).batch.is_partial());
  for (size_t i = 0; i < call.operand_count(); ++i)
    samples = samples || (call.operand(i).valid() && call.type(call.operand(i)).batch.has_batch());
  std::vector<ValueType> types;
  for (const Dim& operand : wanted) {
    types.push_back(call.type(call.operand(static_cast<size_t>(operand.constant()))));
    types.back().contents.reset();
    if (samples && !types.back().batch.has_batch()) types.back().batch.mix = Mix::kPartial;
  }
  return types;
}

}  // namespace

void add_vjp(GradientCall& call) {
  const std::string& name = call.op().name;
  const bool on_tape = name.starts_with(kTaped);
  const size_t results = on_tape ? call.result_count() - 1 : repeated_results(call);
  std::vector<ValueId> operands;
  Shape wanted;
  for (size_t i = 0; i < results; ++i) operands.push_back(call.gradient(i));
  for (size_t i = 0; i < call.operand_count(); ++i) {
    if (call.wants(i)) wanted.emplace_back(static_cast<int64_t>(i));
  }
  Attributes attributes;
  if (on_tape) {
    operands.push_back(call.result(results));
    const std::vector<ValueId> shared = shared_with_tape(call);
    operands.insert(operands.end(), shared.begin(), shared.end());
    attributes.set(kOnTape, true);
  } else {
    for (size_t i = 0; i < call.operand_count(); ++i) operands.push_back(call.operand(i));
    attributes = call.attributes().given();
  }
  attributes.set(kResults, Dim(static_cast<int64_t>(results)));
  attributes.set(kWanted, wanted);
  const std::string of = on_tape ? name.substr(kTaped.size()) : name;
  const std::vector<ValueId> made =
      call.add_foreign(std::string(kPrefix) + of, operands, std::move(attributes), gradient_types(call, wanted));
  for (size_t i = 0; i < wanted.size(); ++i) call.give(static_cast<size_t>(wanted[i].constant()), made[i]);
}

bool gradient_by_vjp(GradientCall& call) {
  add_vjp(call);
  return true;
}

std::optional<Vjp> vjp_of(const Graph& graph, TaskId task) {
  const std::string& name = graph.op(task).name;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  Vjp found;
  found.op = operator_of(std::string_view(name).substr(kPrefix.size()));
  const auto operands = graph.inputs(task);
  const auto results = static_cast<size_t>(graph.attributes(task).integer(kResults));
  const size_t tapes = graph.attributes(task).flag(kOnTape) ? 1 : 0;
  if (found.op == nullptr || results + tapes > operands.size()) return std::nullopt;
  found.gradients = operands.first(results);
  if (tapes != 0) found.tape = operands[results];
  found.operands = operands.subspan(results + tapes);
  found.wanted = indices(graph.attributes(task), kWanted);
  found.attributes = graph.attributes(task);
  for (const std::string_view own : {kResults, kWanted, kOnTape}) found.attributes.erase(own);
  return found;
}

bool keeps_tape(const OpInfo& op) {
  return op.can_be_lowered() && (op.gradient == nullptr || op.gradient == gradient_by_vjp);
}

TapedCopy taped_copy(const Graph& graph, TaskId task, const std::vector<bool>& wanted, const Views& views) {
  TapedCopy copy{std::string(kTaped) + graph.op(task).name, graph.attributes(task), {}};
  copy.attributes.set(kTapedWanted, places_of(wanted));
  const auto inputs = type_list(graph, graph.inputs(task)), outputs = type_list(graph, graph.outputs(task));
  const uint64_t mask = mask_of(indices(copy.attributes, kTapedWanted));
  const TapeUse use = use_of({graph.op(task), inputs, outputs, graph.attributes(task), mask});
  const TapeContent content = content_of(graph, task, wanted, use, views);
  copy.attributes.set(kTapedShared, places_of(content.shared));
  copy.tape.dtype = DType::kU8;
  copy.tape.shape = Shape{content.own_bytes};
  return copy;
}

std::optional<Taped> taped_of(const Graph& graph, TaskId task) {
  const std::string& name = graph.op(task).name;
  const auto outputs = graph.outputs(task);
  if (!name.starts_with(kTaped) || outputs.empty()) return std::nullopt;
  Taped found;
  found.op = operator_of(std::string_view(name).substr(kTaped.size()));
  if (found.op == nullptr) return std::nullopt;
  found.results = outputs.first(outputs.size() - 1);
  found.tape = outputs.back();
  found.wanted = indices(graph.attributes(task), kTapedWanted);
  found.shared = indices(graph.attributes(task), kTapedShared);
  found.attributes = graph.attributes(task);
  for (const std::string_view own : {kTapedWanted, kTapedShared}) found.attributes.erase(own);
  return found;
}

bool is_tape(const Graph& graph, ValueId value) {
  const TaskId maker = graph.producer(value);
  if (!maker.valid() || !graph.op(maker).name.starts_with(kTaped)) return false;
  const auto taped = taped_of(graph, maker);
  return taped && taped->tape == value;
}

std::string_view operator_name(const Graph& graph, TaskId task) {
  std::string_view name = graph.op(task).name;
  if (taped_of(graph, task)) name.remove_prefix(kTaped.size());
  return name;
}

TapeUse tape_use(const Graph& graph, const Taped& taped, TaskId task) {
  return use_of({*taped.op, type_list(graph, graph.inputs(task)), type_list(graph, taped.results), taped.attributes,
                 mask_of(taped.wanted)});
}

}  // namespace rannc::ir
