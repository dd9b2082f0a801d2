#include "passes/batch/internal/uniformity.h"

#include <algorithm>

#include "ir/match/match.h"
#include "passes/batch/sample_rules.h"

namespace rannc::passes {

using namespace ir;  // NOLINT: reads as its neighbours

namespace {

bool uses(const Attribute& attribute, std::string_view symbol) {
  if (const auto* dim = std::get_if<Dim>(&attribute)) return dim->uses(symbol);
  const auto* dims = std::get_if<Shape>(&attribute);
  return dims != nullptr && std::any_of(dims->begin(), dims->end(), [&](const Dim& dim) { return dim.uses(symbol); });
}

bool is_wide_integer(DType dtype) { return is_integer(dtype) && byte_size(dtype) >= 4; }

/// Operators that compute each sample's part from that sample's parts, regardless of the sample's index.
bool keeps_samples_alike(const OpInfo& op) {
  static const Ops kOthers{"reshape", "permute", "expand", "tile",    "unsqueeze", "squeeze",   "slice",  "concat",
                           "split",   "cumsum",  "trilu",  "one_hot", "gather",    "gather_nd", "matmul", "mean",
                           "softmax", "sum",     "prod",   "amax",    "amin",      "argmax",    "full",   "range"};
  return op.family == "elementwise" || op.family == "functions" || op.family == "bits" || kOthers.contains(op);
}

/// Operators whose result elements are elements of the operands.
bool moves_elements(const OpInfo& op) {
  static const Ops kMoving{"reshape", "permute", "expand", "unsqueeze", "squeeze",
                           "slice",   "concat",  "split",  "identity"};
  return kMoving.contains(op);
}

}  // namespace

Uniformity::Uniformity(const Graph& graph)
    : graph_(graph), intervals_(graph), kinds_(graph.value_count(), Kind::kVaries), types_(graph.value_count()) {
  for (const ValueId value : graph.values()) {
    const bool constant = graph.kind(value) == ValueKind::kConstant && has_clean_type(value);
    if (constant && !graph.type(value).batch.has_batch()) kinds_[value.index()] = Kind::kFixed;
  }
  if (graph.batch_symbol().empty()) return;
  for (const TaskId task : graph.tasks()) {
    const Kind kind = kind_of_result(task);
    const bool samples = kind == Kind::kUniform || kind == Kind::kNumbered;
    if (kind == Kind::kVaries || (samples && !find_types(task))) continue;
    for (const ValueId output : graph.outputs(task)) kinds_[output.index()] = kind;
  }
}

bool Uniformity::of_samples(TaskId task) const {
  if (graph_.outputs(task).empty()) return false;
  const Kind kind = of(graph_.outputs(task)[0]);
  return kind == Kind::kUniform || kind == Kind::kNumbered;
}

const ValueType& Uniformity::one_sample(ValueId value) const {
  const auto& type = types_[value.index()];
  return type ? *type : graph_.type(value);
}

Attributes Uniformity::one_sample(TaskId task) const {
  Attributes one = graph_.attributes(task);
  for (const auto& [name, attribute] : graph_.attributes(task)) {
    if (const auto* dim = std::get_if<Dim>(&attribute)) one.set(name, dim->substitute(graph_.batch_symbol(), 1));
    if (const auto* dims = std::get_if<Shape>(&attribute)) {
      Shape shape;
      for (const Dim& dim : *dims) shape.push_back(dim.substitute(graph_.batch_symbol(), 1));
      one.set(name, std::move(shape));
    }
  }
  return one;
}

/// Returns whether only the batch axis of a type depends on the number of samples.
bool Uniformity::has_clean_type(ValueId value) const {
  const ValueType& type = graph_.type(value);
  const std::string& batch = graph_.batch_symbol();
  if (!type.shape || type.batch.mix != Mix::kNone) return false;
  if (batch.empty()) return true;
  for (size_t axis = 0; axis < type.shape->size(); ++axis) {
    if (static_cast<int64_t>(axis) != type.batch.axis && (*type.shape)[axis].uses(batch)) return false;
  }
  if (type.contents &&
      std::any_of(type.contents->begin(), type.contents->end(), [&](const Dim& dim) { return dim.uses(batch); }))
    return false;
  return !type.batch.outer.uses(batch) && !type.batch.inner.uses(batch);
}

/// Whether the number of samples stands in attributes only where it says how many there are.
bool Uniformity::counts_by_sizes_alone(TaskId task) const {
  static const Ops kShaped{"expand", "reshape", "full"}, kRange{"range"};
  constexpr std::string_view kSizes = "shape", kEnd = "limit";  // attributes
  const OpInfo& op = graph_.op(task);
  const auto& attributes = graph_.attributes(task);
  return std::all_of(attributes.begin(), attributes.end(), [&](const auto& attribute) {
    const auto& [name, value] = attribute;
    if (std::holds_alternative<Body>(value)) return false;
    return !uses(value, graph_.batch_symbol()) || (kShaped.contains(op) && name == kSizes) ||
           (kRange.contains(op) && name == kEnd);
  });
}

Uniformity::Kind Uniformity::kind_of_result(TaskId task) {
  const OpInfo& op = graph_.op(task);
  const auto outputs = graph_.outputs(task);
  if (!op.known() || outputs.empty() || op.makes_whole() || op.depends_on_training(graph_.attributes(task)) ||
      !counts_by_sizes_alone(task)) {
    return Kind::kVaries;
  }
  Kind most = Kind::kFixed;
  for (const ValueId operand : graph_.inputs(task)) {
    if (operand.valid() && of(operand) == Kind::kVaries) return Kind::kVaries;
    if (operand.valid()) most = std::max(most, of(operand));
  }
  const auto clean = [&](ValueId value) { return has_clean_type(value); };
  const auto sampled = [&](ValueId value) { return graph_.type(value).batch.has_batch(); };
  if (!std::all_of(outputs.begin(), outputs.end(), clean)) return Kind::kVaries;
  if (std::all_of(outputs.begin(), outputs.end(), sampled)) return kind_of_samples(task, most);
  // Without samples, what uniform values become may be a sum over them, which counts them.
  return std::none_of(outputs.begin(), outputs.end(), sampled) && most == Kind::kFixed ? most : Kind::kVaries;
}

/// Returns whether a task concatenates mini-batches.
bool Uniformity::joins_samples(TaskId task) const {
  static const Ops kConcat{"concat"};
  const BatchLayout& made = graph_.type(graph_.outputs(task)[0]).batch;
  return kConcat.contains(graph_.op(task)) && !(graph_.type(graph_.inputs(task)[0]).batch.outer == made.outer);
}

/// Of a task whose results have samples; `most` is the most that an operand is.
Uniformity::Kind Uniformity::kind_of_samples(TaskId task, Kind most) {
  static const Ops kExpand{"expand"}, kFull{"full"}, kRange{"range"}, kPicking{"gather", "gather_nd"};
  static const Ops kSums{"add", "sub"}, kMul{"mul"}, kCast{"cast"};
  const OpInfo& op = graph_.op(task);
  const ValueType& type = graph_.type(graph_.outputs(task)[0]);
  if (!keeps_samples_alike(op) || joins_samples(task)) return Kind::kVaries;
  if (kRange.contains(op)) {
    return type.batch.outer == Dim(1) && is_wide_integer(type.dtype) ? Kind::kNumbered : Kind::kVaries;
  }
  if (kFull.contains(op)) return Kind::kUniform;
  if (kExpand.contains(op) && most == Kind::kFixed) return Kind::kUniform;
  if (most == Kind::kFixed) return Kind::kVaries;
  if (kPicking.contains(op)) return kind_of_gathered(task);
  if (most == Kind::kUniform) return most;
  const auto in = graph_.inputs(task);
  const auto numbered = std::count_if(
      in.begin(), in.end(), [&](ValueId operand) { return operand.valid() && of(operand) == Kind::kNumbered; });
  const bool stays_linear = moves_elements(op) || kSums.contains(op) || (kMul.contains(op) && numbered == 1) ||
                            (kCast.contains(op) && is_wide_integer(graph_.type(in[0]).dtype));
  return stays_linear && is_wide_integer(type.dtype) ? Kind::kNumbered : Kind::kVaries;
}

Uniformity::Kind Uniformity::kind_of_gathered(TaskId task) {
  const OpInfo& op = graph_.op(task);
  const auto in = graph_.inputs(task);
  const ValueType& table = graph_.type(in[0]);
  const bool by_number = of(in[1]) == Kind::kNumbered;
  if (of(in[0]) == Kind::kNumbered || op.picks == nullptr) return Kind::kVaries;
  if (!table.batch.has_batch()) return by_number ? Kind::kVaries : Kind::kUniform;
  const std::vector<const ValueType*> types = type_list(graph_, in);
  const auto component = op.picks({op, types, graph_.attributes(task), graph_.batch_symbol()}, table.batch.axis);
  if (!component) return by_number ? Kind::kVaries : Kind::kUniform;  // each sample's part of a table is its own
  return by_number && picks_own_sample(task, *component) ? Kind::kUniform : Kind::kVaries;
}

/// Whether a numbered index picks the same places of each sample's own part of a table. As it lies within that part
/// for every sample, what it has times the sample's number is the part's size; so the rest is the place within it.
bool Uniformity::picks_own_sample(TaskId task, int64_t component) {
  if (!check_sample_index(graph_, task).ok()) return false;
  const ValueId index = graph_.inputs(task)[1];
  if (component < 0) return true;
  const Dim& components = graph_.type(index).shape->back();
  if (!components.is_constant()) return false;
  for (int64_t other = 0; other < components.constant(); ++other) {
    if (other != component && !is_uniform(index, other)) return false;
  }
  return true;
}

/// Whether one component of a list of indices, along its last axis, has the same numbers for each sample.
bool Uniformity::is_uniform(ValueId value, int64_t component) const {
  static const Ops kConcat{"concat"};
  if (of(value) == Kind::kFixed || of(value) == Kind::kUniform) return true;
  const TaskId maker = graph_.producer(value);
  if (!maker.valid() || !kConcat.contains(graph_.op(maker))) return false;
  const auto rank = static_cast<int64_t>(graph_.type(value).shape->size());
  const int64_t axis = graph_.attributes(maker).integer("axis");
  if (axis != rank - 1 && axis != -1) return false;
  for (const ValueId part : graph_.inputs(maker)) {
    const Dim& extent = graph_.type(part).shape->back();
    if (!extent.is_constant()) return false;
    if (component < extent.constant()) return is_uniform(part, component);
    component -= extent.constant();
  }
  return false;
}

/// Whether the task gives one sample's part where there is one sample.
bool Uniformity::find_types(TaskId task) {
  std::vector<const ValueType*> operands;
  for (const ValueId operand : graph_.inputs(task))
    operands.push_back(operand.valid() ? &one_sample(operand) : nullptr);
  const auto outputs = graph_.outputs(task);
  const Attributes attributes = one_sample(task);
  const auto types = ir::types_of(
      {graph_.op(task), operands, attributes, graph_.batch_symbol(), static_cast<uint32_t>(outputs.size())});
  if (!types.ok()) return false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueType &type = (*types)[i], &all = graph_.type(outputs[i]);
    Shape expected = *all.shape;
    Dim& samples = expected[static_cast<size_t>(all.batch.axis)];
    samples = samples.substitute(graph_.batch_symbol(), 1);
    if (type.dtype != all.dtype || type.shape != expected || type.batch != BatchLayout{}) return false;
  }
  for (size_t i = 0; i < outputs.size(); ++i) types_[outputs[i].index()] = (*types)[i];
  return true;
}

}  // namespace rannc::passes
