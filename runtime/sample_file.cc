#include "runtime/sample_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/dataset.h"

namespace rannc::runtime {

namespace {

std::string describe(const TensorSpec& spec) {
  return fmt::format("{}[{}]", ir::str(spec.dtype), fmt::join(spec.shape, ","));
}

ValueId input_of(const ir::Graph& graph, const std::string& name) {
  for (const ValueId id : graph.inputs()) {
    if (graph.value(id).name == name) return id;
  }
  return {};
}

/// Sizes that stand alone in a dimension, but for the samples.
ir::Bindings sizes_in(const ir::Graph& graph, const Batch& batch) {
  ir::Bindings bindings;
  for (const auto& [name, value] : batch) {
    const ValueId id = input_of(graph, name);
    const TensorSpec spec = value->spec();
    if (!id.valid() || !graph.type(id).shape || graph.type(id).shape->size() != spec.shape.size()) continue;
    for (size_t i = 0; i < spec.shape.size(); ++i) {
      const ir::Dim& dim = (*graph.type(id).shape)[i];
      if (dim.is_symbol() && dim.symbol_name() != graph.batch_symbol())
        bindings.emplace(dim.symbol_name(), spec.shape[i]);
    }
  }
  return bindings;
}

/// Whether all extents but that of `axis` are the type's, as far as `bindings` tell them.
bool fits_beside(const ir::ValueType& type, const TensorSpec& spec, int32_t axis, const ir::Bindings& bindings) {
  if (type.dtype != spec.dtype) return false;
  if (!type.shape) return true;
  if (type.shape->size() != spec.shape.size()) return false;
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    const auto expected = (*type.shape)[i].evaluate(bindings);
    if (static_cast<int32_t>(i) != axis && expected && *expected != spec.shape[i]) return false;
  }
  return true;
}

/// Whether a type of a model with a fixed batch has so many samples in front.
bool leads_with(const ir::ValueType& type, uint64_t samples) {
  return type.shape && !type.shape->empty() && (*type.shape)[0] == ir::Dim(static_cast<int64_t>(samples));
}

}  // namespace

Result<SampleFile> SampleFile::open(const std::string& path, const ir::Plan& plan) {
  RANNC_ASSIGN(const Batch raw, read_batch(path));
  const Batch all = to_model_types(plan, raw);
  const ir::Graph& graph = plan.graph;
  SampleFile file;
  file.path_ = path;
  file.mini_batch_ = plan.mini_batch;
  file.fixed_ = graph.batch_symbol().empty();
  const ir::Bindings sizes = sizes_in(graph, all);
  for (const auto& [name, value] : all) RANNC_TRY(file.add(graph, name, value, sizes));
  const std::vector<bool> read = read_by_outputs(graph);
  for (const ValueId id : graph.inputs()) {
    const std::string name(graph.value(id).name);
    if (!read[id.index()] || file.inputs_.contains(name)) continue;
    return error({path, 0, 0, {}}, fmt::format("has no tensor 'x/{}', which the model's outputs are made of", name));
  }
  if (file.counted_.empty()) file.samples_ = file.mini_batch_;  // nothing counts samples: all is as exported
  if (file.samples_ == 0) return error({path, 0, 0, {}}, "has no samples");
  if (file.fixed_) RANNC_TRY(file.check_fixed(graph));
  return file;
}

Result<void> SampleFile::add(const ir::Graph& graph, const std::string& name, Value value, const ir::Bindings& sizes) {
  const ValueId id = input_of(graph, name);
  if (!id.valid() && name.starts_with("labels/")) {
    unread_.push_back(name);
    return {};
  }
  const Location where{path_, 0, 0, name};
  if (!id.valid()) {
    std::vector<std::string_view> names;
    for (const ValueId input : graph.inputs()) names.push_back(graph.value(input).name);
    return error(where, fmt::format("the model has no such input; it has {}", fmt::join(names, ", ")));
  }
  const ir::ValueType& type = graph.type(id);
  const TensorSpec spec = value->spec();
  SampleAxis axis;
  if (fixed_ && leads_with(type, mini_batch_)) axis = {0, 1, 1};
  if (type.batch.has_batch()) {
    const auto outer = type.batch.outer.evaluate(sizes), inner = type.batch.inner.evaluate(sizes);
    if (!outer || !inner) return error(where, "where its samples lie does not follow from the tensors of the file");
    axis = {type.batch.axis, *outer, *inner};
  }
  const int64_t share = axis.outer * axis.inner;
  const bool fits = fits_beside(type, spec, axis.axis, sizes);
  if (!fits || (axis.present() && spec.shape[static_cast<size_t>(axis.axis)] % share != 0)) {
    return error(where, fmt::format("is {}, but the model takes {}{}", describe(spec), ir::str(type.dtype),
                                    type.shape ? ir::str(*type.shape) : "[any shape]"));
  }
  if (axis.present()) RANNC_TRY(count(name, spec.shape[static_cast<size_t>(axis.axis)] / share));
  inputs_.emplace(name, Input{std::move(value), axis});
  return {};
}

Result<void> SampleFile::count(const std::string& name, int64_t samples) {
  const auto found = static_cast<uint64_t>(samples);
  if (!counted_.empty() && found != samples_) {
    return error({path_, 0, 0, name}, fmt::format("has {} samples, but '{}' has {}", found, counted_, samples_));
  }
  counted_ = name;
  samples_ = found;
  return {};
}

Result<void> SampleFile::check_fixed(const ir::Graph& graph) const {
  if (const uint64_t left = samples_ % mini_batch_; left != 0) {
    return error({path_, 0, 0, {}},
                 fmt::format("has {} samples, but the model was exported for {} at a time: {} would be left over", samples_,
                             mini_batch_, left))
        .note("export the model with a dynamic batch, or hand over a multiple");
  }
  if (samples_ == mini_batch_) return {};
  for (const ValueId id : graph.outputs()) {
    if (leads_with(graph.type(id), mini_batch_)) continue;
    return error({path_, 0, 0, {}},
                 fmt::format("has {} samples, but the model was exported for {} at a time, and its output '{}' does not "
                             "count them in front, so that several mini-batches cannot be put together",
                             samples_, mini_batch_, graph.value(id).name));
  }
  return {};
}

Batch SampleFile::batch(uint64_t first, uint64_t last) const {
  RANNC_CHECK(first < last && last <= samples_ && last - first <= mini_batch_) << "a mini-batch of the file";
  Batch batch;
  for (const auto& [name, input] : inputs_) {
    const ir::SampleRange range{static_cast<int64_t>(first), static_cast<int64_t>(last)};
    batch.emplace(name, input.axis.present() ? input.whole->samples(input.axis, range) : input.whole);
  }
  return batch;
}

}  // namespace rannc::runtime
