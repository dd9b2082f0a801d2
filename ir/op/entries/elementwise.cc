// Elementwise operators.
#include "ir/op/entries/elementwise_contents.h"
#include "ir/op/entries/elementwise_rows.h"
#include "ir/op/folding/fold.h"
#include "ir/op/gradients/gradients_elementwise.h"
#include "ir/op/rules/interval.h"
#include "ir/op/rules/rules.h"

namespace rannc::ir::ops {
namespace {

// --- type rule

using Contents1 = std::optional<Dim> (*)(const Dim&);
using Contents2 = std::optional<Dim> (*)(const Dim&, const Dim&);

Result<Types> binary_type(const OpCall& call, DType dtype, Contents2 of_contents) {
  RANNC_ASSIGN(ValueType type, broadcast_type(call, dtype));
  set_contents(type, map_contents(call.in(0), call.in(1), of_contents));
  return Types{std::move(type)};
}

template <Contents2 of_contents>
Result<Types> infer_arithmetic(const OpCall& call) {
  RANNC_ASSIGN(const DType dtype, common_dtype(call, {0, 1}));
  if (dtype == DType::kBool) return error("arithmetic on bool");
  return binary_type(call, dtype, of_contents);
}

Result<Types> infer_quotient(const OpCall& call) {
  const std::string rounding = call.attributes.text("rounding");
  if (!is_float(call.in(0).dtype) && rounding == "none") {
    return error("division of integers needs rounding=\"trunc\" or \"floor\"");
  }
  return rounding == "trunc" ? infer_arithmetic<truncated_div>(call) : infer_arithmetic<safe_div>(call);
}

Result<Types> infer_power(const OpCall& call) { return binary_type(call, call.in(0).dtype, power); }

template <Contents2 of_contents>
Result<Types> infer_comparison(const OpCall& call) {
  RANNC_TRY(common_dtype(call, {0, 1}));
  return binary_type(call, DType::kBool, of_contents);
}

Result<void> require_bool(const OpCall& call, size_t operand) {
  if (call.in(operand).dtype == DType::kBool) return {};
  return error("operand " + std::to_string(operand) + " is " + std::string(str(call.in(operand).dtype)) +
               "; it must be bool");
}

template <Contents2 of_contents>
Result<Types> infer_logical(const OpCall& call) {
  RANNC_TRY(require_bool(call, 0));
  RANNC_TRY(require_bool(call, 1));
  return binary_type(call, DType::kBool, of_contents);
}

template <Contents1 of_contents>
Result<Types> infer_numeric(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  if (call.in(0).dtype == DType::kBool) return error("operand 0 is bool; it must be a number");
  ValueType type = like(call, call.in(0).dtype);
  set_contents(type, map_contents(call.in(0), of_contents));
  return Types{std::move(type)};
}

Result<Types> infer_identity(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  return Types{call.in(0)};
}

Result<Types> infer_stopped(const OpCall& call) {
  if (!is_float(call.in(0).dtype)) return error("operand 0 is " + std::string(str(call.in(0).dtype)) + ", not a float");
  return infer_identity(call);
}

Result<Types> infer_not(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  RANNC_TRY(require_bool(call, 0));
  ValueType type = like(call, DType::kBool);
  set_contents(type, map_contents(call.in(0), none_of));
  return Types{std::move(type)};
}

Result<Types> infer_clamp(const OpCall& call) {
  RANNC_TRY(shape_of(call, 0));
  if (call.in(0).dtype == DType::kBool) return error("operand 0 is bool; it must be a number");
  if (!call.attributes.has("min") && !call.attributes.has("max")) return error("clamp has neither min nor max");
  if (call.attributes.flag("strict")) {
    if (!is_float(call.in(0).dtype))
      return error("strict bounds are of floats, not of " + std::string(str(call.in(0).dtype)));
    if (!call.attributes.has("min") || !call.attributes.has("max")) return error("strict bounds are two, min and max");
  }
  return Types{like(call, call.in(0).dtype)};
}

// Elements of `a` and `b` chosen by the condition; nothing if one of the three is unknown. Operands of one element are
// broadcast to the number of elements of the result, which may be 0.
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
  ValueType type = like(call, *dtype);
  if (*dtype == DType::kBool && call.in(0).dtype != DType::kBool) {
    set_contents(type, map_contents(call.in(0), [](const Dim& x) { return compare<1, 0, 1>(x, Dim(0)); }));
  } else {
    set_contents(type, call.in(0).contents);
  }
  return Types{std::move(type)};
}

// --- lowering

using aten::FromAttribute;
using aten::Operand;
using aten::Scalar;
using aten::Text;

Result<aten::Lowering> lower_div(const LowerCall& call) {
  const std::string rounding = call.attributes.text("rounding");
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
  const char* schema = call.attributes.flag("strict") ? "aten::hardtanh" : "aten::clamp";
  return one_call(schema, {Operand{0}, bound("min"), bound("max")});
}
Result<aten::Lowering> lower_stop_gradient(const LowerCall&) { return one_call("aten::detach", {Operand{0}}); }
Result<aten::Lowering> lower_identity(const LowerCall&) { return passed_on(); }
Result<aten::Lowering> lower_cast(const LowerCall& call) {
  return one_call("aten::to.dtype", {Operand{0}, {"dtype", call.outputs[0]->dtype}});
}

// --- sums over samples

// Rounded division is not linear.
Linear linear_div(const OpCall& call) { return is_float(call.in(0).dtype) ? Linear::kFirst : Linear::kNo; }
// Linear only if the result type represents the numbers. Other casts round, or compare with 0.
Linear linear_cast(const OpCall& call) {
  const DType to = *call.attributes.dtype("dtype");
  const bool holds = is_float(to) || (is_integer(to) && !is_float(call.in(0).dtype));
  return holds ? Linear::kFirst : Linear::kNo;
}

// --- rows

using Kind = AttributeKind;

void add_arithmetic(std::vector<OpInfo>& table) {
  const TapeInfo quotient{{kept_operand(1), operand_where(0, 1)}},
      all{{kept_operand(0), kept_operand(1), kept_result()}};
  const AttributeInfo rounding{"rounding", Kind::kText, "none", false, {"none", "trunc", "floor"}};
  table.insert(table.end(),
               {binary("add", "a + b", {"Add", "Sum"}, infer_arithmetic<sum_of>,
                       {.linear = always<Linear::kTogether>,
                        .gradient = gradient::add,
                        .fold = fold::add,
                        .interval = interval::add,
                        .schema = "aten::add.Tensor"}),
                binary("sub", "a - b", {"Sub"}, infer_arithmetic<difference_of>,
                       {.linear = always<Linear::kTogether>,
                        .gradient = gradient::sub,
                        .fold = fold::sub,
                        .interval = interval::sub,
                        .schema = "aten::sub.Tensor"}),
                binary("mul", "a * b", {"Mul"}, infer_arithmetic<product_of>,
                       {.linear = always<Linear::kEach>,
                        .gradient = gradient::mul,
                        .fold = fold::mul,
                        .interval = interval::mul,
                        .schema = "aten::mul.Tensor"}),
                binary("div", "a / b; of integers rounded by `rounding`", {"Div"}, infer_quotient,
                       {.linear = linear_div,
                        .gradient = gradient::div,
                        .tape = quotient,
                        .fold = fold::div,
                        .interval = interval::div,
                        .lower = lower_div,
                        .aten = {"aten::div"},
                        .attributes = {rounding}}),
                binary("mod", "a - b * floor(a / b)", {"Mod"}, infer_arithmetic<safe_mod>,
                       {.gradient = gradient::mod,
                        .fold = fold::mod,
                        .interval = interval::mod,
                        .schema = "aten::remainder.Tensor"}),
                binary("fmod", "a - b * trunc(a / b), of a's sign", {"Mod"}, infer_arithmetic<truncated_mod>,
                       {.gradient = gradient::fmod, .fold = fold::fmod, .schema = "aten::fmod.Tensor"}),
                binary("pow", "a to the power of b, of a's type", {"Pow"}, infer_power,
                       {.autocast = Autocast::kFloat32,
                        .gradient = gradient::pow,
                        .tape = all,
                        .fold = fold::pow,
                        .costly = true,
                        .lower = lower_pow,
                        .aten = {"aten::pow"}}),
                binary("maximum", "the larger of a and b", {"Max"}, infer_arithmetic<larger_of>,
                       {.gradient = gradient::maximum, .fold = fold::maximum, .interval = interval::maximum}),
                binary("minimum", "the smaller of a and b", {"Min"}, infer_arithmetic<smaller_of>,
                       {.gradient = gradient::minimum, .fold = fold::minimum, .interval = interval::minimum})});
}

void add_truth(std::vector<OpInfo>& table) {
  table.insert(
      table.end(),
      {binary("eq", "a = b", {"Equal"}, infer_comparison<compare<0, 1, 0>>,
              {.fold = fold::eq, .schema = "aten::eq.Tensor"}),
       binary("ne", "a ≠ b", {}, infer_comparison<compare<1, 0, 1>>, {.fold = fold::ne, .schema = "aten::ne.Tensor"}),
       binary("lt", "a < b", {"Less"}, infer_comparison<compare<1, 0, 0>>,
              {.fold = fold::lt, .schema = "aten::lt.Tensor"}),
       binary("le", "a ≤ b", {"LessOrEqual"}, infer_comparison<compare<1, 1, 0>>,
              {.fold = fold::le, .schema = "aten::le.Tensor"}),
       binary("gt", "a > b", {"Greater"}, infer_comparison<compare<0, 0, 1>>,
              {.fold = fold::gt, .schema = "aten::gt.Tensor"}),
       binary("ge", "a ≥ b", {"GreaterOrEqual"}, infer_comparison<compare<0, 1, 1>>,
              {.fold = fold::ge, .schema = "aten::ge.Tensor"}),
       binary("logical_and", "a and b, of truth values", {"And"}, infer_logical<both>, {.fold = fold::logical_and}),
       binary("logical_or", "a or b, of truth values", {"Or"}, infer_logical<either>, {.fold = fold::logical_or}),
       binary("logical_xor", "either a or b, of truth values", {"Xor"}, infer_logical<one_of>,
              {.fold = fold::logical_xor}),
       unary("logical_not", "not x, of truth values", {"Not"}, infer_not, {.fold = fold::logical_not}),
       unary("isnan", "whether x is no number", {"IsNaN"}, infer_float_test),
       unary("isinf", "whether x is infinite", {"IsInf"}, infer_float_test)});
}

void add_numeric(std::vector<OpInfo>& table) {
  const AttributeInfo dtype{.name = "dtype", .kind = Kind::kDType, .required = true};
  OpInfo identity = unary("identity", "x itself", {"Identity"}, infer_identity,
                          {.view = View::kSame,
                           .linear = always<Linear::kFirst>,
                           .gradient = gradient::identity,
                           .fold = fold::identity,
                           .interval = interval::identity,
                           .lower = lower_identity});
  table.insert(
      table.end(),
      {unary("neg", "-x", {"Neg"}, infer_numeric<negative>,
             {.linear = always<Linear::kFirst>, .gradient = gradient::neg, .fold = fold::neg}),
       unary("abs", "x without its sign", {"Abs"}, infer_numeric<absolute>,
             {.gradient = gradient::abs, .fold = fold::abs}),
       unary("relu", "the larger of x and 0", {"Relu"}, infer_numeric<rectified>,
             {.gradient = gradient::relu, .fold = fold::relu}),
       unary("sign", "-1, 0 or 1", {"Sign"}, infer_numeric<sign_of>, {.gradient = gradient::steps, .fold = fold::sign}),
       unary("clamp", "x within min and max, one of which may be absent; at the bounds a gradient passes unless strict",
             {"Clip"}, infer_clamp,
             {.gradient = gradient::clamp,
              .fold = fold::clamp,
              .interval = interval::clamp,
              .lower = lower_clamp,
              .aten = {"aten::clamp", "aten::hardtanh"},
              .attributes = {{"min", Kind::kScalar}, {"max", Kind::kScalar}, {"strict", Kind::kFlag, false}}}),
       elementwise("where", "a where the condition holds, b elsewhere", {"Where"}, {{"condition"}, {"a"}, {"b"}},
                   infer_where,
                   {.gradient = gradient::where,
                    .fold = fold::where,
                    .interval = interval::where,
                    .schema = "aten::where.self"}),
       unary("cast", "x as another element type", {"Cast", "CastLike"}, infer_cast,
             {.view = View::kWhereSameType,
              .linear = linear_cast,
              .gradient = gradient::cast,
              .fold = fold::cast,
              .interval = interval::cast,
              .lower = lower_cast,
              .aten = {"aten::to"},
              .attributes = {dtype}}),
       unary("stop_gradient", "x itself, through which no gradient flows", {}, infer_stopped,
             {.view = View::kSame,
              .linear = always<Linear::kFirst>,
              .gradient = gradient::steps,
              .lower = lower_stop_gradient,
              .aten = {"aten::detach"}}),
       std::move(identity)});
}

}  // namespace

std::vector<OpInfo> elementwise_ops() {
  std::vector<OpInfo> table;
  add_arithmetic(table);
  add_truth(table);
  add_numeric(table);
  return table;
}

}  // namespace rannc::ir::ops
