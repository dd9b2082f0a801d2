#include "frontend/onnx/internal/translate/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "frontend/internal/growth.h"
#include "frontend/internal/sizes.h"
#include "ir/graph/constant.h"

namespace rannc::frontend {

namespace {

constexpr ir::Capture kNumber{0};

std::string stem_of(const ONNX_NAMESPACE::NodeProto& proto, const Node::Wiring& wiring) {
  const auto& names = wiring.output_names;
  return names.empty() || names[0].empty() ? proto.op_type() : names[0];
}

}  // namespace

Node::Node(ir::Graph& graph, const ONNX_NAMESPACE::NodeProto& proto, int opset, Location where, Wiring wiring,
           const Source& source)
    : TaskWriter(graph, std::move(where), proto.op_type(), stem_of(proto, wiring)),
      proto_(proto),
      opset_(opset),
      operands_(std::move(wiring.operands)),
      names_(std::move(wiring.output_names)),
      outputs_(names_.size()),
      lists_(std::move(wiring.lists)),
      source_(source),
      traced_(std::move(wiring.traced)) {}

bool Node::traced_strict_bounds() {
  for (const std::string_view op : {"relu6", "hardtanh"}) {
    const bool traced = traced_ && traced_->is("aten." + std::string(op));
    // dynamo=True names nodes like this, even in files whose metadata was stripped.
    const bool named = !traced_ && proto_.name().starts_with("node_" + std::string(op));
    if (!traced && !named) continue;
    remarks_.push_back({where(), fmt::format("bounds of {} take no gradient, unlike those of a clamp", op)});
    return true;
  }
  return false;
}

bool Node::traced_pick() {
  if (!traced_ || (traced_->target != "aten.max.dim" && traced_->target != "aten.min.dim")) return false;
  remarks_.push_back({where(), "the first of equal elements gets the gradient: the extreme is picked along an axis"});
  return true;
}

std::optional<int64_t> Node::traced_padding_index(const ir::Shape& table) {
  if (!traced_ || !traced_->is("aten.embedding") || table.size() != 2) return std::nullopt;
  const auto row = traced_->number(2);
  if (!row || *row < 0 || !table[0].is_constant() || *row >= static_cast<double>(table[0].constant())) {
    return std::nullopt;
  }
  const auto index = static_cast<int64_t>(*row);
  remarks_.push_back({where(), fmt::format("row {} of %{} takes no gradient: it is the embedding's padding_idx", index,
                                           graph().value(in(0)).name)});
  return index;
}

double Node::traced_label_smoothing() {
  if (!traced_ || !traced_->is("aten.cross_entropy_loss")) return 0;
  const double smoothing = traced_->number(5).value_or(0);
  if (!(smoothing > 0 && smoothing <= 1)) return 0;
  remarks_.push_back(
      {where(), fmt::format("labels are smoothed by {}, which the node itself does not say", smoothing)});
  return smoothing;
}

ValueId Node::in(size_t index) {
  if (!has(index)) fail(fmt::format("{} needs operand {}", op(), index));
  return optional(index);
}

std::optional<ir::Attribute> Node::bound(ValueId value) const {
  if (const auto known = contents(value); known && known->size() == 1) return known->front();
  if (const auto known = number(value)) {
    constexpr double kMost = 0x1p53;
    const bool is_whole = std::abs(*known) <= kMost && std::trunc(*known) == *known;
    return is_whole ? ir::Attribute(ir::Dim(whole(*known))) : ir::Attribute(*known);
  }
  const auto sizes = sizes_through_floats(graph(), value);
  return sizes && sizes->size() == 1 ? std::optional<ir::Attribute>(sizes->front()) : std::nullopt;
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
  outputs_[0] = ir::add_constant(graph(), names_[0], dtype, shape, values);
}

ValueId Node::optional(size_t index) const { return has(index) ? operands_[index] : ValueId(); }

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
  outputs_[0] = graph().add_value(ir::ValueKind::kConstant, names_[0], std::move(tensor.type), std::move(tensor.data));
}

bool Node::has_room_for_table(uint64_t numbers) {
  uint64_t made = 0;  // by this node, which is counted only when it is done
  for (const ValueId table : tables_) made += graph().value(table).data.size();
  if (source_.growth->allows(made + 2 * sizeof(double) * numbers)) return true;
  fail(fmt::format("{}: a table of {} numbers exceeds the graph size allowed for a file of {} bytes", op(), numbers,
                   source_.growth->file_bytes()));
  return false;
}

ValueId Node::table(std::string_view name, ir::DType dtype, const std::vector<int64_t>& shape,
                    std::span<const double> values) {
  if (!good() || !has_room_for_table(values.size())) return {};
  const ValueId exact = tables_.emplace_back(ir::add_constant(graph(), name_of(name), ir::DType::kF64, shape, values));
  return dtype == ir::DType::kF64 ? exact : emit("cast", {exact}, {{"dtype", dtype}});
}

ValueId Node::table(std::string_view name, ir::DType dtype, const std::vector<int64_t>& shape,
                    std::span<const int64_t> values) {
  if (!good() || !has_room_for_table(values.size())) return {};
  return tables_.emplace_back(ir::add_constant(graph(), name_of(name), dtype, shape, values));
}

void Node::compute_in(ir::DType (*wide)(ir::DType), void (*translate)(Node&)) {
  const std::vector<ValueId> given = operands_;
  std::optional<ir::DType> narrow;
  for (ValueId& each : operands_) {
    const ValueId converted = cast(each, wide(dtype(each)));
    if (converted != each) narrow = dtype(each);
    each = converted;
  }
  if (!narrow || !wants(0)) return translate(*this);
  const std::string name = std::exchange(names_[0], name_of("wide"));
  translate(*this);
  operands_ = given;
  names_[0] = name;
  result("cast", {outputs_[0]}, {{"dtype", *narrow}});
}

void Node::round_once(void (*translate)(Node&)) { compute_in(ir::sum_dtype, translate); }

void Node::compute_in_i64(void (*translate)(Node&), Keeps keeps) {
  for (const ValueId each : operands_) {
    if (keeps == Keeps::kOrder && each.valid() && dtype(each) == ir::DType::kU64)
      return fail(op() + " of u64 is not supported");
  }
  compute_in([](ir::DType dtype) { return is_wide_unsigned(dtype) ? ir::DType::kI64 : dtype; }, translate);
}

void Node::note_weight(ValueId value) {
  static const ir::Pattern kStored = ir::through({"cast", "identity", "reshape", "unsqueeze", "squeeze"},
                                                 ir::of_kind(ir::ValueKind::kConstant, kNumber));
  if (const auto stored = match(value, kStored)) weights_.push_back((*stored)[kNumber]);
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
  body.set_batch_symbol(graph().batch_symbol());
  return {body, proto_, opset_, where(), {}, source_};
}

}  // namespace rannc::frontend
