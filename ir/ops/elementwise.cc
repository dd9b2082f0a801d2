// Elementwise operators.
#include "ir/ops/fold.h"
#include "ir/ops/interval.h"
#include "ir/ops/rules.h"

namespace rannc::ir::ops {
namespace {

// --- type rule

std::optional<Dim> safe_div(const Dim& a, const Dim& b) {
  if (b == Dim(0) || (b == Dim(-1) && a == Dim(INT64_MIN))) return std::nullopt;
  return floor_div(a, b);
}
std::optional<Dim> truncated_div(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant() && b.constant() != 0 && b.constant() != -1) {
    return a.constant() / b.constant();
  }
  const auto sign_a = sign(a), sign_b = sign(b);
  if (!sign_a || !sign_b || *sign_b == 0) return std::nullopt;
  if (a == Dim(INT64_MIN) || b == Dim(INT64_MIN)) return std::nullopt;
  if (*sign_a * *sign_b >= 0) return floor_div(a, b);
  return Dim(0) - floor_div(Dim(0) - a, b);
}
std::optional<Dim> safe_mod(const Dim& a, const Dim& b) {
  if (b == Dim(0)) return std::nullopt;
  return mod(a, b);
}
std::optional<Dim> power(const Dim& a, const Dim& b) {
  if (!b.is_constant() || b.constant() < 0 || b.constant() > 16) return std::nullopt;
  Dim out = 1;
  for (int64_t i = 0; i < b.constant(); ++i) out = times(out, a);
  return out;
}

using Fold = std::optional<Dim> (*)(const Dim&, const Dim&);

struct BinaryFold {
  std::string_view name;
  Fold fold;
};

template <int kLess, int kEqual, int kGreater>
std::optional<Dim> compare(const Dim& a, const Dim& b) {
  if (a == b) return Dim(kEqual);
  if (a.is_constant() && b.is_constant()) return Dim(a.constant() < b.constant() ? kLess : kGreater);
  const Dim difference = a - b;
  const auto s = sign(difference);
  if (s) return Dim(*s < 0 ? kLess : *s == 0 ? kEqual : kGreater);
  if (kLess == kEqual && never_positive(difference)) return Dim(kLess);
  if (kGreater == kEqual && never_negative(difference)) return Dim(kGreater);
  return std::nullopt;
}

const BinaryFold kBinaryFolds[] = {
    {"add", [](const Dim& a, const Dim& b) { return std::optional(plus(a, b)); }},
    {"sub", [](const Dim& a, const Dim& b) { return std::optional(minus(a, b)); }},
    {"mul", [](const Dim& a, const Dim& b) { return std::optional(times(a, b)); }},
    {"pow", power},
    {"mod", safe_mod},
    {"maximum", [](const Dim& a, const Dim& b) { return std::optional(larger(a, b)); }},
    {"minimum", [](const Dim& a, const Dim& b) { return std::optional(smaller(a, b)); }},
    {"eq", compare<0, 1, 0>},
    {"ne", compare<1, 0, 1>},
    {"lt", compare<1, 0, 0>},
    {"le", compare<1, 1, 0>},
    {"gt", compare<0, 0, 1>},
    {"ge", compare<0, 1, 1>},
    {"logical_and", [](const Dim& a, const Dim& b) { return std::optional(a * b); }},
    {"logical_or", [](const Dim& a, const Dim& b) { return std::optional(a + b - a * b); }},
    {"logical_xor", [](const Dim& a, const Dim& b) { return std::optional(a + b - Dim(2) * a * b); }},
};

Fold binary_fold(const OpCall& call) {
  const std::string_view name = short_name(call.op);
  if (name == "div") return call.attributes.text("rounding", "none") == "trunc" ? truncated_div : safe_div;
  for (const BinaryFold& entry : kBinaryFolds) {
    if (entry.name == name) return entry.fold;
  }
  return nullptr;
}

// Shape and samples of a broadcast operation over the operands from `first` on, of element type `dtype`.
Result<ValueType> broadcast_type(const OpCall& call, DType dtype) {
  RANNC_ASSIGN(Shape shape, shape_of(call, 0));
  std::vector<size_t> operands = {0};
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    RANNC_ASSIGN(const Shape other, shape_of(call, i));
    RANNC_ASSIGN(shape, broadcast(call, shape, other));
    operands.push_back(i);
  }
  RANNC_ASSIGN(BatchLayout layout, broadcast_layout(call, shape.size(), operands));
  return make_type(dtype, std::move(shape), std::move(layout));
}

Result<Types> binary_type(const OpCall& call, DType dtype) {
  RANNC_ASSIGN(ValueType type, broadcast_type(call, dtype));
  if (const Fold fold = binary_fold(call)) set_contents(type, map_contents(call.in(0), call.in(1), fold));
  return Types{std::move(type)};
}

Result<Types> infer_arithmetic(const OpCall& call) {
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1}));
  if (dtype == DType::kBool) return error("arithmetic on bool");
  if (short_name(call.op) == "div" && !is_float(dtype) && call.attributes.text("rounding", "none") == "none") {
    return error("division of integers needs rounding=\"trunc\" or \"floor\"");
  }
  return binary_type(call, dtype);
}
Result<Types> infer_power(const OpCall& call) { return binary_type(call, call.in(0).dtype); }

Result<Types> infer_comparison(const OpCall& call) {
  RANNC_TRY(common_dtype(call, {0, 1}));
  return binary_type(call, DType::kBool);
}

Result<void> require_bool(const OpCall& call, size_t operand) {
  if (call.in(operand).dtype == DType::kBool) return {};
  return error("operand " + std::to_string(operand) + " is " + std::string(str(call.in(operand).dtype)) +
               "; it must be bool");
}

Result<Types> infer_logical(const OpCall& call) {
  RANNC_TRY(require_bool(call, 0));
  RANNC_TRY(require_bool(call, 1));
  return binary_type(call, DType::kBool);
}

ValueType like(const OpCall& call, DType dtype) {
  ValueType type = call.in(0);
  type.dtype = dtype;
  type.contents.reset();
  return type;
}

Result<Types> infer_float(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  if (!is_float(call.in(0).dtype)) {
    return error("operand 0 is " + std::string(str(call.in(0).dtype)) + "; it must be a float type");
  }
  return Types{like(call, call.in(0).dtype)};
}

Result<Types> infer_float_test(const OpCall& call) {
  RANNC_TRY(infer_float(call));
  return Types{like(call, DType::kBool)};
}

Result<Types> infer_numeric(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  if (call.in(0).dtype == DType::kBool) return error("operand 0 is bool; it must be a number");
  ValueType type = like(call, call.in(0).dtype);
  const std::string_view name = short_name(call.op);
  if (name == "neg") {
    set_contents(type, map_contents(call.in(0), [](const Dim& x) { return std::optional(minus(0, x)); }));
  } else if (name == "abs" || name == "relu" || name == "sign") {
    const bool absolute = name == "abs", rectify = name == "relu";
    Contents out;
    for (const Dim& x : call.in(0).contents.value_or(Contents{})) {
      const auto s = sign(x);
      if (!s) return Types{std::move(type)};
      out.push_back(absolute ? (*s < 0 ? minus(0, x) : x) : rectify ? (*s < 0 ? Dim(0) : x) : Dim(*s));
    }
    if (call.in(0).contents) set_contents(type, std::move(out));
  }
  return Types{std::move(type)};
}

Result<Types> infer_identity(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  return Types{call.in(0)};
}

Result<Types> infer_not(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  RANNC_TRY(require_bool(call, 0));
  ValueType type = like(call, DType::kBool);
  set_contents(type, map_contents(call.in(0), [](const Dim& x) { return std::optional(Dim(1) - x); }));
  return Types{std::move(type)};
}

Result<Types> infer_clamp(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  if (call.in(0).dtype == DType::kBool) return error("operand 0 is bool; it must be a number");
  return Types{like(call, call.in(0).dtype)};
}

// Elements of `a` and `b` as the condition chooses; nothing where one of the three is not known. Operands of one
// element stand for as many as the result has, which may be none.
std::optional<Contents> chosen_contents(const OpCall& call, const ValueType& type) {
  const Dim count = element_count(*type.shape);
  if (!count.is_constant() || count.constant() > kMaxContents) return std::nullopt;
  const auto n = static_cast<size_t>(count.constant());
  for (size_t i = 0; i < 3; ++i) {
    const auto& contents = call.in(i).contents;
    if (!contents || (contents->size() != n && contents->size() != 1)) return std::nullopt;
  }
  const auto at = [&](size_t operand, size_t i) {
    const Contents& contents = *call.in(operand).contents;
    return contents[contents.size() == 1 ? 0 : i];
  };
  Contents out;
  for (size_t i = 0; i < n; ++i) {
    const Dim chosen = at(0, i);
    if (!chosen.is_constant()) return std::nullopt;
    out.push_back(at(chosen.constant() ? 1 : 2, i));
  }
  return out;
}

Result<Types> infer_where(const OpCall& call) {
  RANNC_TRY(require_bool(call, 0));
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {1, 2}));
  RANNC_ASSIGN(ValueType type, broadcast_type(call, dtype));
  set_contents(type, chosen_contents(call, type));
  return Types{std::move(type)};
}

Result<Types> infer_cast(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  const auto dtype = call.attributes.dtype("dtype");
  if (!dtype) return error("attribute dtype is missing");
  ValueType type = like(call, *dtype);
  if (*dtype == DType::kBool && call.in(0).dtype != DType::kBool) {
    set_contents(type, map_contents(call.in(0), [](const Dim& x) { return compare<1, 0, 1>(x, Dim(0)); }));
  } else {
    set_contents(type, call.in(0).contents);
  }
  return Types{std::move(type)};
}

// --- work

// Approximate operations per element of functions that cost more than an add.
int64_t operations(std::string_view name) {
  for (const std::string_view costly :
       {"exp", "log", "erf", "tanh", "sigmoid", "sin", "cos", "softplus", "silu", "gelu", "pow", "elu"}) {
    if (name == costly) return 10;
  }
  return 1;
}

Work elementwise_work(const OpCall& call, std::span<const ValueType> outputs) {
  if (!outputs[0].shape || !is_float(outputs[0].dtype)) return work(0, call, outputs);
  return work(element_count(*outputs[0].shape) * Dim(operations(short_name(call.op))), call, outputs);
}

// --- lowering

using aten::FromAttribute;
using aten::Operand;
using aten::Scalar;
using aten::Text;

Result<aten::Lowering> lower_div(const LowerCall& call) {
  const std::string rounding = call.attributes.text("rounding", "none");
  if (rounding == "none") return one_call("aten::div.Tensor", {Operand{0}, Operand{1}});
  return one_call("aten::div.Tensor_mode", {Operand{0}, Operand{1}, {"rounding_mode", Text{rounding}}});
}
// ATen promotes mixed operands; the result has the base's type.
Result<aten::Lowering> lower_pow(const LowerCall& call) {
  Calls calls;
  aten::Made power = calls("aten::pow.Tensor_Tensor", {Operand{0}, Operand{1}});
  const DType base = call.inputs[0]->dtype;
  if (base != call.inputs[1]->dtype) power = calls("aten::to.dtype", {power, {"dtype", base}});
  return std::move(calls).with({power});
}
Result<aten::Lowering> lower_clamp(const LowerCall& call) {
  const auto bound = [&](std::string_view name) -> aten::Argument::Kind {
    const Attribute* value = call.attributes.find(name);
    if (value == nullptr) return aten::None{};
    return number_attribute(*value, call.inputs[0]->dtype);
  };
  if (!call.attributes.has("min") && !call.attributes.has("max")) return passed_on();
  return one_call("aten::clamp", {Operand{0}, bound("min"), bound("max")});
}
Result<aten::Lowering> lower_identity(const LowerCall&) { return passed_on(); }
Result<aten::Lowering> lower_cast(const LowerCall& call) {
  return one_call("aten::to.dtype", {Operand{0}, {"dtype", call.outputs[0]->dtype}});
}

OpInfo made(std::string_view name, uint32_t operands, std::vector<std::string> attributes, InferRule infer) {
  return {.name = "core." + std::string(name),
          .min_inputs = operands,
          .max_inputs = operands,
          .attributes = std::move(attributes),
          .infer = infer,
          .work = elementwise_work};
}

OpInfo row(std::string_view name, uint32_t operands, std::vector<std::string> attributes, InferRule infer,
           LowerRule lower) {
  OpInfo op = made(name, operands, std::move(attributes), infer);
  op.lower = lower;
  return op;
}

/// One call of `schema` with the operands and `slots`.
OpInfo row(std::string_view name, uint32_t operands, std::vector<std::string> attributes, InferRule infer,
           std::string schema, std::vector<aten::Template::Slot> slots = {}) {
  OpInfo op = made(name, operands, std::move(attributes), infer);
  op.form = form(std::move(schema), operands, std::move(slots));
  return op;
}

OpInfo folding(OpInfo op, FoldRule rule, IntervalRule interval = nullptr) {
  op.fold = rule;
  op.interval = interval;
  return op;
}

}  // namespace

std::vector<OpInfo> elementwise_ops() {
  using Folds = std::vector<std::pair<std::string, FoldRule>>;
  using Rules = std::vector<std::tuple<std::string, FoldRule, IntervalRule>>;
  std::vector<OpInfo> table = {
      folding(row("div", 2, {"rounding"}, infer_arithmetic, lower_div), fold::div, interval::div),
      folding(row("mod", 2, {}, infer_arithmetic, "aten::remainder.Tensor"), fold::mod, interval::mod),
      folding(row("pow", 2, {}, infer_power, lower_pow), fold::pow),
      // ATen's threshold of 20 would leave an error of 1e-9.
      row("softplus", 1, {}, infer_float, "aten::softplus", {{"", Scalar{Dim(1)}}, {"", Scalar{Dim(40)}}}),
      row("isnan", 1, {}, infer_float_test, "aten::isnan"),
      row("isinf", 1, {}, infer_float_test, "aten::isinf"),
      folding(row("logical_not", 1, {}, infer_not, "aten::logical_not"), fold::logical_not),
      folding(row("identity", 1, {}, infer_identity, lower_identity), fold::identity, interval::identity),
      row("gelu", 1, {"approximate"}, infer_float, "aten::gelu",
          {{"approximate", FromAttribute{"approximate", Text{"none"}}}}),
      row("leaky_relu", 1, {"alpha"}, infer_float, "aten::leaky_relu", {{"", FromAttribute{"alpha", Scalar{0.01}}}}),
      row("elu", 1, {"alpha"}, infer_float, "aten::elu", {{"", FromAttribute{"alpha", Scalar{1.0}}}}),
      folding(row("clamp", 1, {"min", "max"}, infer_clamp, lower_clamp), fold::clamp, interval::clamp),
      folding(row("where", 3, {}, infer_where, "aten::where.self"), fold::where, interval::where),
      folding(row("cast", 1, {"dtype"}, infer_cast, lower_cast), fold::cast, interval::cast),
  };
  for (const auto& [name, rule, interval] :
       Rules{{"add", fold::add, interval::add}, {"sub", fold::sub, interval::sub}, {"mul", fold::mul, interval::mul}}) {
    table.push_back(folding(row(name, 2, {}, infer_arithmetic, "aten::" + name + ".Tensor"), rule, interval));
  }
  for (const auto& [name, rule, interval] :
       Rules{{"maximum", fold::maximum, interval::maximum}, {"minimum", fold::minimum, interval::minimum}}) {
    table.push_back(folding(row(name, 2, {}, infer_arithmetic, "aten::" + name), rule, interval));
  }
  for (const auto& [name, rule] :
       Folds{{"neg", fold::neg}, {"abs", fold::abs}, {"relu", fold::relu}, {"sign", fold::sign}})
    table.push_back(folding(row(name, 1, {}, infer_numeric, "aten::" + name), rule));
  for (const std::string name : {"exp", "log", "sqrt", "rsqrt", "reciprocal", "erf", "tanh", "sigmoid", "floor", "ceil",
                                 "sin", "cos", "silu", "hardswish", "hardsigmoid"}) {
    table.push_back(row(name, 1, {}, infer_float, "aten::" + name));
  }
  for (const auto& [name, rule] :
       Folds{{"logical_and", fold::logical_and}, {"logical_or", fold::logical_or}, {"logical_xor", fold::logical_xor}})
    table.push_back(folding(row(name, 2, {}, infer_logical, "aten::" + name), rule));
  for (const auto& [name, rule] : Folds{
           {"eq", fold::eq}, {"ne", fold::ne}, {"lt", fold::lt}, {"le", fold::le}, {"gt", fold::gt}, {"ge", fold::ge}})
    table.push_back(folding(row(name, 2, {}, infer_comparison, "aten::" + name + ".Tensor"), rule));
  return table;
}

}  // namespace rannc::ir::ops
