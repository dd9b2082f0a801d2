#include "tools/compiler/synthetic_samples.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "ir/base/split_mix.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "runtime/aten/torch_types.h"
#include "runtime/execute/random.h"

namespace rannc::tools {

namespace {

constexpr float kShareOfOnes = 0.7F;

/// Hashes a name identically on every machine, unlike std::hash.
uint64_t key_of(std::string_view name) {
  uint64_t key = 0;
  for (const char c : name) key = ir::split_mix(key ^ static_cast<unsigned char>(c));
  return key;
}

/// Position of the samples in a tensor.
struct Split {
  int64_t before = 1, samples = 1, after = 1;
  Split(at::IntArrayRef shape, const ir::BatchLayout& layout, const ir::Bindings& sizes) {
    const auto axis = static_cast<size_t>(layout.axis);
    const int64_t outer = layout.outer.evaluate(sizes).value_or(1), inner = layout.inner.evaluate(sizes).value_or(1);
    before = c10::multiply_integers(shape.slice(0, axis)) * outer;
    after = c10::multiply_integers(shape.slice(axis + 1)) * inner;
    samples = shape[axis] / (outer * inner);
  }
};

/// Returns the smallest extent that elements of the operand may index.
std::optional<int64_t> extent_behind(const ir::Graph& graph, TaskId task, size_t operand, const ir::Bindings& sizes) {
  const ir::OpAttributes attributes(graph.op(task), graph.attributes(task));
  if (operand == 0) return attributes.declares("depth") ? std::optional(attributes.integer("depth")) : std::nullopt;
  const ValueId table = graph.inputs(task)[0];
  if (!table.valid() || !graph.type(table).shape || graph.type(table).shape->empty()) return std::nullopt;
  const ir::Shape& shape = *graph.type(table).shape;
  std::vector<int64_t> extents;
  for (const ir::Dim& dim : shape) extents.push_back(dim.evaluate(sizes).value_or(1));
  if (!attributes.declares("axis")) {
    // Numbers must not depend on how many samples are drawn.
    const ir::BatchLayout& layout = graph.type(table).batch;
    if (layout.has_batch() && extents.size() > 1) extents.erase(extents.begin() + layout.axis);
    return *std::min_element(extents.begin(), extents.end());
  }
  const int64_t axis = attributes.integer("axis");
  return extents[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(extents.size()) : axis)];
}

}  // namespace

std::optional<int64_t> index_limit(const ir::Graph& graph, ValueId input, const ir::Bindings& sizes) {
  static const ir::Ops kRearranges = {"cast",    "identity", "reshape", "unsqueeze", "squeeze", "expand",
                                      "permute", "slice",    "concat",  "tile",      "pad"};
  std::optional<int64_t> limit;
  std::vector<ValueId> open = {input};
  std::set<ValueId> seen(open.begin(), open.end());
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    graph.for_each_use(value, [&](ir::Graph::Use use) {
      const ir::OpInfo& op = graph.op(use.task);
      if (!op.known()) return;
      if (op.operand(use.operand).role == ir::Role::kIndex) {
        const auto extent = extent_behind(graph, use.task, use.operand, sizes);
        if (extent) limit = std::min(limit.value_or(*extent), *extent);
      }
      if (!kRearranges.contains(op)) return;
      for (const ValueId output : graph.outputs(use.task)) {
        if (seen.insert(output).second) open.push_back(output);
      }
    });
  }
  return limit;
}

at::Tensor by_sample(const at::Tensor& tensor, const ir::BatchLayout& layout, const ir::Bindings& sizes) {
  const Split split(tensor.sizes(), layout, sizes);
  return tensor.reshape({split.before, split.samples, split.after});
}

SyntheticSamples::SyntheticSamples(const ir::Graph& graph, ir::Bindings symbols, Kind kind)
    : graph_(graph), symbols_(std::move(symbols)), kind_(kind) {}

ir::Bindings SyntheticSamples::sizes(int64_t samples) const {
  ir::Bindings sizes = symbols_;
  if (!graph_.batch_symbol().empty()) sizes[graph_.batch_symbol()] = samples;
  return sizes;
}

Result<runtime::GraphValues> SyntheticSamples::of(int64_t first, int64_t count) const {
  runtime::GraphValues values(graph_.value_count());
  for (const ValueId value : graph_.values()) {
    const ir::ValueKind kind = graph_.kind(value);
    if (kind != ir::ValueKind::kInput && kind != ir::ValueKind::kRandomInput) continue;
    RANNC_ASSIGN(values[value.index()], tensor(value, first, count));
  }
  return values;
}

Result<at::Tensor> SyntheticSamples::tensor(ValueId id, int64_t first, int64_t count) const {
  const ir::Graph::Value value = graph_.value(id);
  const ir::Bindings sizes = this->sizes(count);
  std::vector<int64_t> shape;
  if (!value.type.shape) return error(fmt::format("the rank of %{} is not known", value.name));
  for (const ir::Dim& dim : *value.type.shape) {
    const auto extent = dim.evaluate(sizes);
    if (!extent) return error(fmt::format("the size {} of %{} is not known", dim.str(), value.name));
    shape.push_back(*extent);
  }
  const ir::BatchLayout& layout = value.type.batch;
  const int64_t rows = layout.has_batch() ? count : 1;
  const int64_t elements = c10::multiply_integers(shape) / std::max<int64_t>(rows, 1);
  const bool is_float = ir::is_float(value.type.dtype), plain = kind_ == Kind::kPlain;
  ir::RandomInput random_input{.of = is_float && !plain ? ir::RandomInput::Of::kNormal : ir::RandomInput::Of::kUniform,
                               .key = key_of(value.name)};
  if (const ir::RandomInput* const own = graph_.random_input(id)) random_input = *own;
  at::Tensor numbers = at::empty({rows, elements}, at::kFloat);
  for (int64_t i = 0; i < rows; ++i) {
    const uint64_t sample = layout.has_batch() ? static_cast<uint64_t>(first + i) : 0;
    runtime::fill(random_input, {}, sample, {numbers.data_ptr<float>() + i * elements, static_cast<size_t>(elements)});
  }
  if (is_float) {
    numbers = numbers.to(at::kDouble);
  } else {
    const auto limit = value.type.dtype == ir::DType::kBool ? std::nullopt : index_limit(graph_, id, sizes);
    at::Tensor whole = limit ? at::floor(numbers * static_cast<double>(*limit)) : at::lt(numbers, kShareOfOnes);
    if (!limit && elements > 0) whole.narrow(1, 0, plain ? elements : 1).fill_(1);
    numbers = whole.to(runtime::scalar_type(value.type.dtype));
  }
  if (!layout.has_batch()) return numbers.reshape(shape);
  const Split split(shape, layout, sizes);
  return numbers.reshape({rows, split.before, split.after}).permute({1, 0, 2}).reshape(shape);
}

}  // namespace rannc::tools
