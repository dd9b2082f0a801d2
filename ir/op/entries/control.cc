// Control-flow operators: if and loop.
#include <algorithm>

#include "ir/gradient/vjp.h"
#include "ir/op/rules/bodies.h"

namespace rannc::ir::ops {
namespace {

constexpr uint32_t kTrips = 0, kCondition = 1, kFirstValue = 2;  // operands of a loop

// Type of a result of a body. Its dependence on samples is determined without the operands inside the body.
ValueType made_inside(const Graph& body, ValueId output) {
  ValueType type = body.type(output);
  type.contents.reset();
  return type;
}

Result<void> check_condition(const OpCall& call, size_t operand) {
  const ValueType& type = call.in(operand);
  if (type.dtype != DType::kBool) return error("its condition is " + std::string(str(type.dtype)) + ", not bool");
  if (!type.shape || !(element_count(*type.shape) == Dim(1))) return error("its condition is not one truth value");
  if (!type.batch.has_batch()) return {};
  return error("its condition differs from sample to sample");
}

bool same_shape(const OpCall& call, const ValueType& a, const ValueType& b) {
  if (!a.shape || !b.shape) return a.shape == b.shape;
  return taken_for_equal(call, *a.shape, *b.shape);
}

// --- if

Result<Types> infer_if(const OpCall& call) {
  RANNC_TRY(check_condition(call, 0));
  const Body& then = *call.attributes.body("then");
  const Body& otherwise = *call.attributes.body("else");
  for (const Body* body : {&then, &otherwise}) {
    RANNC_TRY(check_operands(*body, call.inputs.subspan(1)));
    if (body->graph().outputs().size() == call.output_count) continue;
    return error("a branch has " + std::to_string(body->graph().outputs().size()) + " results, the task has " +
                 std::to_string(call.output_count));
  }
  Types types;
  for (uint32_t i = 0; i < call.output_count; ++i) {
    ValueType type = made_inside(then.graph(), then.graph().outputs()[i]);
    const ValueType other = made_inside(otherwise.graph(), otherwise.graph().outputs()[i]);
    const bool same = type.dtype == other.dtype && same_shape(call, type, other);
    if (!same) {
      return error("its branches have different types for result " + std::to_string(i) + ": " +
                   std::string(str(type.dtype)) + (type.shape ? str(*type.shape) : "[*]") + " and " +
                   std::string(str(other.dtype)) + (other.shape ? str(*other.shape) : "[*]"));
    }
    if (!(type.batch == other.batch)) type.batch = {.mix = Mix::kMixed};
    types.push_back(std::move(type));
  }
  return types;
}

Result<Attributes> fit_if(const OpCall& call) {
  Attributes fit = call.attributes.given();
  for (const std::string_view name : {"then", "else"}) {
    RANNC_ASSIGN(Body body, fitted(*call.attributes.body(name), call.inputs.subspan(1), call.assumed));
    fit.set(name, std::move(body));
  }
  return fit;
}

Work if_work(const OpCall& call, std::span<const ValueType>) {
  const Work a = work_of_body(*call.attributes.body("then")), b = work_of_body(*call.attributes.body("else"));
  return {max(a.flops, b.flops), max(a.bytes, b.bytes)};
}

std::vector<aten::Value> operands_from(uint32_t first, uint32_t last) {
  std::vector<aten::Value> values;
  for (uint32_t i = first; i < last; ++i) values.emplace_back(aten::Operand{i});
  return values;
}

aten::Lowering control(std::string_view schema, std::vector<aten::Argument> arguments, std::vector<aten::Block> blocks,
                       size_t results) {
  const auto count = static_cast<uint32_t>(results);
  aten::Lowering made;
  made.calls.push_back({std::string(schema), std::move(arguments), count, false, std::move(blocks)});
  for (uint32_t i = 0; i < count; ++i) made.results.emplace_back(aten::Made{0, i});
  return made;
}

Result<aten::Lowering> lower_if(const LowerCall& call) {
  RANNC_ASSIGN(aten::Lowering then, lower_body(*call.attributes.body("then"), call.device));
  RANNC_ASSIGN(aten::Lowering otherwise, lower_body(*call.attributes.body("else"), call.device));
  return control(aten::kIf, {aten::Operand{0}, operands_from(1, static_cast<uint32_t>(call.inputs.size()))},
                 {aten::Block(std::move(then)), aten::Block(std::move(otherwise))}, call.outputs.size());
}

// --- loop

// Groups of a loop's operands, from the third on.
struct Parts {
  uint32_t states = 0, scanned = 0, end = 0;
  uint32_t first_scanned() const { return kFirstValue + states; }
  uint32_t first_captured() const { return first_scanned() + scanned; }
};

Parts parts_of(const OpAttributes& attributes, size_t operands) {
  return {static_cast<uint32_t>(attributes.integer("states")), static_cast<uint32_t>(attributes.integer("scanned")),
          static_cast<uint32_t>(std::max<size_t>(operands, kFirstValue))};
}

// Number of trips if it follows from sizes. A condition may end the loop earlier.
std::optional<Dim> trips_of(const OpAttributes& attributes, std::span<const ValueType* const> inputs) {
  if (const Attribute* given = attributes.find("trips")) {
    if (const auto* dim = std::get_if<Dim>(given)) return *dim;
  }
  const ValueType* operand = inputs.empty() ? nullptr : inputs[kTrips];
  if (operand != nullptr && operand->contents && operand->contents->size() == 1) return operand->contents->front();
  const Parts parts = parts_of(attributes, inputs.size());
  const bool rows = operand == nullptr && parts.scanned > 0 && inputs[parts.first_scanned()]->shape;
  if (rows && !inputs[parts.first_scanned()]->shape->empty()) return inputs[parts.first_scanned()]->shape->front();
  return std::nullopt;
}

// Certain upper bound of the number of trips.
std::optional<Dim> most_trips(const OpAttributes& attributes, std::span<const ValueType* const> inputs) {
  if (const auto trips = trips_of(attributes, inputs)) return trips;
  if (attributes.has("max_trips")) return Dim(attributes.integer("max_trips"));
  return std::nullopt;
}

Result<void> check_rows(const OpCall& call, uint32_t operand, const Dim& trips) {
  RANNC_ASSIGN(const Shape shape, shape_of(call, operand));
  if (shape.empty()) return error("it takes rows of operand " + std::to_string(operand) + ", which is a scalar");
  if (!taken_for_equal(call, shape[0], trips)) {
    return error("operand " + std::to_string(operand) + " has " + shape[0].str() + " rows for " + trips.str() +
                 " trips");
  }
  return keep_samples_apart(call, operand, 0);
}

ValueType row_of(ValueType type) {
  type.shape->erase(type.shape->begin());
  if (type.batch.has_batch()) --type.batch.axis;
  return type;
}

ValueType rows_of(ValueType row, const Dim& trips) {
  row.shape->insert(row.shape->begin(), trips);
  if (row.batch.has_batch()) ++row.batch.axis;
  return row;
}

// Values passed to the body: trip number, condition, states, rows, captured values.
class Handed {
 public:
  Handed(const OpCall& call, const Parts& parts) {
    rows_.reserve(parts.scanned);
    given = {&counter_, &condition_};
    for (uint32_t i = kFirstValue; i < parts.end; ++i) {
      const bool scanned = i >= parts.first_scanned() && i < parts.first_captured();
      const bool has_rows = scanned && call.has(i) && call.in(i).shape && !call.in(i).shape->empty();
      if (has_rows) rows_.push_back(row_of(call.in(i)));
      given.push_back(has_rows ? &rows_.back() : call.inputs[i]);
    }
  }
  std::vector<const ValueType*> given;

 private:
  const ValueType counter_ = make_type(DType::kI64, {}), condition_ = make_type(DType::kBool, {});
  std::vector<ValueType> rows_;
};

Result<Parts> checked_parts(const OpCall& call) {
  const int64_t states = call.attributes.integer("states"), scanned = call.attributes.integer("scanned");
  const auto values = static_cast<int64_t>(call.inputs.size()) - int64_t{kFirstValue};
  if (states >= 0 && scanned >= 0 && states <= values && scanned <= values - states) {
    return parts_of(call.attributes, call.inputs.size());
  }
  return error("it has " + std::to_string(call.inputs.size()) + " operands for " + std::to_string(states) +
               " states and " + std::to_string(scanned) + " scanned values");
}

Result<Attributes> fit_loop(const OpCall& call) {
  RANNC_ASSIGN(const Parts parts, checked_parts(call));
  Attributes fit = call.attributes.given();
  RANNC_ASSIGN(Body body, fitted(*call.attributes.body("body"), Handed(call, parts).given, call.assumed));
  fit.set("body", std::move(body));
  return fit;
}

Result<Types> states_of(const OpCall& call, const Parts& parts, const Graph& body, size_t first_output) {
  Types types;
  for (uint32_t i = 0; i < parts.states; ++i) {
    const ValueType before = made_inside(body, body.inputs()[kFirstValue + i]);
    ValueType after = made_inside(body, body.outputs()[first_output + i]);
    if (!before.shape) return error("the rank of state " + std::to_string(i) + " is unknown");
    if (before.dtype != after.dtype || !same_shape(call, before, after) ||
        before.batch.has_batch() != after.batch.has_batch()) {
      return error("state %" + std::string(body.value(body.inputs()[kFirstValue + i]).name) + " is " +
                   std::string(str(before.dtype)) + str(*before.shape) + " before a trip and " +
                   std::string(str(after.dtype)) + (after.shape ? str(*after.shape) : "[*]") +
                   " after it; it must not change");
    }
    if (after.batch.mix != Mix::kNone) after.batch.mix = Mix::kMixed;
    types.push_back(std::move(after));
  }
  return types;
}

Result<Types> infer_loop(const OpCall& call) {
  const Body& body = *call.attributes.body("body");
  const Graph& graph = body.graph();
  RANNC_ASSIGN(const Parts parts, checked_parts(call));
  if (call.has(kCondition)) RANNC_TRY(check_condition(call, kCondition));
  const auto trips = trips_of(call.attributes, call.inputs);
  if (trips && call.batch_symbol.size() > 0 && trips->uses(call.batch_symbol)) {
    return error("its number of trips, " + trips->str() + ", depends on the number of samples");
  }
  if (!trips && !call.has(kTrips) && !call.has(kCondition))
    return error("it has neither a number of trips nor a condition");
  for (uint32_t i = parts.first_scanned(); i < parts.first_captured(); ++i) {
    if (!trips) return error("it reads rows, but its number of trips depends on data");
    RANNC_TRY(check_rows(call, i, *trips));
  }
  RANNC_TRY(check_operands(body, Handed(call, parts).given));
  const size_t conditions = call.has(kCondition) ? 1 : 0;
  if (graph.outputs().size() != call.output_count + conditions || call.output_count < parts.states) {
    return error("its body has " + std::to_string(graph.outputs().size()) + " results, " +
                 std::to_string(call.output_count + conditions) + " are needed: those of the task" +
                 (conditions != 0 ? " after a condition" : ""));
  }
  RANNC_ASSIGN(Types types, states_of(call, parts, graph, conditions));
  for (uint32_t i = parts.states; i < call.output_count; ++i) {
    const ValueType row = made_inside(graph, graph.outputs()[conditions + i]);
    if (!trips || conditions != 0 || !row.shape) {
      return error("it stacks a result of each trip, but its number of trips depends on data");
    }
    types.push_back(rows_of(row, *trips));
  }
  return types;
}

Work loop_work(const OpCall& call, std::span<const ValueType>) {
  const Work once = work_of_body(*call.attributes.body("body"));
  const Dim trips = most_trips(call.attributes, call.inputs).value_or(1);
  return {once.flops * trips, once.bytes * trips};
}

Result<aten::Lowering> lower_loop(const LowerCall& call) {
  RANNC_ASSIGN(aten::Lowering body, lower_body(*call.attributes.body("body"), call.device));
  const Parts parts = parts_of(call.attributes, call.inputs.size());
  aten::Argument::Kind trips = aten::None{}, condition = aten::None{}, most = aten::None{};
  if (const auto known = trips_of(call.attributes, call.inputs)) {
    trips = *known;
  } else if (call.has(kTrips)) {
    trips = aten::Value(aten::Operand{kTrips});
  }
  if (call.has(kCondition)) condition = aten::Value(aten::Operand{kCondition});
  if (call.attributes.has("max_trips")) most = Dim(call.attributes.integer("max_trips"));
  return control(aten::kLoop,
                 {trips, condition, operands_from(kFirstValue, parts.first_scanned()),
                  operands_from(parts.first_scanned(), parts.first_captured()),
                  operands_from(parts.first_captured(), parts.end), most},
                 {aten::Block(std::move(body))}, call.outputs.size());
}

// --- tape

// Float operands from the 64th on count as wanted.
bool wants(const TapeCall& call, size_t operand) {
  return operand < 64 ? call.wants(operand) : call.inputs[operand] != nullptr && is_float(call.inputs[operand]->dtype);
}

std::vector<bool> wanted_from(const TapeCall& call, size_t first, size_t handed) {
  std::vector<bool> wanted(handed);
  for (size_t i = first; i < call.inputs.size(); ++i) wanted.push_back(wants(call, i));
  return wanted;
}

TapeUse if_tape(const TapeCall& call) {
  const OpAttributes attributes(call.op, call.attributes);
  const std::vector<bool> wanted = wanted_from(call, 1, 0);
  const BodyTape a = tape_of_body(*attributes.body("then"), wanted), b = tape_of_body(*attributes.body("else"), wanted);
  TapeUse use{.own_bytes = max(a.own_bytes, b.own_bytes), .workspace_bytes = max(a.workspace_bytes, b.workspace_bytes)};
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    if (a.inputs[i] || b.inputs[i]) use.keeps.push_back(kept_operand(i + 1));
  }
  return use;
}

// A state wants a gradient if any trip gives it one. If any operand wants a gradient, all float states do.
TapeUse loop_tape(const TapeCall& call) {
  const OpAttributes attributes(call.op, call.attributes);
  const Parts parts = parts_of(attributes, call.inputs.size());
  std::vector<bool> wanted = wanted_from(call, kFirstValue, kFirstValue);
  for (uint32_t i = kFirstValue; i < parts.first_scanned(); ++i) wanted[i] = is_float(call.inputs[i]->dtype);
  const BodyTape once = tape_of_body(*attributes.body("body"), wanted);
  const Dim trips = most_trips(attributes, call.inputs).value_or(1);
  TapeUse use{.own_bytes = once.own_bytes * trips, .workspace_bytes = once.workspace_bytes};
  const size_t first_output = once.outputs.size() - call.outputs.size();
  for (uint32_t i = kFirstValue; i < wanted.size(); ++i) {
    if (!once.inputs[i]) continue;
    use.keeps.push_back(kept_operand(i));
    // On all trips but the first, a state is a result of the previous trip, which may already be kept there.
    const size_t state = i - kFirstValue;
    if (state >= parts.states || once.outputs[first_output + state]) continue;
    const ValueType& type = *call.inputs[i];
    use.own_bytes =
        use.own_bytes + element_count(shape_of(type)) * Dim(byte_size(type.dtype)) * max(trips - Dim(1), Dim(0));
  }
  return use;
}

}  // namespace

std::vector<OpInfo> control_ops() {
  using Kind = AttributeKind;
  const OperandInfo values{"values", Role::kData, Presence::kVariadic};
  const auto body = [](std::string_view name) {
    return AttributeInfo{.name = name, .kind = Kind::kBody, .required = true};
  };
  return {
      {.name = "core.if",
       .summary = "the results of body `then` where the condition holds, else those of `else`; both take all values",
       .onnx = {"If"},
       .operands = {{"condition"}, values},
       .attributes = {body("then"), body("else")},
       .results = {{"results", Presence::kVariadic}},
       .autocast = Autocast::kFloat32,
       .infer = infer_if,
       .fit = fit_if,
       .work = if_work,
       .lower = lower_if,
       .gradient = gradient_by_vjp,
       .tape = TapeInfo{.rule = if_tape}},
      {.name = "core.loop",
       .summary =
           "runs the body trip after trip, as long as the condition holds; values are first `states`, which each trip "
           "makes anew, then `scanned`, of which it takes a row, then what it only reads. Results are the last states, "
           "then all that the trips made besides, stacked",
       .onnx = {"Loop", "Scan"},
       .operands = {{"trips", Role::kSize, Presence::kOptional, "trips"},
                    {"condition", Role::kData, Presence::kOptional},
                    values},
       .attributes = {body("body"),
                      {"states", Kind::kInteger, Dim(0)},
                      {"scanned", Kind::kInteger, Dim(0)},
                      {"trips", Kind::kScalar},
                      {"max_trips", Kind::kInteger}},
       .results = {{"results", Presence::kVariadic}},
       .autocast = Autocast::kFloat32,
       .infer = infer_loop,
       .fit = fit_loop,
       .work = loop_work,
       .lower = lower_loop,
       .gradient = gradient_by_vjp,
       .tape = TapeInfo{.rule = loop_tape}},
  };
}

}  // namespace rannc::ir::ops
