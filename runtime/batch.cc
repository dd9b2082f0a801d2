#include "runtime/batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

// Binds what stands alone in a dimension; checks of expressions come when all symbols are known.
void bind_symbols(const ir::Shape& shape, const TensorSpec& found, ir::Bindings& bindings) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i].is_symbol()) bindings.emplace(shape[i].symbol_name(), found.shape[i]);
  }
}

bool fits(const ir::ValueType& type, const TensorSpec& found, const ir::Bindings& bindings) {
  if (type.dtype != found.dtype) return false;
  if (!type.shape) return true;
  for (size_t i = 0; i < type.shape->size(); ++i) {
    if ((*type.shape)[i].evaluate(bindings) != found.shape[i]) return false;
  }
  return true;
}

}  // namespace

Result<ir::Bindings> bind_batch(const ir::Plan& plan, const Batch& batch, const std::vector<std::string>& needed) {
  const ir::Graph& graph = plan.graph;
  ir::Bindings bindings;
  if (!graph.batch_symbol().empty()) bindings.emplace(graph.batch_symbol(), plan.mini_batch);
  for (const auto& [name, value] : batch) {
    const auto is_input = [&](ValueId id) { return graph.value(id).name == name; };
    if (std::none_of(graph.inputs().begin(), graph.inputs().end(), is_input)) {
      return error(fmt::format("batch: the model has no input '{}'", name));
    }
  }
  std::vector<std::pair<std::string, ValueId>> present;
  for (const ValueId id : graph.inputs()) {
    const std::string name(graph.value(id).name);
    if (!needed.empty() && std::find(needed.begin(), needed.end(), name) == needed.end()) continue;
    const auto found = batch.find(name);
    if (found == batch.end()) return error(fmt::format("batch: input '{}' is missing", name));
    const ir::ValueType& type = graph.type(id);
    const TensorSpec spec = found->second->spec();
    if (type.shape && type.shape->size() != spec.shape.size()) return mismatch(name, spec, type);
    if (type.shape) bind_symbols(*type.shape, spec, bindings);
    present.emplace_back(name, id);
  }
  for (const auto& [name, id] : present) {
    const TensorSpec spec = batch.at(name)->spec();
    if (fits(graph.type(id), spec, bindings)) continue;
    return mismatch(name, spec, graph.type(id))
        .note(fmt::format("the plan was made for mini-batches of {} samples", plan.mini_batch));
  }
  return bindings;
}

Batch to_model_types(const ir::Plan& plan, const Batch& batch) {
  Batch converted = batch;
  for (const ValueId id : plan.graph.inputs()) {
    const auto found = converted.find(std::string(plan.graph.value(id).name));
    if (found == converted.end() || !ir::is_float(plan.graph.type(id).dtype)) continue;
    const at::Tensor& tensor = to_tensor(found->second);
    if (tensor.is_floating_point()) found->second = to_value(tensor.to(to_scalar_type(plan.graph.type(id).dtype)));
  }
  return converted;
}

Result<double> loss_denominator(const ir::Plan& plan, const ir::LossTerm& term, const Batch& batch) {
  using Denominator = ir::LossTerm::Denominator;
  if (term.denominator == Denominator::kOne) return 1.0;
  if (term.denominator == Denominator::kSamples) return static_cast<double>(plan.mini_batch);
  const std::string name(plan.graph.value(term.labels).name);
  const auto found = batch.find(name);
  if (found == batch.end()) return error(fmt::format("batch: labels '{}' are missing", name));
  const at::Tensor& labels = to_tensor(found->second);
  if (term.denominator == Denominator::kElements) return static_cast<double>(labels.numel());
  const auto counted = labels.ne(term.ignore_index).sum().item<int64_t>();
  if (counted == 0) {
    return error(fmt::format("batch: all labels of '{}' are {} (ignored), so the mean loss is undefined", name,
                             term.ignore_index));
  }
  return static_cast<double>(counted);
}

Result<Value> BatchFeed::input(const Port& port, ir::SampleRange samples) {
  const auto found = batch_.find(port.name);
  if (found == batch_.end()) return error(fmt::format("batch: input '{}' is missing", port.name));
  const ir::BatchLayout& layout = port.type.batch;
  if (!layout.has_batch()) return found->second;
  const auto outer = layout.outer.evaluate(symbols_), inner = layout.inner.evaluate(symbols_);
  if (!outer || !inner) return error(fmt::format("batch: the place of the samples in '{}' is not known", port.name));
  return found->second->samples({layout.axis, *outer, *inner}, samples);
}

}  // namespace rannc::runtime
