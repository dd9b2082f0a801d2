#include "frontend/internal/task_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "frontend/internal/rows/classes.h"
#include "frontend/internal/rows/hits.h"
#include "frontend/internal/rows/picked_rows.h"
#include "frontend/internal/size_conditions.h"
#include "frontend/internal/sizes.h"
#include "ir/dim/dim_bounds.h"
#include "ir/graph/constant.h"
#include "ir/op/fold.h"
#include "ir/op/interval.h"

namespace rannc::frontend {

namespace {

constexpr ir::Capture kNumber{0};

/// A task that preserves the only element of its operand.
const ir::Pattern& keeps_the_number() {
  static const ir::Pattern kPattern =
      ir::op({"cast", "identity", "reshape", "unsqueeze", "squeeze"}, ir::any(kNumber), ir::maybe(ir::any()));
  return kPattern;
}

/// A task that only rearranges integers, with all its lists as attributes.
const ir::Pattern& rearranges() {
  static const ir::Pattern kPattern =
      ir::op({"reshape", "permute", "slice", "unsqueeze", "squeeze", "cast", "identity"}, ir::any(kNumber));
  return kPattern;
}

bool is_size_of_input(const ir::Graph& graph, const ir::Dim& dim) {
  const auto has = [&](ValueId input) {
    const auto& shape = graph.type(input).shape;
    return shape && std::find(shape->begin(), shape->end(), dim) != shape->end();
  };
  return std::any_of(graph.inputs().begin(), graph.inputs().end(), has);
}

/// Returns different input symbols on the same axis of operands of equal rank.
std::vector<SymbolPair> symbols_of_equal_axes(const ir::Graph& graph, std::span<const ValueId> operands) {
  std::map<std::string, std::string> pairs;
  for (size_t i = 1; i < operands.size(); ++i) {
    if (!operands[0].valid() || !operands[i].valid()) continue;
    const auto &first = graph.type(operands[0]).shape, &other = graph.type(operands[i]).shape;
    if (!first || !other || first->size() != other->size()) continue;
    for (size_t axis = 0; axis < first->size(); ++axis) {
      const ir::Dim &a = (*first)[axis], &b = (*other)[axis];
      if (!a.is_symbol() || !b.is_symbol() || a == b) continue;
      if (is_size_of_input(graph, a) && is_size_of_input(graph, b)) pairs.emplace(b.symbol_name(), a.symbol_name());
    }
  }
  std::vector<SymbolPair> found;
  for (const auto& [b, a] : pairs) found.emplace_back(a, b);
  return found;
}

}  // namespace

std::string advice_on_equal(const std::vector<SymbolPair>& pairs) {
  std::string text = "if these sizes are always equal, specify:";
  for (const auto& [a, b] : pairs) text += fmt::format(" --same-symbol {}={}", b, a);
  return text;
}

const ir::ValueType& TaskWriter::type(ValueId value) const {
  static const ir::ValueType unknown;
  return value.valid() ? graph_.type(value) : unknown;
}

const ir::Shape* TaskWriter::shape(ValueId value) {
  if (!value.valid()) {
    if (good()) fail(fmt::format("{} lacks an operand", maker_));
    return nullptr;
  }
  const auto& shape = graph_.type(value).shape;
  if (!shape) fail(fmt::format("{} needs the rank of '{}', which is not known", maker_, graph_.value(value).name));
  return shape ? &*shape : nullptr;
}

int64_t TaskWriter::axis(int64_t axis, int64_t rank, bool end) {
  const int64_t last = end ? rank : rank - 1;
  if (axis < -rank || axis > last) {
    fail(fmt::format("{}: axis {} is outside of [{}, {}]", maker_, axis, -rank, last));
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

std::optional<ir::Shape> TaskWriter::contents(ValueId value) const {
  const ir::ValueType& known = type(value);
  const bool listed = known.shape && known.shape->size() <= 1 && !ir::is_float(known.dtype);
  if (known.contents || !listed) return known.contents;
  if (auto found = rearranged_contents(value)) return found;
  return value.valid() && ir::is_integer(known.dtype) ? sizes_through_floats(graph_, value) : std::nullopt;
}

std::optional<ir::Shape> TaskWriter::cut_to_sizes(ValueId value) const {
  if (!value.valid() || !graph_.producer(value).valid() || !ir::is_float(type(value).dtype)) return std::nullopt;
  auto sizes = floats_cut_to_sizes(graph_, value);
  return sizes && !sizes->empty() ? sizes : std::nullopt;
}

// Runs the tasks on element positions instead of elements, which shows where each element goes.
std::optional<ir::Shape> TaskWriter::rearranged_contents(ValueId value) const {
  constexpr size_t kMostTasks = 16;
  std::vector<TaskId> tasks;
  while (!type(value).contents) {
    const auto made = ir::match(graph_, value, rearranges());
    if (!made || tasks.size() == kMostTasks) return std::nullopt;
    tasks.push_back(made->tasks().front());
    value = (*made)[kNumber];
  }
  const ir::Shape& from = *type(value).contents;
  std::vector<int64_t> places(from.size());
  std::iota(places.begin(), places.end(), 0);
  ir::StoredTensor now{type(value), ir::encode_integers(type(value).dtype, places)};
  now.type.contents.reset();
  for (size_t k = tasks.size(); k-- > 0;) {
    const std::array operands = {static_cast<const ir::StoredTensor*>(&now)};
    const std::array types = {type(graph_.outputs(tasks[k])[0])};
    auto made = ir::fold_integers(graph_.op(tasks[k]), operands, graph_.attributes(tasks[k]), types);
    if (!made) return std::nullopt;
    now = std::move(made->front());
  }
  const auto order = ir::decode_integers(now.type, now.data, static_cast<int64_t>(from.size()));
  if (!order.ok()) return std::nullopt;
  ir::Shape found;
  for (const int64_t place : *order) found.push_back(from[static_cast<size_t>(place)]);
  return found;
}

std::optional<std::vector<int64_t>> TaskWriter::integers(ValueId value) const {
  const auto known = contents(value);
  if (!known) return std::nullopt;
  std::vector<int64_t> result;
  for (const ir::Dim& element : *known) {
    if (!element.is_constant()) return std::nullopt;
    result.push_back(element.constant());
  }
  return result;
}

std::optional<double> TaskWriter::number(ValueId value) const {
  while (value.valid()) {
    const auto& found = graph_.value(value);
    if (const auto known = integers(value); known && known->size() == 1) return static_cast<double>(known->front());
    if (found.kind == ir::ValueKind::kConstant) {
      return only_element(found.type, found.data);
    }
    const auto behind = ir::match(graph_, value, keeps_the_number());
    value = behind ? (*behind)[kNumber] : ValueId();
  }
  return std::nullopt;
}

std::optional<ir::Attribute> TaskWriter::exact_number(ValueId value) const {
  if (ir::is_float(dtype(value))) {
    const auto known = number(value);
    return known ? std::optional<ir::Attribute>(*known) : std::nullopt;
  }
  const auto known = integers(value);
  return known && known->size() == 1 ? std::optional<ir::Attribute>(ir::Dim(known->front())) : std::nullopt;
}

std::vector<ValueId> TaskWriter::add(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes,
                                     std::span<const std::string> names) {
  if (!good()) return {};
  const ir::OpInfo& info = ir::core(op);
  RANNC_CHECK(operands.size() >= info.min_inputs() && operands.size() <= info.max_inputs())
      << maker_ << " -> " << info.name << ": " << operands.size() << " operands";
  const TaskId task = graph_.add_task(info, operands, std::move(attributes), names, where_);
  auto typed = ir::infer_types(graph_, task);
  const bool picked = std::any_of(operands.begin(), operands.end(),
                                  [&](ValueId each) { return each.valid() && is_picked(type(each)); });
  if (!typed.ok() && (picked || is_slice_of_samples(graph_, task))) typed = infer_picked(graph_, task);
  if (!typed.ok()) {
    failure_ = typed.diagnostic();
    find_unequal_symbols(info, operands);
    const std::vector<SymbolPair> pairs = symbols_of_equal_axes(graph_, operands);
    if (!pairs.empty()) failure_->notes.push_back({{}, advice_on_equal(pairs)});
    if (!unequal_symbols_.certain) unequal_symbols_.pairs = pairs;
    return {};
  }
  note_picked_count(graph_, task);
  const auto made = graph_.outputs(task);
  return {made.begin(), made.end()};
}

bool TaskWriter::is_squeezed(const ir::Dim& size) {
  if (size.is_constant()) return size == ir::Dim(1);
  const auto assumed = assume_not_one(graph_, size, where_);
  if (!assumed.ok()) fail(assumed.diagnostic());
  return false;
}

ValueId TaskWriter::picked_places(ValueId mask) {
  const ir::Shape* const from = shape(mask);
  if (!from || !good()) return {};
  if (from->empty())
    return fail(fmt::format("{}: '{}' is a single number; expected a mask", maker_, name(mask))), ValueId();
  if (is_picked(type(mask))) {
    fail(fmt::format("{}: the mask '{}' has rows that another mask picks, which is not supported", maker_, name(mask)));
    return {};
  }
  return add_picked_places(graph_, mask, name_of("places"), where_);
}

std::optional<ValueId> TaskWriter::sorted_places(ValueId x) {
  return good() && x.valid() ? add_sorted_places(graph_, x, name_of("places"), where_) : std::nullopt;
}

std::optional<std::vector<ValueId>> TaskWriter::rows_hit(ValueId places) {
  const auto hits = good() ? hits_of(graph_, places) : std::nullopt;
  if (!hits) return std::nullopt;
  ir::ValueType type;
  type.dtype = ir::DType::kI64;
  type.shape = ir::Shape{1};
  std::vector<ValueId> rows;
  for (int64_t i = 0; i < hits->most; ++i) {
    const std::array operands = {places};
    const std::array names = {name_of(fmt::format("row.{}", i))};
    const TaskId task =
        graph_.add_task(graph_.foreign_op(kPickedRow), operands, {{"index", ir::Dim(i)}}, names, where_);
    rows.push_back(graph_.outputs(task)[0]);
    graph_.set_type(rows.back(), type);
  }
  return rows;
}

std::optional<std::vector<double>> TaskWriter::numbers(ValueId value) const {
  constexpr int64_t kMost = 64;
  return value.valid() && graph_.value(value).kind == ir::ValueKind::kConstant ? elements(value, kMost) : std::nullopt;
}

std::optional<std::vector<double>> TaskWriter::elements(ValueId value, int64_t limit) const {
  if (const auto known = integers(value)) return std::vector<double>(known->begin(), known->end());
  if (!value.valid()) return std::nullopt;
  if (graph_.value(value).kind != ir::ValueKind::kConstant) {
    const auto repeated = ir::scalar_constant(graph_, value);
    const auto count = ir::static_count(type(value));
    if (!repeated || !count || *count > limit) return std::nullopt;
    return std::vector<double>(static_cast<size_t>(*count), *repeated);
  }
  if (!graph_.value(value).data.present()) return std::nullopt;
  auto numbers = ir::decode_numbers(graph_.type(value), graph_.value(value).data, limit);
  return numbers.ok() ? std::optional(*std::move(numbers)) : std::nullopt;
}

std::optional<std::vector<int64_t>> TaskWriter::whole_elements(ValueId value, int64_t limit) const {
  if (auto known = integers(value)) return known;
  if (!value.valid() || ir::is_float(dtype(value))) return std::nullopt;
  if (graph_.value(value).data.present()) {
    auto found = ir::decode_integers(graph_.type(value), graph_.value(value).data, limit);
    return found.ok() ? std::optional(*std::move(found)) : std::nullopt;
  }
  const auto repeated = elements(value, limit);
  if (!repeated) return std::nullopt;
  return std::vector<int64_t>(repeated->begin(), repeated->end());
}

std::string_view TaskWriter::name(ValueId value) const { return value.valid() ? graph_.value(value).name : ""; }

bool TaskWriter::never_negative(ValueId value) const {
  static const ir::Pattern kOfPlaces =
      ir::through({"permute", "reshape", "squeeze", "split", "slice", "cast", "identity"}, ir::any(ir::Capture{0}));
  const auto behind = match(value, kOfPlaces);
  const TaskId made = behind ? graph_.producer((*behind)[ir::Capture{0}]) : TaskId();
  if (made.valid() && graph_.op(made).name == kPickedPlaces) return true;
  const auto range = ir::Intervals(graph_).of(value);
  return range && ir::never_negative(range->factor) && ir::never_negative(range->low);
}

std::optional<ir::Match> TaskWriter::match(ValueId value, const ir::Pattern& pattern) const {
  return value.valid() ? ir::match(graph_, value, pattern) : std::nullopt;
}

bool TaskWriter::is_zero(ValueId value) const {
  static const ir::Pattern kShown = ir::through(
      {"expand", "slice", "cast", "identity", "reshape", "unsqueeze", "squeeze", "permute"}, ir::any(kNumber));
  static const ir::Pattern kFilled = ir::op("full").as(kNumber);
  if (!value.valid()) return false;
  value = (*ir::match(graph_, value, kShown))[kNumber];
  if (const auto filled = ir::match(graph_, value, kFilled)) {
    const ir::Attribute* const given = filled->attributes(kNumber).find("value");
    return given == nullptr || *given == ir::Attribute(0.0) || *given == ir::Attribute(ir::Dim(0));
  }
  if (!graph_.value(value).data.present()) return false;
  const auto bytes = graph_.value(value).data.read();
  return bytes.ok() && std::all_of(bytes->begin(), bytes->end(), [](std::byte b) { return b == std::byte{0}; });
}

void TaskWriter::find_unequal_symbols(const ir::OpInfo& op, std::span<const ValueId> operands) {
  static const ir::Ops kBroadcasting = {"add", "sub", "mul", "div", "where", "logical_and", "logical_or",
                                        "eq",  "ne",  "lt",  "le",  "gt",    "ge",          "maximum"};
  static const ir::Ops kRecurrent = {"lstm", "gru", "rnn"};
  const bool broadcasts = kBroadcasting.contains(op);
  if (!broadcasts && !kRecurrent.contains(op)) return;
  constexpr size_t kFirstState = 5;  // after x, weights and biases; x and states have the samples on axis 1
  for (const ValueId other : operands.subspan(std::min(broadcasts ? 1 : kFirstState, operands.size()))) {
    const auto& a = type(operands[0]).shape;
    const auto& b = type(other).shape;
    if (!a || !b) continue;
    for (size_t back = 1; back <= std::min(a->size(), b->size()); ++back) {
      const ir::Dim& x = (*a)[a->size() - back];
      const ir::Dim& y = (*b)[b->size() - back];
      if (!x.is_symbol() || !y.is_symbol() || x == y) continue;
      if (graph_.inputs().empty()) {  // an open body captures its inputs
        unequal_symbols_ = {{{x.symbol_name(), y.symbol_name()}}, true};
        return;
      }
      for (const ValueId input : graph_.inputs()) {
        for (const ir::Dim& dim : type(input).shape.value_or(ir::Shape{})) {
          if (!(dim == x) && !(dim == y)) continue;
          unequal_symbols_ = {{{dim.symbol_name(), (dim == x ? y : x).symbol_name()}}, true};
          return;
        }
      }
    }
  }
}

std::string TaskWriter::name_of(std::string_view part) const { return fmt::format("{}.{}", stem_, part); }

ValueId TaskWriter::emit(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes) {
  const std::array names = {name_of(op)};
  const auto made = add(op, operands, std::move(attributes), names);
  return made.empty() ? ValueId() : made[0];
}

ValueId TaskWriter::emit(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes) {
  return emit(op, std::span(operands.begin(), operands.size()), std::move(attributes));
}

std::vector<ValueId> TaskWriter::emit_all(std::string_view op, std::span<const ValueId> operands,
                                          ir::Attributes attributes, size_t outputs) {
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs; ++i) names.push_back(fmt::format("{}.{}.{}", stem_, op, i));
  std::vector<ValueId> made = add(op, operands, std::move(attributes), names);
  made.resize(outputs);
  return made;
}

std::vector<ValueId> TaskWriter::emit_all(std::string_view op, std::initializer_list<ValueId> operands,
                                          ir::Attributes attributes, size_t outputs) {
  return emit_all(op, std::span(operands.begin(), operands.size()), std::move(attributes), outputs);
}

ValueId TaskWriter::scalar(double value, ir::DType dtype) {
  const ir::Attribute number = ir::is_float(dtype) ? ir::Attribute(value) : ir::Attribute(ir::Dim(whole(value)));
  return emit("full", {}, {{"shape", ir::Shape{}}, {"value", number}, {"dtype", dtype}});
}

ValueId TaskWriter::cast(ValueId x, ir::DType dtype) {
  if (!good() || !x.valid() || type(x).dtype == dtype) return x;
  // A number in the program's code is converted directly to the requested type, without losing digits.
  const auto known = type(x).shape == ir::Shape{} ? number(x) : std::nullopt;
  if (known && ir::is_float(dtype)) return scalar(*known, dtype);
  return emit("cast", {x}, {{"dtype", dtype}});
}

ValueId TaskWriter::add_random_input(ValueId x, ir::RandomInput add_random_input) {
  if (!good() || !x.valid()) return {};
  ir::ValueType type = this->type(x);
  if (!ir::is_float(type.dtype)) {
    fail(fmt::format("{} of {}; random numbers are floats", maker_, ir::str(type.dtype)));
    return {};
  }
  type.batch.mix = ir::Mix::kNone;
  add_random_input.key = graph_.task_count();
  return graph_.add_random_input(name_of("random"), std::move(type), add_random_input);
}

void TaskWriter::fail(std::string message) { fail(error(where_, std::move(message))); }

void TaskWriter::fail(Diagnostic found) {
  if (!failure_) failure_ = std::move(found);
}

int64_t whole(double value) {
  constexpr double kMost = 9.2e18;
  return static_cast<int64_t>(std::clamp(std::isnan(value) ? 0 : value, -kMost, kMost));
}

ir::Shape list(std::span<const int64_t> values) { return {values.begin(), values.end()}; }

std::optional<double> only_element(const ir::ValueType& type, const ir::TensorData& data) {
  if (!type.shape || !(ir::element_count(*type.shape) == ir::Dim(1)) || !data.present()) return std::nullopt;
  const auto numbers = ir::decode_numbers(type, data, 1);
  return numbers.ok() && numbers->size() == 1 ? std::optional(numbers->front()) : std::nullopt;
}

}  // namespace rannc::frontend
