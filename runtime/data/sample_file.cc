#include "runtime/data/sample_file.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "ir/dim/affine.h"
#include "ir/graph/assumptions.h"
#include "ir/plan/fixed_samples.h"
#include "runtime/data/index_ranges.h"
#include "runtime/data/internal/mapped_batch.h"
#include "runtime/data/internal/npy_folder.h"
#include "runtime/data/internal/shards.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

std::string spec_text(const TensorSpec& spec) {
  return fmt::format("{}[{}]", ir::str(spec.dtype), fmt::join(spec.shape, ","));
}

ValueId input_of(const ir::Graph& graph, const std::string& name) {
  for (const ValueId id : graph.inputs()) {
    if (graph.value(id).name == name) return id;
  }
  return {};
}

/// Returns the spec after numbers are converted to the type of the model's input.
TensorSpec as_in_model(const ir::Graph& graph, const std::string& name, TensorSpec spec) {
  const ValueId id = input_of(graph, name);
  if (id.valid() && becomes_type(spec.dtype, graph.type(id).dtype)) spec.dtype = graph.type(id).dtype;
  return spec;
}

/// Returns a copy of this element type.
Value copied(const Value& value, ir::DType type) {
  return to_value(to_tensor(value).to(scalar_type(type), /*non_blocking=*/false, /*copy=*/true));
}

/// Returns the samples in the type of the model, with others than the extent of `axis` enlarged to `extents` by
/// `number`.
Value padded(const Value& samples, ir::DType type, std::vector<int64_t> extents, int32_t axis, double number) {
  const at::Tensor own = to_tensor(samples).to(scalar_type(type));
  extents[static_cast<size_t>(axis)] = own.size(axis);
  at::Tensor all = at::full(extents, number, own.options());
  at::Tensor front = all;
  for (int64_t i = 0; i < own.dim(); ++i) front = front.narrow(i, 0, own.size(i));
  front.copy_(own);
  return to_value(std::move(all));
}

/// Whether an integer type, or that of booleans, has the number.
bool is_of_type(double number, ir::DType type) {
  if (type == ir::DType::kBool) return number == 0 || number == 1;
  const double most = std::ldexp(1, static_cast<int>(8 * ir::byte_size(type)) - 1);
  return number == std::floor(number) && number < most && (type == ir::DType::kU8 ? number >= 0 : number >= -most);
}

/// Whether all extents except that of `axis` match the type, as far as `bindings` determine them.
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

/// Whether axis 0 of a type has the extent `samples`, for models with an undivided batch.
bool leads_with(const ir::ValueType& type, const ir::Dim& samples) {
  return type.shape && !type.shape->empty() && (*type.shape)[0] == samples;
}

/// Sample axis of each tensor, and the number of samples.
class SamplePlaces {
 public:
  /// `fixed`: number of samples of a graph without a batch symbol.
  SamplePlaces(const ir::Graph& graph, std::string path, std::optional<uint64_t> fixed)
      : graph_(graph), path_(std::move(path)), symbol_(ir::samples_symbol(graph)) {
    if (!graph.batch_symbol().empty()) return;
    if (!symbol_.empty()) whole_ = ir::Dim::symbol(symbol_);
    if (symbol_.empty() && fixed) whole_ = static_cast<int64_t>(*fixed);
  }

  /// Binds the symbols of the tensors' sizes, except the batch symbol. The first tensor that determines a symbol
  /// counts.
  void bind(const std::map<std::string, TensorSpec>& specs) {
    for (int round = 0; round < 2; ++round) {  // a sum such as `past + s` waits for the symbols of other tensors
      for (const auto& [name, spec] : specs) bind(name, spec);
    }
  }

  /// Returns the sample axis of an input's tensor, after all symbols are bound. Not present for an input without
  /// samples.
  Result<SampleAxis> place(const std::string& name, ValueId id, const TensorSpec& spec) {
    const ir::ValueType& type = graph_.type(id);
    const Location where{path_, 0, 0, name};
    SampleAxis axis;
    // Beside a bundle's one sample, a tensor as the model declares it may be a sample or what all of them share.
    const bool as_declared = whole_ == ir::Dim(1) && !spec.shape.empty() && spec.shape[0] == 1;
    if (whole_ && leads_with(type, *whole_) && !as_declared) axis = {0, 1, 1};
    if (type.batch.has_batch()) {
      const auto outer = type.batch.outer.evaluate(sizes_), inner = type.batch.inner.evaluate(sizes_);
      if (!outer || !inner)
        return error(where, "the layout of its samples cannot be determined from the tensors of the file");
      axis = {type.batch.axis, *outer, *inner};
    }
    const int64_t share = axis.outer * axis.inner;
    const bool fits = !impossible_.contains(name) && fits_beside(type, spec, axis.axis, sizes_);
    if (!fits || (axis.present() && spec.shape[static_cast<size_t>(axis.axis)] % share != 0)) {
      return misfit(where, type, spec);
    }
    if (axis.present()) RANNC_TRY(count(name, axis, spec.shape[static_cast<size_t>(axis.axis)] / share));
    return axis;
  }

  /// Returns the values of all symbols of the file.
  ir::Bindings bindings() const {
    ir::Bindings all = sizes_;
    if (!counted_.empty() && !symbol_.empty()) all[symbol_] = static_cast<int64_t>(samples_);
    return all;
  }

  /// Returns the number of samples; nullopt if no tensor has a sample axis.
  std::optional<uint64_t> samples() const { return counted_.empty() ? std::nullopt : std::optional(samples_); }

 private:
  void bind(const std::string& name, const TensorSpec& spec) {
    const ValueId id = input_of(graph_, name);
    if (!id.valid() || !graph_.type(id).shape || graph_.type(id).shape->size() != spec.shape.size()) return;
    for (size_t i = 0; i < spec.shape.size(); ++i) {
      const ir::Dim& dim = (*graph_.type(id).shape)[i];
      if (!symbol_.empty() && dim.uses(symbol_)) continue;
      const ir::BoundExtent bound = ir::bind_extent(dim, spec.shape[i], sizes_);
      if (!bound.possible) impossible_.emplace(name, ir::impossible_extent(i, dim, spec.shape[i]));
      if (!bound.symbol.empty()) sized_by_.emplace(bound.symbol, name);
    }
  }
  Result<void> count(const std::string& name, const SampleAxis& axis, int64_t samples) {
    const auto found = static_cast<uint64_t>(samples);
    if (!counted_.empty() && found != samples_) {
      return error({path_, 0, 0, name}, fmt::format("has {} samples (axis {}), but '{}' has {} (axis {})", found,
                                                    axis.axis, counted_, samples_, axis_));
    }
    counted_ = name;
    axis_ = axis.axis;
    samples_ = found;
    return {};
  }

  Diagnostic misfit(const Location& where, const ir::ValueType& type, const TensorSpec& spec) const {
    Diagnostic failure =
        error(where, fmt::format("is {}, but the model expects {}{}", spec_text(spec), ir::str(type.dtype),
                                 type.shape ? ir::str(*type.shape) : "[any shape]"));
    if (const auto why = impossible_.find(where.node); why != impossible_.end()) {
      failure.notes.push_back({{}, why->second});
    }
    std::set<std::string> symbols;
    for (const ir::Dim& dim : type.shape.value_or(ir::Shape{})) dim.collect_symbols(symbols);
    for (const std::string& symbol : symbols) {
      const auto by = sized_by_.find(symbol);
      if (by == sized_by_.end() || by->second == where.node) continue;
      failure.notes.push_back({{}, fmt::format("{} is {} in '{}'", symbol, sizes_.at(symbol), by->second)});
    }
    return failure;
  }

  const ir::Graph& graph_;
  std::string path_;
  std::string symbol_;            ///< counts samples; empty: none
  std::optional<ir::Dim> whole_;  ///< extent of axis 0 that counts samples, if there is no batch symbol
  ir::Bindings sizes_;
  std::map<std::string, std::string> sized_by_;    ///< by symbol
  std::map<std::string, std::string> impossible_;  ///< by tensor: why no sizes give its extents
  std::string counted_;                            ///< the last tensor with a sample axis
  int32_t axis_ = 0;                               ///< its sample axis
  uint64_t samples_ = 0;
};

Diagnostic unknown(const ir::Graph& graph, const Location& where) {
  std::vector<std::string_view> names;
  for (const ValueId input : graph.inputs()) names.push_back(graph.value(input).name);
  return error(where, fmt::format("the model has no such input; it has {}", fmt::join(names, ", ")));
}

/// Returns an error for the first input that `use` requires and that is missing.
Result<void> check_complete(const ir::Graph& graph, const std::map<std::string, TensorSpec>& tensors, SampleUse use,
                            const std::string& path) {
  const bool trains = use != SampleUse::kEvaluation;
  const std::vector<bool> read = trains ? read_in_training(graph) : read_by_outputs(graph);
  for (const ValueId id : graph.inputs()) {
    const std::string name(graph.value(id).name);
    if (!read[id.index()] || tensors.contains(name)) continue;
    const std::string tensor = name.starts_with("labels/") ? name : "x/" + name;
    return error({path, 0, 0, {}}, fmt::format("has no tensor '{}', which the model's {}", tensor,
                                               trains ? "loss requires" : "outputs require"));
  }
  return {};
}

}  // namespace

Result<uint64_t> count_samples(const ir::Graph& graph, const std::map<std::string, TensorSpec>& tensors,
                               const std::string& path) {
  const auto fixed = ir::fixed_samples(graph);
  if (fixed && ir::samples_symbol(graph).empty()) return uint64_t{*fixed};
  SamplePlaces places(graph, path, std::nullopt);
  places.bind(tensors);
  for (const auto& [name, spec] : tensors) {
    const ValueId id = input_of(graph, name);
    if (!id.valid()) continue;
    RANNC_TRY(places.place(name, id, as_in_model(graph, name, spec)));
  }
  if (!places.samples().value_or(0)) return error({path, 0, 0, {}}, "has no samples");
  return *places.samples();
}

Result<SampleFile> SampleFile::open(const std::string& path, const ir::Plan& plan, SampleUse use,
                                    const SampleSizes& sizes) {
  const ir::Graph& graph = plan.graph;
  SampleFile file;
  file.path_ = path;
  file.mini_batch_ = plan.mini_batch;
  file.fixed_ = ir::samples_symbol(graph).empty();
  for (const ValueId id : graph.inputs()) file.types_.emplace(graph.value(id).name, graph.type(id).dtype);
  std::vector<std::string> paths = {path};
  if (!is_npy_folder(path)) {
    RANNC_ASSIGN(paths, shards_of(path, {".safetensors"}));
  }
  for (const std::string& each : paths) {
    RANNC_ASSIGN(Shard shard, file.open_shard(each, graph, use, sizes));
    RANNC_TRY(file.pad(sizes, graph, shard));
    if (!file.shards_.empty())
      RANNC_TRY(check_alike(file.shards_.front(), shard, sizes.vary || file.shards_.front().sizes == shard.sizes));
    file.shards_.push_back(std::move(shard));
  }
  RANNC_TRY(file.order(graph, sizes));
  if (use == SampleUse::kTraining && whole_mini_batches(file, file.mini_batch_) == 0) {
    return error({path, 0, 0, {}},
                 fmt::format("has {} samples{}, one mini-batch needs {}", file.samples_,
                             file.ends_of_sizes().size() > 1 ? " of several sizes" : "", file.mini_batch_));
  }
  if (file.fixed_ && use != SampleUse::kTraining) RANNC_TRY(file.check_fixed(graph));
  if (use == SampleUse::kEvaluation && !ir::undivided_symbol(graph).empty()) file.mini_batch_ = file.samples_;
  return file;
}

Result<SampleFile::Shard> SampleFile::open_shard(const std::string& path, const ir::Graph& graph, SampleUse use,
                                                 const SampleSizes& sizes) {
  RANNC_ASSIGN(const MappedBatch mapped, is_npy_folder(path) ? map_npy_folder(path) : map_batch(path));
  const Batch& all = mapped.tensors;
  SamplePlaces places(graph, path, fixed_ ? std::optional(mini_batch_) : std::nullopt);
  std::map<std::string, TensorSpec> specs;
  for (const auto& [name, value] : all) specs.emplace(name, as_in_model(graph, name, value->spec()));
  places.bind(specs);
  Shard shard{.path = path, .files = mapped.files};
  for (const auto& [name, value] : all) {
    const ValueId id = input_of(graph, name);
    if (!id.valid() && use == SampleUse::kEvaluation && name.starts_with("labels/")) {
      if (shards_.empty()) unread_.push_back(name);
      continue;
    }
    if (!id.valid()) return unknown(graph, {path, 0, 0, name});
    RANNC_ASSIGN(const SampleAxis axis, places.place(name, id, specs.at(name)));
    shard.inputs.emplace(name, Input{axis.present() ? value : copied(value, types_.at(name)), axis, {}});
  }
  for (const auto& [name, number] : sizes.pads) {
    if (!shard.inputs.contains(name)) return unknown(graph, {path, 0, 0, name});
  }
  shard.sizes = places.bindings();
  shard.sizes.erase(ir::samples_symbol(graph));
  RANNC_TRY(check_complete(graph, specs, use, path));
  shard.samples = places.samples().value_or(mini_batch_);  // no sample axis: all tensors are as exported
  if (shard.samples == 0) return error({path, 0, 0, {}}, "has no samples");
  if (fixed_ && shard.samples != mini_batch_) return shard;  // the graph's types are those of one mini-batch
  auto fault = find_index_fault(graph, all, places.bindings());
  if (!fault) fault = find_mask_fault(graph, all, places.bindings());
  if (fault && !fault->unknown) return error({path, 0, 0, fault->input}, fault->message);
  return shard;
}

Result<void> SampleFile::pad(const SampleSizes& sizes, const ir::Graph& graph, Shard& shard) const {
  if (sizes.multiple <= 1) return {};
  for (auto& [symbol, size] : shard.sizes) size = (size + sizes.multiple - 1) / sizes.multiple * sizes.multiple;
  Batch padded;
  for (auto& [name, input] : shard.inputs) {
    const Location where{shard.path, 0, 0, name};
    const ir::ValueType& type = graph.type(input_of(graph, name));
    const std::vector<int64_t>& own = input.whole->spec().shape;
    for (size_t axis = 0; axis < own.size(); ++axis) {
      if (static_cast<int32_t>(axis) == input.axis.axis && input.axis.present()) continue;
      const auto extent = (*type.shape)[axis].evaluate(shard.sizes);
      if (!extent || *extent == own[axis]) continue;
      const auto number = sizes.pads.find(name);
      if (number == sizes.pads.end() || *extent < own[axis])
        return error(where, fmt::format("has {} elements on axis {}, to be padded to {}, but no number to pad it with",
                                        own[axis], axis, *extent))
            .note(fmt::format("give --pad {}=NUMBER", name));
      if (!ir::is_float(type.dtype) && !is_of_type(number->second, type.dtype))
        return error(where, fmt::format("is padded with {}, but has whole numbers of type {}", number->second,
                                        ir::str(type.dtype)));
      if (input.padded.empty()) input.padded = own;
      input.padded[axis] = *extent;
      input.pad = number->second;
    }
    if (input.padded.empty()) continue;
    if (!input.axis.present()) return error(where, "is part of every mini-batch as a whole, so it cannot be padded");
    std::vector<int64_t> one = input.padded;
    one[static_cast<size_t>(input.axis.axis)] = input.axis.outer * input.axis.inner;
    padded.emplace(name, to_value(at::full(one, input.pad, scalar_type(type.dtype))));
  }
  ir::Bindings sample = shard.sizes;
  if (!ir::samples_symbol(graph).empty()) sample[ir::samples_symbol(graph)] = 1;
  if (const auto fault = find_index_fault(graph, padded, sample))
    return error({shard.path, 0, 0, fault->input}, "is padded with a number that does not fit: " + fault->message);
  return {};
}

Result<void> SampleFile::order(const ir::Graph& graph, const SampleSizes& sizes) {
  std::stable_sort(shards_.begin(), shards_.end(), [](const Shard& a, const Shard& b) { return a.sizes < b.sizes; });
  for (Shard& shard : shards_) {
    shard.first = samples_;
    samples_ += shard.samples;
    if (!sizes.vary && sizes.multiple <= 1) continue;
    ir::Bindings all = shard.sizes;
    if (const std::string symbol = ir::samples_symbol(graph); !symbol.empty())
      all[symbol] = static_cast<int64_t>(mini_batch_);
    if (const Result<void> possible = ir::check_assumptions(graph, all); !possible.ok())
      return error({shard.path, 0, 0, {}}, possible.diagnostic().message);
  }
  return {};
}

std::vector<uint64_t> SampleFile::ends_of_sizes() const {
  std::vector<uint64_t> ends;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (i > 0 && shards_[i].sizes == shards_[i - 1].sizes) ends.pop_back();
    ends.push_back(shards_[i].first + shards_[i].samples);
  }
  return ends;
}

Result<void> SampleFile::check_alike(const Shard& first, const Shard& other, bool sizes_vary) {
  for (const auto& [name, input] : first.inputs) {
    if (!other.inputs.contains(name))
      return error({other.path, 0, 0, {}}, fmt::format("has no tensor '{}', but {} has one", name, first.path));
  }
  for (const auto& [name, input] : other.inputs) {
    const Location where{other.path, 0, 0, name};
    const auto found = first.inputs.find(name);
    if (found == first.inputs.end())
      return error(where, fmt::format("is no tensor of {}; all files of a folder must have the same", first.path));
    const TensorSpec own = input.whole->spec(), earlier = found->second.whole->spec();
    if (!input.axis.present()) {
      if (own == earlier && to_tensor(input.whole).equal(to_tensor(found->second.whole))) continue;
      return error(
          where, fmt::format("differs from that in {}, but has no samples: it must be equal in all files", first.path));
    }
    TensorSpec expected = earlier;
    expected.shape[static_cast<size_t>(input.axis.axis)] = own.shape[static_cast<size_t>(input.axis.axis)];
    if (sizes_vary && own.shape.size() == earlier.shape.size()) expected.shape = own.shape;  // each fits the model
    if (expected == own && input.axis == found->second.axis) continue;
    Diagnostic differs =
        error(where, fmt::format("is {}, but {} in {}", spec_text(own), spec_text(earlier), first.path));
    if (first.sizes == other.sizes) return differs;
    return std::move(differs).note("with --bucket-by-length, files may have other sizes, and so have mini-batches");
  }
  return {};
}

Result<void> SampleFile::check_fixed(const ir::Graph& graph) const {
  if (const uint64_t left = samples_ % mini_batch_; left != 0) {
    return error({path_, 0, 0, {}},
                 fmt::format("has {} samples, but the bundle computes exactly {} together: {} would be left over",
                             samples_, mini_batch_, left))
        .note("provide a multiple, compile for another --mini-batch, or export the model with a dynamic batch size");
  }
  if (samples_ == mini_batch_) return {};
  for (const ValueId id : graph.outputs()) {
    if (leads_with(graph.type(id), static_cast<int64_t>(mini_batch_))) continue;
    return error({path_, 0, 0, {}},
                 fmt::format("has {} samples, but the bundle computes {} together, and axis 0 of its output '{}' "
                             "does not count samples, so that mini-batches cannot be concatenated",
                             samples_, mini_batch_, graph.value(id).name));
  }
  return {};
}

std::vector<SampleFile::Run> SampleFile::runs(std::span<const uint64_t> numbers) const {
  std::vector<Run> runs;
  for (const uint64_t number : numbers) {
    RANNC_CHECK(number < samples_) << number << " of " << samples_;
    const auto after = std::upper_bound(shards_.begin(), shards_.end(), number,
                                        [](uint64_t wanted, const Shard& shard) { return wanted < shard.first; });
    const Shard& shard = *std::prev(after);
    const auto own = static_cast<int64_t>(number - shard.first);
    if (!runs.empty() && runs.back().shard == &shard && runs.back().range.last == own) {
      ++runs.back().range.last;
    } else {
      runs.push_back({&shard, {own, own + 1}});
    }
  }
  return runs;
}

Result<Batch> SampleFile::read(std::span<const uint64_t> numbers, const std::set<std::string>& inputs) const {
  const std::vector<Run> parts = runs(numbers);
  for (const Run& part : parts) {
    if (&part != &parts.front() && part.shard == std::prev(&part)->shard) continue;
    for (const auto& file : part.shard->files) RANNC_TRY(file->check());
  }
  Batch batch;
  for (const auto& [name, input] : shards_.front().inputs) {
    if (!inputs.empty() && !inputs.contains(name)) continue;
    if (!input.axis.present()) {
      batch.emplace(name, input.whole);
      continue;
    }
    Values values;
    for (const Run& part : parts) {
      const Input& own = part.shard->inputs.at(name);
      values.push_back(own.whole->samples(own.axis, part.range));
      if (!own.padded.empty())
        values.back() = padded(values.back(), types_.at(name), own.padded, own.axis.axis, own.pad);
    }
    const ir::DType type = types_.at(name);
    batch.emplace(name, values.size() == 1
                            ? copied(values[0], type)
                            : to_value(to_tensor(values[0]->joined(values, input.axis)).to(scalar_type(type))));
  }
  return batch;
}

Batch SampleFile::batch(uint64_t first, uint64_t last) const {
  RANNC_CHECK(first < last && last <= samples_ && last - first <= mini_batch_) << "a mini-batch of the file";
  std::vector<uint64_t> numbers(last - first);
  std::iota(numbers.begin(), numbers.end(), first);
  return read(numbers).value();
}

std::string SampleFile::describe() const {
  std::string text = fmt::format("{} samples", samples_);
  if (shards_.size() > 1) text += fmt::format(" of {} files", shards_.size());
  if (const size_t sizes = ends_of_sizes().size(); sizes > 1) text += fmt::format(" in {} sizes", sizes);
  if (fixed_ && samples_ > mini_batch_) {
    text += fmt::format(" on axis 0 (the model has a fixed batch of {} and does not specify the axis)", mini_batch_);
  }
  return text;
}

}  // namespace rannc::runtime
