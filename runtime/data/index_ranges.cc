#include "runtime/data/index_ranges.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ir/graph/constant.h"
#include "ir/match/match.h"
#include "ir/op/fold.h"
#include "ir/op/valid_indices.h"
#include "runtime/internal/torch_value.h"

namespace rannc::runtime {

namespace {

constexpr int64_t kMostComputed = int64_t{1} << 20;

/// Whether a task keeps the position of each element in memory.
bool keeps_order(const ir::OpInfo& op) {
  static const ir::Ops kOps = {"identity", "cast", "reshape", "squeeze", "unsqueeze", "where",        "add",
                               "sub",      "mod",  "maximum", "minimum", "clamp",     "stop_gradient"};
  return kOps.contains(op);
}

/// Returns the range of a task's indices; nullopt if it has none, or another for each component.
std::optional<ir::ValidIndices> range_of(const ir::Graph& graph, TaskId task, const ir::Bindings& bindings) {
  const auto ranges = ir::valid_indices(graph, task, bindings);
  return ranges.size() == 1 ? std::optional(ranges[0]) : std::nullopt;
}

/// Integer values of a step that are computed from inputs and constants.
class Numbers {
 public:
  Numbers(const ir::Graph& graph, const Batch& batch, const ir::Bindings& bindings)
      : graph_(graph), batch_(batch), bindings_(bindings) {}

  /// Returns the tensor of an integer input of the batch; undefined otherwise.
  at::Tensor input(ValueId value) const {
    if (graph_.kind(value) != ir::ValueKind::kInput) return {};
    const auto found = batch_.find(std::string(graph_.value(value).name));
    if (found == batch_.end() || !ir::is_integer(graph_.type(value).dtype)) return {};
    return to_tensor(found->second);
  }

  /// Returns the value, or null if it is unknown.
  const ir::StoredTensor* of(ValueId value) {
    const auto [known, fresh] = made_.try_emplace(value);
    if (fresh) known->second = make(value);
    return known->second ? &*known->second : nullptr;
  }

  bool has(ValueId input) const { return batch_.contains(std::string(graph_.value(input).name)); }

  /// An input that a value is computed from; invalid: there is none.
  ValueId any_input(ValueId value) const {
    if (graph_.kind(value) == ir::ValueKind::kInput) return value;
    if (!graph_.producer(value).valid() || graph_.type(value).contents) return {};
    for (const ValueId operand : graph_.inputs(graph_.producer(value))) {
      const ValueId found = operand.valid() ? any_input(operand) : ValueId();
      if (found.valid()) return found;
    }
    return {};
  }

  /// Collects the inputs that a value is computed from. Returns false if a task in between moves elements.
  bool inputs_of(ValueId value, std::vector<ValueId>& inputs) const {
    if (graph_.kind(value) == ir::ValueKind::kInput) {
      inputs.push_back(value);
      return true;
    }
    const TaskId task = graph_.producer(value);
    if (!task.valid()) return true;
    const size_t before = inputs.size();
    bool kept = keeps_order(graph_.op(task));
    for (const ValueId operand : graph_.inputs(task)) {
      if (operand.valid() && ir::is_integer(graph_.type(operand).dtype)) kept = inputs_of(operand, inputs) && kept;
    }
    return kept || inputs.size() == before;
  }

 private:
  std::optional<ir::ValueType> bound(const ir::ValueType& type) const {
    if (!type.shape) return std::nullopt;
    ir::ValueType fixed{type.dtype, ir::Shape{}, {}, {}};
    int64_t count = 1;
    for (const ir::Dim& dim : *type.shape) {
      const auto size = dim.evaluate(bindings_);
      if (!size || *size < 0 || (*size > 0 && count > kMostComputed / *size)) return std::nullopt;
      count *= *size;
      fixed.shape->push_back(*size);
    }
    return fixed;
  }

  std::optional<ir::Attributes> bound(const ir::Attributes& attributes) const {
    ir::Attributes fixed = attributes;
    for (const auto& [name, attribute] : attributes) {
      if (const auto* dim = std::get_if<ir::Dim>(&attribute)) {
        const auto size = dim->evaluate(bindings_);
        if (!size) return std::nullopt;
        fixed.set(name, ir::Dim(*size));
      }
      if (const auto* dims = std::get_if<ir::Shape>(&attribute)) {
        ir::Shape sizes;
        for (const ir::Dim& dim : *dims) {
          const auto size = dim.evaluate(bindings_);
          if (!size) return std::nullopt;
          sizes.push_back(*size);
        }
        fixed.set(name, std::move(sizes));
      }
    }
    return fixed;
  }

  std::optional<ir::StoredTensor> make(ValueId value) {
    const ir::Graph::Value found = graph_.value(value);
    if (ir::is_float(found.type.dtype)) return std::nullopt;
    auto type = bound(found.type);
    if (!type) return std::nullopt;
    if (found.kind == ir::ValueKind::kInput) return of_input(value, *type);
    if (found.kind == ir::ValueKind::kConstant && found.data.present()) return ir::StoredTensor{*type, found.data};
    if (found.type.contents) return of_contents(*found.type.contents, *type);
    if (!found.producer.valid()) return std::nullopt;
    return computed(found.producer, found.output_index);
  }

  /// Evaluates the symbolic contents of an integer value's type.
  std::optional<ir::StoredTensor> of_contents(const ir::Contents& contents, const ir::ValueType& type) const {
    std::vector<int64_t> elements;
    for (const ir::Dim& dim : contents) {
      const auto element = dim.evaluate(bindings_);
      if (!element) return std::nullopt;
      elements.push_back(*element);
    }
    if (ir::static_count(type) != static_cast<int64_t>(elements.size())) return std::nullopt;
    return ir::StoredTensor{type, ir::encode_integers(type.dtype, elements)};
  }

  std::optional<ir::StoredTensor> of_input(ValueId value, const ir::ValueType& type) const {
    const auto batch = batch_.find(std::string(graph_.value(value).name));
    if (batch == batch_.end()) return std::nullopt;
    const at::Tensor wide = to_tensor(batch->second).to(at::kLong).contiguous();
    if (ir::static_count(type) != wide.numel()) return std::nullopt;
    const int64_t* const first = wide.const_data_ptr<int64_t>();
    return ir::StoredTensor{type, ir::encode_integers(type.dtype, {first, static_cast<size_t>(wide.numel())})};
  }

  std::optional<ir::StoredTensor> computed(TaskId task, uint32_t index) {
    static const ir::Ops kRange = {"range"};
    if (kRange.contains(graph_.op(task))) return counted(task);
    if (!graph_.op(task).known() || graph_.op(task).fold == nullptr) return std::nullopt;
    std::vector<const ir::StoredTensor*> operands;
    for (const ValueId input : graph_.inputs(task)) {
      operands.push_back(input.valid() ? of(input) : nullptr);
      if (input.valid() && operands.back() == nullptr) return std::nullopt;
    }
    std::vector<ir::ValueType> types;
    for (const ValueId output : graph_.outputs(task)) {
      const auto type = bound(graph_.type(output));
      if (!type) return std::nullopt;
      types.push_back(*type);
    }
    const auto attributes = bound(graph_.attributes(task));
    if (!attributes) return std::nullopt;
    auto results = ir::fold_integers(graph_.op(task), operands, *attributes, types);
    if (!results) return std::nullopt;
    return std::move((*results)[index]);
  }

  /// A range between sizes.
  std::optional<ir::StoredTensor> counted(TaskId task) const {
    const auto type = bound(graph_.type(graph_.outputs(task)[0]));
    const auto attributes = bound(graph_.attributes(task));
    if (!type || !attributes || !graph_.inputs(task).empty()) return std::nullopt;
    std::vector<int64_t> elements(static_cast<size_t>((*type->shape)[0].constant()));
    int64_t next = attributes->integer("start");
    for (int64_t& element : elements) {
      element = next;
      next += attributes->integer("delta", 1);
    }
    return ir::StoredTensor{*type, ir::encode_integers(type->dtype, elements)};
  }

  const ir::Graph& graph_;
  const Batch& batch_;
  const ir::Bindings& bindings_;
  std::map<ValueId, std::optional<ir::StoredTensor>> made_;
};

/// Returns the position of the first invalid index, if any.
std::optional<size_t> first_outside(std::span<const int64_t> numbers, const ir::ValidIndices& range) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!range.holds(numbers[i])) return i;
  }
  return std::nullopt;
}

class Search {
 public:
  Search(const ir::Graph& graph, const Batch& batch, const ir::Bindings& bindings, const NeededSamples* part)
      : graph_(graph), bindings_(bindings), numbers_(graph, batch, bindings) {
    if (part != nullptr) samples_ = part->numbers();
  }

  std::optional<IndexFault> run() {
    for (const TaskId task : graph_.tasks()) {
      const auto range = range_of(graph_, task, bindings_);
      if (!range) continue;
      if (auto fault = judge(graph_.inputs(task)[1], *range)) return fault;
    }
    return std::nullopt;
  }

  std::optional<IndexFault> find_mask() {
    static const ir::Ops kAttention = {"attention"};
    std::set<ValueId> judged;
    for (const TaskId task : graph_.tasks()) {
      if (!kAttention.contains(graph_.op(task))) continue;
      const std::string checked = ir::OpAttributes(graph_.op(task), graph_.attributes(task)).text("checked");
      const ValueId mask = checked.empty() ? ValueId() : graph_.inputs(task)[3];
      if (!mask.valid() || !judged.insert(mask).second) continue;
      if (auto fault = judge_mask(mask, checked == "rows_of_ones")) return fault;
    }
    return std::nullopt;
  }

 private:
  /// Whole numbers of a value in row-major order, and its sizes.
  struct Elements {
    std::vector<int64_t> numbers, shape;
  };
  std::optional<Elements> elements(ValueId value) {
    const ir::StoredTensor* const made = numbers_.of(value);
    if (made == nullptr) return std::nullopt;
    auto found = ir::decode_integers(made->type, made->data, kMostComputed);
    if (!found.ok()) return std::nullopt;
    Elements all{*std::move(found), {}};
    for (const ir::Dim& dim : *made->type.shape) all.shape.push_back(dim.constant());
    return all;
  }

  std::optional<IndexFault> judge_mask(ValueId mask, bool of_ones) {
    const ValueId input = numbers_.any_input(mask);
    if (!input.valid() || !numbers_.has(input)) return std::nullopt;
    const std::string name(graph_.value(input).name);
    const auto all = elements(mask);
    if (!all) {
      return IndexFault{name,
                        fmt::format("masks attention, and it cannot be checked that each sample sees a place, as more "
                                    "than {} elements would be computed: compile with --no-fuse attention",
                                    kMostComputed),
                        true};
    }
    const auto row = all->numbers.empty() ? 0 : static_cast<size_t>(all->shape.back());
    for (size_t first = 0; first < all->numbers.size(); first += row) {
      const auto* const start = &all->numbers[first];
      if (std::any_of(start, start + row, [](int64_t each) { return each != 0; })) continue;
      return mask_fault(name, "hides every place", sample_of(graph_.type(mask), all->shape, first),
                        "of which fused attention has no gradient: leave such samples out, or compile with --no-fuse "
                        "attention");
    }
    if (!of_ones) return std::nullopt;
    const ValueId stands = graph_.inputs(graph_.producer(mask))[0];
    const auto given = elements(stands);
    for (size_t i = 0; given && i < given->numbers.size(); ++i) {
      if (given->numbers[i] == 0 || given->numbers[i] == 1) continue;
      return mask_fault(name, fmt::format("holds {}", given->numbers[i]),
                        sample_of(graph_.type(stands), given->shape, i),
                        "but it masks attention: 1 stands for a place that is seen, 0 for a hidden one");
    }
    return std::nullopt;
  }

  IndexFault mask_fault(const std::string& input, const std::string& what, std::optional<int64_t> sample,
                        const char* why) const {
    const std::string where = sample ? fmt::format(" in sample {}", number_of(*sample)) : "";
    return {input, fmt::format("{}{}, {}", what, where, why)};
  }

  std::optional<IndexFault> judge(ValueId indices, const ir::ValidIndices& range) {
    if (const at::Tensor tensor = numbers_.input(indices); tensor.defined()) return judge_input(indices, tensor, range);
    std::vector<ValueId> inputs;
    const bool kept = graph_.producer(indices).valid() && numbers_.inputs_of(indices, inputs);
    if (inputs.empty()) return std::nullopt;
    const auto found = elements(indices);
    const auto at = found ? first_outside(found->numbers, range) : std::nullopt;
    if (!at) return std::nullopt;
    const auto given = kept ? elements(inputs[0]) : std::nullopt;
    const bool same = given && given->numbers.size() == found->numbers.size();
    const int64_t value = (same ? given : found)->numbers[*at];
    return fault(inputs[0], value, sample_of(graph_.type(indices), found->shape, *at), range, !same);
  }

  std::optional<IndexFault> judge_input(ValueId input, const at::Tensor& tensor, const ir::ValidIndices& range) {
    if (tensor.numel() == 0) return std::nullopt;
    const at::Tensor wide = tensor.to(at::kLong).contiguous();
    const auto [low, high] = at::aminmax(wide);
    if (low.item<int64_t>() >= range.low && high.item<int64_t>() <= range.high) return std::nullopt;
    const std::span numbers(wide.const_data_ptr<int64_t>(), static_cast<size_t>(wide.numel()));
    const auto at = first_outside(numbers, range);
    if (!at) return std::nullopt;
    return fault(input, numbers[*at], sample_of(graph_.type(input), wide.sizes().vec(), *at), range, false);
  }

  /// Returns the sample of an element, given its position in memory; nullopt if the value has no samples.
  std::optional<int64_t> sample_of(const ir::ValueType& type, const std::vector<int64_t>& shape, size_t element) const {
    ir::BatchLayout layout = type.batch;
    if (!layout.has_batch()) {
      if (!graph_.batch_symbol().empty() || shape.empty()) return std::nullopt;
      layout.axis = 0;  // fixed batch
    }
    const auto outer = layout.outer.evaluate(bindings_), inner = layout.inner.evaluate(bindings_);
    if (!outer || !inner || static_cast<size_t>(layout.axis) >= shape.size()) return std::nullopt;
    auto rest = static_cast<int64_t>(element);
    for (size_t axis = shape.size(); --axis > static_cast<size_t>(layout.axis);) rest /= shape[axis];
    const int64_t extent = shape[static_cast<size_t>(layout.axis)], samples = extent / (*outer * *inner);
    return samples < 1 ? std::nullopt : std::optional(rest % extent / *inner % samples);
  }

  IndexFault fault(ValueId input, int64_t value, std::optional<int64_t> sample, const ir::ValidIndices& range,
                   bool derived) const {
    std::string text = derived ? fmt::format("gives the index {}", value) : fmt::format("holds {}", value);
    if (sample) text += fmt::format(" in sample {}", number_of(*sample));
    text += range.classes ? fmt::format(", but the classes are 0 to {}", range.high)
                          : fmt::format(", but the valid indices are 0 to {}", range.high);
    if (range.low < 0) text += fmt::format(", or {} to -1 from the end", range.low);
    constexpr int64_t kNobodyWrites = -(int64_t{1} << 31);  // fusions use this or less for ignored labels
    if (range.ignored && *range.ignored > kNobodyWrites) {
      text += fmt::format(", and {} is ignored", *range.ignored);
    } else if (range.ignored) {
      text += ", or values that the model itself counts from the end or ignores";
    }
    return {std::string(graph_.value(input).name), std::move(text)};
  }

  /// In the mini-batch.
  int64_t number_of(int64_t sample) const {
    return samples_.empty() ? sample : static_cast<int64_t>(samples_.at(static_cast<size_t>(sample)));
  }

  const ir::Graph& graph_;
  const ir::Bindings& bindings_;
  std::vector<uint64_t> samples_;  // of the batch; empty: all of the mini-batch
  Numbers numbers_;
};

}  // namespace

std::optional<IndexFault> find_index_fault(const ir::Graph& graph, const Batch& batch, const ir::Bindings& bindings,
                                           const NeededSamples* part) {
  return Search(graph, batch, bindings, part).run();
}

std::optional<IndexFault> find_mask_fault(const ir::Graph& graph, const Batch& batch, const ir::Bindings& bindings,
                                          const NeededSamples* part) {
  return Search(graph, batch, bindings, part).find_mask();
}

std::optional<int64_t> index_limit(const ir::Graph& graph, ValueId input, const ir::Bindings& bindings) {
  static const ir::Ops kSameNumbers = {"identity", "cast", "reshape", "squeeze", "unsqueeze", "stop_gradient"};
  std::optional<int64_t> limit;
  for (const TaskId task : graph.tasks()) {
    const auto range = range_of(graph, task, bindings);
    if (!range) continue;
    ValueId indices = graph.inputs(task)[1];
    for (TaskId made = graph.producer(indices); made.valid() && kSameNumbers.contains(graph.op(made));
         made = graph.producer(indices)) {
      indices = graph.inputs(made)[0];
    }
    if (indices == input) limit = limit ? std::min(*limit, range->high + 1) : range->high + 1;
  }
  return limit;
}

}  // namespace rannc::runtime
