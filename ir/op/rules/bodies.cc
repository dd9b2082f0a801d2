// Helpers of operators that run bodies.
#include "ir/op/rules/bodies.h"

#include <algorithm>
#include <map>

#include "ir/graph/views.h"

namespace rannc::ir::ops {
namespace {

bool same_place(const BatchLayout& a, const BatchLayout& b) {
  return a.axis == b.axis && a.outer == b.outer && a.inner == b.inner;
}

std::string describe(const ValueType& type) {
  std::string text = std::string(str(type.dtype)) + (type.shape ? str(*type.shape) : "[*]");
  if (type.batch.has_batch()) text += " with samples on axis " + std::to_string(type.batch.axis);
  return text;
}

// Concatenates the lowerings of tasks and renumbers their calls.
class BodyLowering {
 public:
  BodyLowering(const Graph& graph, DeviceType device) : graph_(graph), device_(device), values_(graph.value_count()) {
    for (uint32_t i = 0; i < graph.inputs().size(); ++i) values_[graph.inputs()[i].index()] = aten::Operand{i};
  }

  Result<aten::Lowering> run() {
    for (const TaskId task : graph_.tasks()) RANNC_TRY(add(task));
    for (const ValueId output : graph_.outputs()) made_.results.push_back(values_[output.index()]);
    return std::move(made_);
  }

 private:
  Result<void> add(TaskId task) {
    const auto inputs = type_list(graph_, graph_.inputs(task)), outputs = type_list(graph_, graph_.outputs(task));
    auto lowered = lowering({graph_.op(task), inputs, outputs, graph_.attributes(task), device_});
    if (!lowered.ok()) {
      Diagnostic fault = lowered.diagnostic();
      fault.where = graph_.location(task);
      return fault;
    }
    const auto first = static_cast<uint32_t>(made_.calls.size());
    for (aten::Call& call : lowered->calls) {
      for (aten::Argument& argument : call.arguments) {
        if (auto* value = std::get_if<aten::Value>(&argument.value)) *value = outside(*value, task, first);
        if (auto* list = std::get_if<std::vector<aten::Value>>(&argument.value)) {
          for (aten::Value& value : *list) value = outside(value, task, first);
        }
      }
      made_.calls.push_back(std::move(call));
    }
    for (size_t i = 0; i < lowered->results.size(); ++i) {
      values_[graph_.outputs(task)[i].index()] = outside(lowered->results[i], task, first);
    }
    return {};
  }

  // Maps a value of the task's lowering to one of the body's.
  aten::Value outside(aten::Value value, TaskId task, uint32_t first) const {
    if (auto* made = std::get_if<aten::Made>(&value)) {
      made->call += first;
      return value;
    }
    const uint32_t index = std::get<aten::Operand>(value).index;
    const auto inputs = graph_.inputs(task);
    if (index >= inputs.size() || !inputs[index].valid()) return aten::kAbsent;
    return values_[inputs[index].index()];
  }

  const Graph& graph_;
  const DeviceType device_;
  std::vector<aten::Value> values_;
  aten::Lowering made_;
};

// Values through which a gradient of an output may flow. The tape of other values is dropped with them.
std::vector<bool> leading_out(const Graph& graph) {
  std::vector<bool> leads(graph.value_count());
  const auto mark = [&](ValueId value) {
    if (value.valid() && is_float(graph.type(value).dtype)) leads[value.index()] = true;
  };
  for (const ValueId output : graph.outputs()) mark(output);
  for (uint32_t i = graph.task_count(); i-- > 0;) {
    const auto outputs = graph.outputs(TaskId(i));
    if (std::none_of(outputs.begin(), outputs.end(), [&](ValueId value) { return leads[value.index()]; })) continue;
    for (const ValueId input : graph.inputs(TaskId(i))) mark(input);
  }
  return leads;
}

}  // namespace

Result<void> check_operands(const Body& body, std::span<const ValueType* const> given) {
  const Graph& graph = body.graph();
  if (graph.inputs().size() != given.size()) {
    return error("its body takes " + std::to_string(graph.inputs().size()) + " operands, found " +
                 std::to_string(given.size()));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const ValueId input = graph.inputs()[i];
    if (given[i] == nullptr) {
      if (!graph.has_uses(input)) continue;
      return error("its body reads %" + std::string(graph.value(input).name) + ", which is absent");
    }
    const ValueType& wanted = graph.type(input);
    if (wanted.dtype == given[i]->dtype && wanted.shape == given[i]->shape && same_place(wanted.batch, given[i]->batch))
      continue;
    return error("its body takes %" + std::string(graph.value(input).name) + " as " + describe(wanted) + ", found " +
                 describe(*given[i]));
  }
  return {};
}

Result<Body> fitted(const Body& body, std::span<const ValueType* const> given, std::vector<Equality>* assumed) {
  if (body.graph().inputs().size() != given.size() || check_operands(body, given).ok()) return body;
  Graph graph = body.graph().clone();
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] == nullptr) continue;
    ValueType type = *given[i];
    type.batch.mix = Mix::kNone;
    graph.set_type(graph.inputs()[i], std::move(type));
  }
  std::vector<Assumption> known;
  for (const Equality& each : assumed != nullptr ? *assumed : std::vector<Equality>()) {
    known.push_back({each.first, each.second, {}});
  }
  graph.set_assumptions(known);
  for (const TaskId task : graph.tasks()) RANNC_TRY(infer_types(graph, task));
  if (assumed != nullptr && graph.assumptions() != known) {
    for (const Assumption& each : graph.assumptions()) assumed->emplace_back(each.left, each.right);
  }
  graph.set_assumptions({});
  return Body(std::move(graph));
}

Result<aten::Lowering> lower_body(const Body& body, DeviceType device) {
  return BodyLowering(body.graph(), device).run();
}

Work work_of_body(const Body& body) {
  Work sum;
  for (const TaskId task : body.graph().tasks()) {
    const Work work = work_of(body.graph(), task);
    sum.flops = sum.flops + work.flops;
    sum.bytes = sum.bytes + work.bytes;
  }
  return sum;
}

BodyTape tape_of_body(const Body& body, const std::vector<bool>& wanted) {
  const Graph& graph = body.graph();
  const Views views(graph);
  std::vector<bool> wants(graph.value_count()), kept(graph.value_count());
  for (size_t i = 0; i < wanted.size(); ++i) wants[graph.inputs()[i].index()] = wanted[i];
  const std::vector<bool> leads_out = leading_out(graph);
  BodyTape tape{std::vector<bool>(wanted.size()), {}, 0, 0};
  for (const TaskId task : graph.tasks()) {
    const auto inputs = graph.inputs(task), outputs = graph.outputs(task);
    uint64_t mask = 0;
    for (size_t i = 0; i < std::min<size_t>(inputs.size(), 64); ++i) {
      if (inputs[i].valid() && wants[inputs[i].index()]) mask |= uint64_t{1} << i;
    }
    const auto leads = [&](ValueId output) { return leads_out[output.index()]; };
    if (mask == 0 || std::none_of(outputs.begin(), outputs.end(), leads)) continue;
    for (const ValueId output : outputs) wants[output.index()] = is_float(graph.type(output).dtype);
    const TapeUse use = tape_use(graph, task, mask);
    tape.own_bytes = tape.own_bytes + use.own_bytes;
    tape.workspace_bytes = max(tape.workspace_bytes, use.workspace_bytes);
    for (const Kept& each : use.keeps) {
      if (each.where_wanted != Kept::kAlways && (mask >> each.where_wanted & 1) == 0) continue;
      const auto from = each.of == Kept::Of::kOperand ? inputs : outputs;
      if (each.index < from.size() && from[each.index].valid()) kept[views.base(from[each.index]).index()] = true;
    }
  }
  for (size_t i = 0; i < wanted.size(); ++i) tape.inputs[i] = kept[graph.inputs()[i].index()];
  for (const ValueId output : graph.outputs()) {
    const ValueId base = views.base(output);
    tape.outputs.push_back(kept[base.index()] || !graph.producer(base).valid());
  }
  for (const ValueId value : graph.values()) {
    if (kept[value.index()] && graph.producer(value).valid())
      tape.own_bytes = tape.own_bytes + byte_count(graph.type(value));
  }
  return tape;
}

}  // namespace rannc::ir::ops
