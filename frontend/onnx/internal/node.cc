#include "frontend/onnx/internal/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "frontend/onnx/internal/growth.h"
#include "frontend/onnx/internal/sizes.h"
#include "ir/constant.h"
#include "ir/fold.h"

namespace rannc::frontend {

namespace {

constexpr ir::Capture kNumber{0};

/// A task whose result has the only element of its operand.
const ir::Pattern& keeps_the_number() {
  static const ir::Pattern kPattern =
      ir::op({"cast", "identity", "reshape", "unsqueeze", "squeeze"}, ir::any(kNumber), ir::maybe(ir::any()));
  return kPattern;
}

/// A task on integers that only rearranges them, with all its lists as attributes.
const ir::Pattern& rearranges() {
  static const ir::Pattern kPattern =
      ir::op({"reshape", "permute", "slice", "unsqueeze", "squeeze", "cast", "identity"}, ir::any(kNumber));
  return kPattern;
}

}  // namespace

Node::Node(ir::Graph& graph, const ONNX_NAMESPACE::NodeProto& proto, int opset, Location where, Wiring wiring,
           const Source& source)
    : graph_(graph),
      proto_(proto),
      opset_(opset),
      where_(std::move(where)),
      operands_(std::move(wiring.operands)),
      names_(std::move(wiring.output_names)),
      outputs_(names_.size()),
      lists_(std::move(wiring.lists)),
      source_(source),
      traced_(std::move(wiring.traced)) {}

std::optional<ir::Match> Node::found(ValueId value, const ir::Pattern& pattern) const {
  return value.valid() ? ir::match(graph_, value, pattern) : std::nullopt;
}

bool Node::traced_strict_bounds() {
  for (const std::string_view op : {"relu6", "hardtanh"}) {
    const bool traced = traced_ && traced_->is("aten." + std::string(op));
    // dynamo=True names nodes so, also where metadata were stripped.
    const bool named = !traced_ && proto_.name().starts_with("node_" + std::string(op));
    if (!traced && !named) continue;
    remarks_.push_back({where_, fmt::format("bounds of {} take no gradient, unlike those of a clamp", op)});
    return true;
  }
  return false;
}

bool Node::traced_pick() {
  if (!traced_ || (traced_->target != "aten.max.dim" && traced_->target != "aten.min.dim")) return false;
  remarks_.push_back({where_, "of equal elements the first takes the gradient: the extreme is picked along an axis"});
  return true;
}

std::optional<int64_t> Node::traced_padding_index(const ir::Shape& table) {
  if (!traced_ || !traced_->is("aten.embedding") || table.size() != 2) return std::nullopt;
  const auto row = traced_->number(2);
  if (!row || *row < 0 || !table[0].is_constant() || *row >= static_cast<double>(table[0].constant())) {
    return std::nullopt;
  }
  const auto index = static_cast<int64_t>(*row);
  remarks_.push_back({where_, fmt::format("row {} of %{} takes no gradient: it is the embedding's padding_idx", index,
                                          graph_.value(in(0)).name)});
  return index;
}

double Node::traced_label_smoothing() {
  if (!traced_ || !traced_->is("aten.cross_entropy_loss")) return 0;
  const double smoothing = traced_->number(5).value_or(0);
  if (!(smoothing > 0 && smoothing <= 1)) return 0;
  remarks_.push_back({where_, fmt::format("labels are smoothed by {}, which the node itself does not say", smoothing)});
  return smoothing;
}

ValueId Node::in(size_t index) {
  if (!has(index)) fail(fmt::format("{} needs operand {}", op(), index));
  return optional(index);
}

const List* Node::list(size_t index) const {
  const auto found = lists_.find(index);
  return found == lists_.end() ? nullptr : &found->second;
}

void Node::pass(size_t output, List list) {
  if (good() && wants(output)) output_lists_[output] = std::move(list);
}

void Node::integers(std::span<const int64_t> values, ir::DType dtype, const std::vector<int64_t>& shape) {
  if (!good() || !wants(0)) return;
  outputs_[0] = ir::add_constant(graph_, names_[0], dtype, shape, values);
}

ValueId Node::optional(size_t index) const { return has(index) ? operands_[index] : ValueId(); }

const ir::ValueType& Node::type(ValueId value) const {
  static const ir::ValueType unknown;
  return value.valid() ? graph_.type(value) : unknown;
}

const ir::Shape* Node::shape(ValueId value) {
  if (!value.valid()) {
    if (good()) fail(fmt::format("{} lacks an operand", op()));
    return nullptr;
  }
  const auto& shape = graph_.type(value).shape;
  if (!shape) fail(fmt::format("{} needs the rank of '{}', which is not known", op(), graph_.value(value).name));
  return shape ? &*shape : nullptr;
}

int64_t Node::axis(int64_t axis, int64_t rank, bool end) {
  const int64_t last = end ? rank : rank - 1;
  if (axis < -rank || axis > last) {
    fail(fmt::format("{}: axis {} is outside of [{}, {}]", op(), axis, -rank, last));
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

std::optional<ir::Shape> Node::contents(ValueId value) const {
  const ir::ValueType& known = type(value);
  const bool listed = known.shape && known.shape->size() <= 1 && !ir::is_float(known.dtype);
  if (known.contents || !listed) return known.contents;
  if (auto found = rearranged_contents(value)) return found;
  return value.valid() && ir::is_integer(known.dtype) ? sizes_through_floats(graph_, value) : std::nullopt;
}

std::optional<ir::Shape> Node::cut_to_sizes(ValueId value) const {
  if (!value.valid() || !graph_.producer(value).valid() || !ir::is_float(type(value).dtype)) return std::nullopt;
  auto sizes = floats_cut_to_sizes(graph_, value);
  return sizes && !sizes->empty() ? sizes : std::nullopt;
}

// The same tasks put the numbers of places where they put what stands there.
std::optional<ir::Shape> Node::rearranged_contents(ValueId value) const {
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

std::optional<std::vector<int64_t>> Node::integers(ValueId value) const {
  const auto known = contents(value);
  if (!known) return std::nullopt;
  std::vector<int64_t> result;
  for (const ir::Dim& element : *known) {
    if (!element.is_constant()) return std::nullopt;
    result.push_back(element.constant());
  }
  return result;
}

std::optional<double> Node::number(ValueId value) const {
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

std::vector<ValueId> Node::add(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes,
                               std::span<const std::string> names) {
  if (!good()) return {};
  const ir::OpInfo& info = ir::core(op);
  RANNC_CHECK(operands.size() >= info.min_inputs() && operands.size() <= info.max_inputs())
      << proto_.op_type() << " -> " << info.name << ": " << operands.size() << " operands";
  const TaskId task = graph_.add_task(info, operands, std::move(attributes), names, where_);
  if (auto typed = ir::infer_types(graph_, task); !typed.ok()) {
    failure_ = typed.diagnostic();
    find_unequal_symbols(info, operands);
    return {};
  }
  const auto made = graph_.outputs(task);
  return {made.begin(), made.end()};
}

std::optional<std::vector<double>> Node::numbers(ValueId value) const {
  constexpr int64_t kMost = 64;
  return value.valid() && graph_.value(value).kind == ir::ValueKind::kConstant ? elements(value, kMost) : std::nullopt;
}

std::optional<std::vector<double>> Node::elements(ValueId value, int64_t limit) const {
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

std::string_view Node::name(ValueId value) const { return value.valid() ? graph_.value(value).name : ""; }

std::optional<ir::Match> Node::match(ValueId value, const ir::Pattern& pattern) const {
  return value.valid() ? ir::match(graph_, value, pattern) : std::nullopt;
}

bool Node::is_zero(ValueId value) const {
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

void Node::find_unequal_symbols(const ir::OpInfo& op, std::span<const ValueId> operands) {
  static const ir::Ops kBroadcasting = {"add", "sub", "mul", "div", "where", "logical_and", "logical_or",
                                        "eq",  "ne",  "lt",  "le",  "gt",    "ge",          "maximum"};
  if (!kBroadcasting.contains(op)) return;
  for (const ValueId other : operands.subspan(1)) {
    const auto& a = type(operands[0]).shape;
    const auto& b = type(other).shape;
    if (!a || !b) continue;
    for (size_t back = 1; back <= std::min(a->size(), b->size()); ++back) {
      const ir::Dim& x = (*a)[a->size() - back];
      const ir::Dim& y = (*b)[b->size() - back];
      if (!x.is_symbol() || !y.is_symbol() || x == y) continue;
      for (const ValueId input : graph_.inputs()) {
        for (const ir::Dim& dim : type(input).shape.value_or(ir::Shape{})) {
          if (dim == x) unequal_symbols_ = SymbolPair{x.symbol_name(), y.symbol_name()};
          if (dim == y) unequal_symbols_ = SymbolPair{y.symbol_name(), x.symbol_name()};
          if (unequal_symbols_) return;
        }
      }
    }
  }
}

std::string Node::name_of(std::string_view part) const {
  return fmt::format("{}.{}", names_.empty() || names_[0].empty() ? op() : names_[0], part);
}

ValueId Node::emit(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes) {
  const std::array names = {name_of(op)};
  const auto made = add(op, operands, std::move(attributes), names);
  return made.empty() ? ValueId() : made[0];
}

ValueId Node::emit(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes) {
  return emit(op, std::span(operands.begin(), operands.size()), std::move(attributes));
}

std::vector<ValueId> Node::emit_all(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes,
                                    size_t outputs) {
  const std::string stem = names_.empty() || names_[0].empty() ? this->op() : names_[0];
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs; ++i) names.push_back(fmt::format("{}.{}.{}", stem, op, i));
  std::vector<ValueId> made = add(op, operands, std::move(attributes), names);
  made.resize(outputs);
  return made;
}

std::vector<ValueId> Node::emit_all(std::string_view op, std::initializer_list<ValueId> operands,
                                    ir::Attributes attributes, size_t outputs) {
  return emit_all(op, std::span(operands.begin(), operands.size()), std::move(attributes), outputs);
}

void Node::result(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes) {
  const std::array names = {names_.empty() ? std::string() : names_[0]};
  const auto made = add(op, operands, std::move(attributes), names);
  if (!made.empty()) bind(0, made[0]);
}

void Node::result(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes) {
  result(op, std::span(operands.begin(), operands.size()), std::move(attributes));
}

void Node::results(std::string_view op, std::initializer_list<ValueId> operands, ir::Attributes attributes) {
  results(op, std::span(operands.begin(), operands.size()), std::move(attributes));
}

void Node::results(std::string_view op, std::span<const ValueId> operands, ir::Attributes attributes) {
  std::vector<std::string> names = names_;
  names.resize(std::max<size_t>(names.size(), ir::core(op).min_results()));
  const auto made = add(op, operands, std::move(attributes), names);
  for (size_t i = 0; i < made.size(); ++i) bind(i, made[i]);
}

std::vector<ValueId> Node::result_with_auxiliary(std::string_view op, std::span<const ValueId> operands,
                                                 ir::Attributes attributes, size_t auxiliary) {
  std::vector<std::string> names = {names_.empty() ? std::string() : names_[0]};
  const auto& results = ir::core(op).results;
  for (size_t i = 1; i <= auxiliary; ++i) names.push_back(fmt::format("{}.{}", names[0], results[i].name));
  const auto made = add(op, operands, std::move(attributes), names);
  if (made.empty()) return {};
  bind(0, made[0]);
  return {made.begin() + 1, made.end()};
}

void Node::constant(Tensor tensor) {
  if (!good() || !wants(0)) return;
  literal_ = true;
  outputs_[0] = graph_.add_value(ir::ValueKind::kConstant, names_[0], std::move(tensor.type), std::move(tensor.data));
}

ValueId Node::scalar(double value, ir::DType dtype) {
  const ir::Attribute number = ir::is_float(dtype) ? ir::Attribute(value) : ir::Attribute(ir::Dim(whole(value)));
  return emit("full", {}, {{"shape", ir::Shape{}}, {"value", number}, {"dtype", dtype}});
}

bool Node::has_room_for_table(uint64_t numbers) {
  uint64_t made = 0;  // by this node, which is counted once it is done
  for (const ValueId table : tables_) made += graph_.value(table).data.size();
  if (source_.growth->allows(made + 2 * sizeof(double) * numbers)) return true;
  fail(fmt::format("{}: a table of {} numbers brings the graph beyond what a file of {} bytes may become", op(), numbers,
                   source_.growth->file_bytes()));
  return false;
}

ValueId Node::table(std::string_view name, ir::DType dtype, const std::vector<int64_t>& shape,
                    std::span<const double> values) {
  if (!good() || !has_room_for_table(values.size())) return {};
  const ValueId exact = tables_.emplace_back(ir::add_constant(graph_, name_of(name), ir::DType::kF64, shape, values));
  return dtype == ir::DType::kF64 ? exact : emit("cast", {exact}, {{"dtype", dtype}});
}

ValueId Node::table(std::string_view name, ir::DType dtype, const std::vector<int64_t>& shape,
                    std::span<const int64_t> values) {
  if (!good() || !has_room_for_table(values.size())) return {};
  return tables_.emplace_back(ir::add_constant(graph_, name_of(name), dtype, shape, values));
}

void Node::note_weight(ValueId value) {
  static const ir::Pattern kStored = ir::through({"cast", "identity", "reshape", "unsqueeze", "squeeze"},
                                                 ir::of_kind(ir::ValueKind::kConstant, kNumber));
  if (const auto stored = found(value, kStored)) weights_.push_back((*stored)[kNumber]);
}

ValueId Node::draw(ValueId x, ir::Draw draw) {
  if (!good() || !x.valid()) return {};
  ir::ValueType type = this->type(x);
  if (!ir::is_float(type.dtype)) {
    fail(fmt::format("{} of {}; random numbers are floats", op(), ir::str(type.dtype)));
    return {};
  }
  type.batch.mix = ir::Mix::kNone;
  draw.key = static_cast<uint64_t>(ordinal());
  return graph_.add_draw(fmt::format("{}.draw", names_.empty() ? op() : names_[0]), std::move(type), draw);
}

void Node::result_at(size_t output, ValueId value) {
  const std::array operands = {value};
  const std::array names = {names_[output]};
  const auto made = add("identity", operands, {}, names);
  if (!made.empty()) bind(output, made[0]);
}

void Node::bind(size_t output, ValueId value) {
  if (output < outputs_.size()) outputs_[output] = value;
}

Node Node::inside(ir::Graph& body) const {
  body.set_batch_symbol(graph_.batch_symbol());
  return {body, proto_, opset_, where_, {}, source_};
}

void Node::fail(std::string message) {
  if (!failure_) failure_ = error(where_, std::move(message));
}

int64_t whole(double value) {
  constexpr double kMost = 9.2e18;
  return static_cast<int64_t>(std::clamp(std::isnan(value) ? 0 : value, -kMost, kMost));
}

ir::Shape list(std::span<const int64_t> values) { return {values.begin(), values.end()}; }

}  // namespace rannc::frontend
