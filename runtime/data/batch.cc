#include "runtime/data/batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "ir/dim/affine.h"
#include "ir/graph/assumptions.h"
#include "ir/plan/fixed_samples.h"
#include "runtime/data/index_ranges.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

std::string describe(const TensorSpec& spec) {
  return fmt::format("{}[{}]", ir::str(spec.dtype), fmt::join(spec.shape, ","));
}

Diagnostic mismatch(const std::string& name, const TensorSpec& found, const ir::ValueType& type) {
  return error(fmt::format("batch: input '{}' is {}, but the model expects {}{}", name, describe(found),
                           ir::str(type.dtype), type.shape ? ir::str(*type.shape) : "[any shape]"));
}

// Binds the symbols of an input's sizes. Expressions are checked later, when all symbols are bound. Returns an error if
// no size of at least 1 gives an extent.
Result<void> bind_symbols(const std::string& name, const ir::ValueType& type, const TensorSpec& found,
                          ir::Bindings& bindings) {
  for (size_t i = 0; type.shape && i < type.shape->size(); ++i) {
    const ir::Dim& dim = (*type.shape)[i];
    if (ir::bind_extent(dim, found.shape[i], bindings).possible) continue;
    return mismatch(name, found, type).note(ir::impossible_extent(i, dim, found.shape[i]));
  }
  return {};
}

bool fits(const ir::ValueType& type, const TensorSpec& found, const ir::Bindings& bindings) {
  if (type.dtype != found.dtype) return false;
  if (!type.shape) return true;
  for (size_t i = 0; i < type.shape->size(); ++i) {
    if ((*type.shape)[i].evaluate(bindings) != found.shape[i]) return false;
  }
  return true;
}

bool is_needed(const std::string& name, const std::vector<std::string>& needed) {
  return needed.empty() || std::find(needed.begin(), needed.end(), name) != needed.end();
}

Diagnostic missing(const std::string& name) { return error(fmt::format("batch: input '{}' is missing", name)); }

/// Adds the symbols of a batch's shapes to `bindings` and checks every input in the batch.
/// `part`: the samples that it has, in case it is no whole mini-batch.
Result<ir::Bindings> bind_inputs(const ir::Plan& plan, const Batch& batch, const std::vector<std::string>& needed,
                                 ir::Bindings bindings, const NeededSamples* part = nullptr) {
  const ir::Graph& graph = plan.graph;
  std::vector<std::pair<std::string, ValueId>> present;
  for (const ValueId id : graph.inputs()) {
    const std::string name(graph.value(id).name);
    const auto found = batch.find(name);
    if (found == batch.end() || !is_needed(name, needed)) continue;
    const ir::ValueType& type = graph.type(id);
    const TensorSpec spec = found->second->spec();
    if (type.shape && type.shape->size() != spec.shape.size()) return mismatch(name, spec, type);
    present.emplace_back(name, id);
  }
  for (int round = 0; round < 2; ++round) {  // a sum such as `past + s` waits for the symbols of other inputs
    for (const auto& [name, id] : present) {
      RANNC_TRY(bind_symbols(name, graph.type(id), batch.at(name)->spec(), bindings));
    }
  }
  for (const auto& [name, id] : present) {
    const TensorSpec spec = batch.at(name)->spec();
    if (fits(graph.type(id), spec, bindings)) continue;
    const auto samples = bindings.find(ir::samples_symbol(graph));
    return mismatch(name, spec, graph.type(id))
        .note(fmt::format("{} {} samples",
                          part == nullptr ? "the mini-batch has" : "this process reads a part of the mini-batch,",
                          samples == bindings.end() ? plan.mini_batch : samples->second));
  }
  RANNC_TRY(ir::check_assumptions(graph, bindings));
  auto fault = find_index_fault(graph, batch, bindings, part);
  if (!fault) fault = find_mask_fault(graph, batch, bindings, part);
  if (fault) {
    return error(fmt::format("batch: input '{}' {}", fault->input, fault->message));
  }
  return bindings;
}

Result<void> check_names(const ir::Graph& graph, const Batch& batch) {
  for (const auto& entry : batch) {
    const std::string& name = entry.first;
    const auto is_input = [&](ValueId id) { return graph.value(id).name == name; };
    if (std::none_of(graph.inputs().begin(), graph.inputs().end(), is_input)) {
      std::vector<std::string> names;
      for (const ValueId id : graph.inputs()) names.push_back(fmt::format("'{}'", graph.value(id).name));
      return error(fmt::format("batch: the model has no input '{}'; its inputs are {}", name, fmt::join(names, ", ")));
    }
  }
  return {};
}

/// Returns zeros of an input's type; nullopt if one of its symbols is unbound.
std::optional<Value> zeros_of(const ir::ValueType& type, const ir::Bindings& bindings) {
  if (!type.shape) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const ir::Dim& dim : *type.shape) {
    const auto extent = dim.evaluate(bindings);
    if (!extent) return std::nullopt;
    sizes.push_back(*extent);
  }
  return to_value(at::zeros(sizes, at::TensorOptions().dtype(scalar_type(type.dtype))));
}

}  // namespace

Result<ir::Bindings> bind_batch(const ir::Plan& plan, const Batch& batch, const std::vector<std::string>& needed) {
  const ir::Graph& graph = plan.graph;
  RANNC_TRY(check_names(graph, batch));
  for (const ValueId id : graph.inputs()) {
    const std::string name(graph.value(id).name);
    if (is_needed(name, needed) && !batch.contains(name)) return missing(name);
  }
  ir::Bindings bindings;
  const std::string counted = ir::samples_symbol(graph);
  if (!counted.empty()) bindings.emplace(counted, plan.mini_batch);
  return bind_inputs(plan, batch, needed, std::move(bindings));
}

Result<ir::Bindings> bind_part(const ir::Plan& plan, const Batch& batch, const NeededSamples& needed) {
  const ir::Graph& graph = plan.graph;
  RANNC_TRY(check_names(graph, batch));
  for (const std::string& name : needed.inputs) {
    if (!batch.contains(name)) return missing(name);
  }
  ir::Bindings bindings;
  const std::string counted = ir::samples_symbol(graph);
  if (!counted.empty()) bindings.emplace(counted, needed.samples());
  RANNC_ASSIGN(bindings,
               bind_inputs(plan, batch, {needed.inputs.begin(), needed.inputs.end()}, std::move(bindings), &needed));
  if (!counted.empty()) bindings[counted] = plan.mini_batch;
  return bindings;
}

std::string sizes_beyond_plan(const ir::Plan& plan, const ir::Bindings& symbols) {
  std::string text;
  for (const auto& [symbol, planned] : plan.sizes) {
    const auto size = symbols.find(symbol);
    if (size == symbols.end() || size->second <= planned) continue;
    text += fmt::format("{}{} = {} (planned {})", text.empty() ? "" : ", ", symbol, size->second, planned);
  }
  return text;
}

std::vector<bool> read_by_outputs(const ir::Graph& graph) {
  std::vector<bool> read(graph.value_count());
  for (const ValueId output : graph.outputs()) read[output.index()] = true;
  for (size_t t = graph.task_count(); t-- > 0;) {
    const auto made = graph.outputs(TaskId::from(t));
    if (std::none_of(made.begin(), made.end(), [&](ValueId id) { return read[id.index()]; })) continue;
    for (const ValueId input : graph.inputs(TaskId::from(t))) {
      if (input.valid()) read[input.index()] = true;
    }
  }
  return read;
}

std::vector<bool> read_in_training(const ir::Graph& graph) {
  std::vector<bool> read(graph.value_count());
  for (const TaskId task : graph.tasks()) {
    for (const ValueId input : graph.inputs(task)) {
      if (input.valid() && graph.kind(input) == ir::ValueKind::kInput) read[input.index()] = true;
    }
  }
  for (const ir::Body& count : graph.totals().counts) {
    for (const ValueId input : count.graph().inputs()) read[graph.find(count.graph().value(input).name).index()] = true;
  }
  return read;
}

Result<EvaluationBatch> bind_evaluation(const ir::Plan& plan, const Batch& batch,
                                        const std::vector<std::string>& needed) {
  const ir::Graph& graph = plan.graph;
  RANNC_TRY(check_names(graph, batch));
  EvaluationBatch bound{.batch = batch, .samples = plan.mini_batch};
  // Includes inputs that this process does not read, because they determine the number of samples.
  RANNC_ASSIGN(bound.symbols, bind_inputs(plan, batch, {}, {}));
  if (const std::string counted = ir::samples_symbol(graph); !counted.empty()) {
    const auto samples = bound.symbols.emplace(counted, plan.mini_batch).first->second;
    if (samples < 1 || (samples > plan.mini_batch && !graph.batch_symbol().empty())) {
      return error(
          fmt::format("batch: has {} samples, the plan was made for 1 to {} at a time", samples, plan.mini_batch));
    }
    bound.samples = static_cast<uint32_t>(samples);
  }
  const std::vector<bool> read = read_by_outputs(graph);
  for (const ValueId id : graph.inputs()) {
    const std::string name(graph.value(id).name);
    if (batch.contains(name) || !is_needed(name, needed)) continue;
    bound.labelled = false;
    std::optional<Value> zeros;
    if (!read[id.index()]) zeros = zeros_of(graph.type(id), bound.symbols);
    if (!zeros) return missing(name);
    bound.batch.emplace(name, *std::move(zeros));
  }
  return bound;
}

bool becomes_type(ir::DType of_batch, ir::DType of_model) {
  if (ir::is_float(of_batch) || ir::is_float(of_model)) return ir::is_float(of_batch) && ir::is_float(of_model);
  return of_batch != ir::DType::kBool && of_model != ir::DType::kBool &&
         ir::byte_size(of_batch) < ir::byte_size(of_model);
}

Batch to_model_types(const ir::Plan& plan, const Batch& batch) {
  Batch converted = batch;
  for (const ValueId id : plan.graph.inputs()) {
    const auto found = converted.find(std::string(plan.graph.value(id).name));
    if (found == converted.end()) continue;
    const ir::DType wanted = plan.graph.type(id).dtype;
    if (becomes_type(found->second->spec().dtype, wanted))
      found->second = to_value(to_tensor(found->second).to(scalar_type(wanted)));
  }
  return converted;
}

Result<Value> BatchFeed::input(const Port& port, ir::SampleRange samples) {
  const auto found = batch_.find(port.name);
  if (found == batch_.end()) return error(fmt::format("batch: input '{}' is missing", port.name));
  const ir::BatchLayout& layout = port.type.batch;
  if (!layout.has_batch()) return found->second;
  const auto outer = layout.outer.evaluate(symbols_), inner = layout.inner.evaluate(symbols_);
  if (!outer || !inner) return error(fmt::format("batch: the layout of the samples in '{}' is unknown", port.name));
  return found->second->samples({layout.axis, *outer, *inner}, part_ == nullptr ? samples : part_->place_of(samples));
}

}  // namespace rannc::runtime
