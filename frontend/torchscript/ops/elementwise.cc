/// Translates elementwise operators.
#include <c10/core/MemoryFormat.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "frontend/torchscript/internal/indexed_axes.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;

/// Returns a number as a scalar tensor of the type of `x`.
ValueId number_like(Call& call, double value, ValueId x) { return call.scalar(value, call.dtype(x)); }

/// Returns an operand as floats. ATen converts integers for functions that only support floats.
ValueId as_floats(Call& call, std::string_view name = "self") {
  const ValueId x = call.tensor(name);
  return call.good() && !ir::is_float(call.dtype(x)) ? call.cast(x, DType::kF32) : x;
}

// --- arithmetic

/// Whether an operand of a sum has a factor.
bool has_alpha(const Call& call) {
  const Item& alpha = call.item("alpha");
  return !alpha.is_none() && Call::number_of(alpha) != 1.0;
}

/// Returns other * alpha, or `other` without an alpha.
Item scaled_by_alpha(Call& call, const Item& other) {
  if (!has_alpha(call)) return other;
  const std::array factors = {other, call.item("alpha")};
  const std::vector<ValueId> both = promoted(call, factors);
  return call.good() ? Item(std::make_shared<Tensor>(call.emit("mul", both))) : Item();
}

/// Arithmetic on bools is logic.
void arithmetic(Call& call, std::string_view op, const std::vector<ValueId>& operands) {
  if (!call.good()) return;
  const bool is_logic = call.dtype(operands[0]) == DType::kBool;
  if (is_logic && (op == "add" || op == "maximum")) op = "logical_or";
  if (is_logic && (op == "mul" || op == "minimum")) op = "logical_and";
  call.result(op, operands);
}

template <bool reversed, bool subtracts>
void sum_in_type(Call& call) {
  const Item other = scaled_by_alpha(call, reversed ? call.item("self") : call.item("other"));
  const std::array operands = {reversed ? call.item("other") : call.item("self"), other};
  if (call.good()) arithmetic(call, subtracts ? "sub" : "add", promoted(call, operands));
}

template <bool reversed, bool subtracts>
void sum(Call& call) {
  constexpr auto translate = sum_in_type<reversed, subtracts>;
  has_alpha(call) ? rounded_once(call, translate) : translate(call);
}

/// Promotes both operands to one type, which is that of the result.
void binary(Call& call) { arithmetic(call, call.op(), promoted(call, {"self", "other"})); }

/// Whether an operand of rank 0 may have more digits than a type of 16-bit floats.
bool is_finer(Call& call, const Item& item, DType narrow) {
  std::optional<double> number = Call::number_of(item);
  if (const auto* const tensor = item.get<TensorRef>()) {
    const ir::ValueType& type = call.type((*tensor)->now());
    const bool is_wide = ir::is_float(type.dtype) ? ir::byte_size(type.dtype) >= 4 : type.dtype != DType::kBool;
    if (!is_wide || !type.shape || !type.shape->empty()) return false;
    number = call.number((*tensor)->read(call));
  }
  if (!number) return true;
  const auto given = static_cast<float>(*number);
  const float rounded =
      narrow == DType::kF16 ? static_cast<float>(c10::Half(given)) : static_cast<float>(c10::BFloat16(given));
  return rounded != given && !std::isnan(given);
}

/// Whether a product or quotient of 16-bit floats has an operand that is finer.
bool has_finer(Call& call) {
  const std::array both = {call.item("self"), call.item("other")};
  const auto type = common_type(call, both);
  if (type != DType::kF16 && type != DType::kBF16) return false;
  return std::any_of(both.begin(), both.end(), [&](const Item& each) { return is_finer(call, each, *type); });
}

void mul(Call& call) { has_finer(call) ? rounded_once(call, binary) : binary(call); }

/// Like `binary`, with a different name of the core operator.
template <const char* op>
void binary_as(Call& call) {
  arithmetic(call, op, promoted(call, {"self", "other"}));
}
constexpr char kMod[] = "mod", kMaximum[] = "maximum", kMinimum[] = "minimum";

/// The largest whole number of times that b goes into a, which follows from the exact remainder: the quotient a / b may
/// be rounded up to a whole number. ATen computes in at least single precision, and the gradient is zero.
void floored_quotient(Call& call, const std::vector<ValueId>& both) {
  const DType dtype = call.dtype(both[0]), wide = ir::byte_size(dtype) < 4 ? DType::kF32 : dtype;
  const ValueId a = call.emit("stop_gradient", {call.cast(both[0], wide)});
  const ValueId b = call.emit("stop_gradient", {call.cast(both[1], wide)});
  if (!call.good()) return;
  const ValueId zero = call.scalar(0, wide), one = call.scalar(1, wide);
  const auto add_where = [&](ValueId condition, std::string_view op, ValueId x) {
    return call.emit("where", {condition, call.emit(op, {x, one}), x});
  };
  const ValueId rest = call.emit("fmod", {a, b}), exact = call.emit("div", {a, b});
  const ValueId opposite = call.emit("logical_xor", {call.emit("lt", {rest, zero}), call.emit("lt", {b, zero})});
  const ValueId is_above = call.emit("logical_and", {call.emit("ne", {rest, zero}), opposite});
  const ValueId near = add_where(is_above, "sub", call.emit("div", {call.emit("sub", {a, rest}), b}));
  const ValueId below = call.emit("floor", {near});
  const ValueId is_less = call.emit("gt", {call.emit("sub", {near, below}), call.scalar(0.5, wide)});
  const ValueId whole = add_where(is_less, "add", below);
  const ValueId signed_zero = call.emit("mul", {exact, zero});
  const ValueId finite = call.emit("where", {call.emit("eq", {near, zero}), signed_zero, whole});
  const ValueId result = call.emit("where", {call.emit("eq", {b, zero}), exact, finite});
  call.result("identity", {call.cast(result, dtype)});
}

/// True division of integers gives floats.
void quotient(Call& call, const std::string& rounding) {
  std::vector<ValueId> both = promoted(call, {"self", "other"});
  if (!call.good()) return;
  const bool whole = !ir::is_float(call.dtype(both[0]));
  if (rounding == "none" && whole) {
    for (ValueId& each : both) each = call.cast(each, DType::kF32);
  }
  if (rounding == "none" || whole) return call.result("div", both, {{"rounding", rounding}});
  if (rounding == "floor") return floored_quotient(call, both);
  const ValueId exact = call.emit("div", both);
  const ValueId size = call.emit("floor", {call.emit("abs", {exact})});
  call.result("mul", {size, call.emit("sign", {exact})});
}
void div_in_type(Call& call) { quotient(call, call.has("rounding_mode") ? call.text("rounding_mode") : "none"); }
void div(Call& call) {
  const bool is_rounded = call.has("rounding_mode") && call.text("rounding_mode") != "none";
  is_rounded || !has_finer(call) ? div_in_type(call) : rounded_once(call, div_in_type);
}
void floor_divide(Call& call) { quotient(call, "floor"); }

/// The result has the promoted type of base and exponent.
void pow(Call& call) {
  const Item &base = call.item("self"), &exponent = call.item("exponent");
  const std::array both = {base, exponent};
  const auto type = common_type(call, both);
  if (!type) return call.fail("pow needs a tensor operand");
  // An integer exponent stays an integer, which determines the power exactly.
  const auto number = Call::number_of(exponent);
  const ValueId x = call.cast(call.tensor(base, "self"), *type);
  if (!call.good()) return;
  if (number && ir::is_float(*type) && exponent.get<Dim>()) {
    return call.result("pow", {x, call.scalar(*number, *type)});
  }
  call.result("pow", promoted(call, both));
}

void square(Call& call) {
  const ValueId x = call.tensor("self");
  call.result("mul", {x, x});
}

/// self + value * a * b, or self + value * a / b.
template <bool divides>
void add_product(Call& call) {
  const std::array terms = {call.item("tensor1"), call.item("tensor2")};
  const std::vector<ValueId> both = promoted(call, terms);
  if (!call.good()) return;
  ValueId term = call.emit(divides ? "div" : "mul", both);
  if (const auto value = Call::number_of(call.item("value")); value && *value != 1)
    term = call.emit("mul", {term, number_like(call, *value, term)});
  call.result("add", {call.tensor("self"), term});
}

void lerp(Call& call) {
  const ValueId from = call.tensor("self"), to = call.tensor("end");
  if (!call.good()) return;
  const ValueId weight =
      call.is_tensor("weight") ? call.tensor("weight") : number_like(call, call.number("weight"), from);
  call.result("add", {from, call.emit("mul", {weight, call.emit("sub", {to, from})})});
}

void negative(Call& call) { call.result("neg", {call.tensor("self")}); }

// --- comparisons and truth

void truth_of(Call& call, std::string_view op, std::initializer_list<std::string_view> names) {
  std::vector<ValueId> operands;
  for (const std::string_view name : names) operands.push_back(call.cast(call.tensor(name), DType::kBool));
  call.result(op, operands);
}
void logical_and(Call& call) { truth_of(call, "logical_and", {"self", "other"}); }
void logical_or(Call& call) { truth_of(call, "logical_or", {"self", "other"}); }
void logical_xor(Call& call) { truth_of(call, "logical_xor", {"self", "other"}); }
void logical_not(Call& call) { truth_of(call, "logical_not", {"self"}); }

/// Logical for bools, bitwise for integers.
void bitwise(Call& call, const std::string& name) {
  const std::vector<ValueId> both = promoted(call, {"self", "other"});
  if (call.good()) call.result((call.dtype(both[0]) == DType::kBool ? "logical_" : "bitwise_") + name, both);
}
void bit_and(Call& call) { bitwise(call, "and"); }
void bit_or(Call& call) { bitwise(call, "or"); }
void bit_xor(Call& call) { bitwise(call, "xor"); }
void bit_not(Call& call) {
  const ValueId x = call.tensor("self");
  if (call.good()) call.result(call.dtype(x) == DType::kBool ? "logical_not" : "bitwise_not", {x});
}

void isfinite(Call& call) {
  const ValueId x = as_floats(call);
  const ValueId odd = call.emit("logical_or", {call.emit("isnan", {x}), call.emit("isinf", {x})});
  call.result("logical_not", {odd});
}

// --- choices

void where(Call& call) {
  if (!call.has("self")) return where_true(call);
  const ValueId condition = call.cast(call.tensor("condition"), DType::kBool);
  std::vector<ValueId> operands = promoted(call, {"self", "other"});
  operands.insert(operands.begin(), condition);
  if (call.good()) call.result("where", operands);
}

void masked_fill(Call& call) {
  const ValueId x = call.tensor("self"), mask = call.cast(call.tensor("mask"), DType::kBool);
  if (!call.good()) return;
  const auto number = Call::number_of(call.item("value"));
  const ValueId value = number ? number_like(call, *number, x) : call.cast(call.tensor("value"), call.dtype(x));
  call.result("where", {mask, value, x});
}

/// Clamps by tensors. Where an element equals a bound, the element has the gradient, which the core operators share.
void clamp_by_tensors(Call& call) {
  std::vector<Item> items = {call.item("self")};
  for (const char* const name : {"min", "max"}) {
    if (call.has(name)) items.push_back(call.item(name));
  }
  const std::vector<ValueId> operands = promoted(call, items);
  if (!call.good()) return;
  const auto bounded = [&](ValueId x, ValueId bound, std::string_view within, std::string_view op) {
    const ValueId outside = call.emit(op, {x, bound});
    if (!call.good() || !ir::is_float(call.dtype(x))) return outside;
    return call.emit("where", {call.emit(within, {x, bound}), x, outside});
  };
  ValueId x = operands[0];
  if (call.has("min")) x = bounded(x, operands[1], "ge", "maximum");
  if (call.has("max")) x = bounded(x, operands.back(), "le", "minimum");
  call.result("identity", {x});
}

void clamp(Call& call) {
  if (call.is_tensor("min") || call.is_tensor("max")) return clamp_by_tensors(call);
  ValueId x = call.tensor("self");
  if (!call.good()) return;
  ir::Attributes bounds;
  for (const char* const name : {"min", "max"}) {
    if (!call.has(name)) continue;
    if (call.item(name).get<double>() && !ir::is_float(call.dtype(x))) x = call.cast(x, DType::kF32);
    const double bound = call.number(name);
    bounds.set(name, ir::is_float(call.dtype(x)) ? ir::Attribute(bound) : ir::Attribute(Dim(whole(bound))));
  }
  call.result("clamp", {x}, std::move(bounds));
}

/// The gradient is zero at the bounds, unlike that of clamp.
void strict(Call& call, double low, double high) {
  call.result("clamp", {as_floats(call)}, {{"min", low}, {"max", high}, {"strict", true}});
}
void relu6(Call& call) { strict(call, 0, 6); }
void hardtanh(Call& call) { strict(call, call.number("min_val"), call.number("max_val")); }

void threshold(Call& call) {
  const ValueId x = call.tensor("self");
  if (!call.good()) return;
  const ValueId replaced = call.emit("le", {x, number_like(call, call.number("threshold"), x)});  // not NaN
  call.result("where", {replaced, number_like(call, call.number("value"), x), x});
}

// --- types

void cast_to(Call& call, DType dtype) {
  const ValueId x = call.tensor("self");
  if (!call.good()) return;
  if (call.dtype(x) != dtype) return call.result("cast", {x}, {{"dtype", dtype}});
  if (call.has("copy") && call.flag("copy")) return call.give(x);
  const bool may_move =
      call.has("memory_format") && call.integer("memory_format") != static_cast<int64_t>(at::MemoryFormat::Preserve);
  if (may_move) return call.result_unsure("self", "identity", {});
  call.pass("self");
}

/// Converts to an element type, or to that of another tensor. Devices are ignored. Copies if the type changes, if the
/// call demands it, or if another memory format might need it.
void to(Call& call) {
  if (call.is_tensor("other")) return cast_to(call, call.dtype(call.tensor("other")));
  const ValueId x = call.tensor("self");
  if (call.good()) cast_to(call, call.dtype("dtype", call.dtype(x)));
}
template <DType dtype>
void to_type(Call& call) {
  cast_to(call, dtype);
}
void type_as(Call& call) { cast_to(call, call.dtype(call.tensor("other"))); }

void itself(Call& call) { call.pass("self"); }
void clone(Call& call) { call.give(call.tensor("self")); }
void contiguous(Call& call) { call.result_unsure("self", "identity", {}); }
void alias(Call& call) { call.result_view("self", "identity", {}); }

void detach(Call& call) {
  const ValueId x = call.tensor("self");
  if (!call.good()) return;
  const bool is_number =
      call.notes().stored.literals.contains(std::string(call.name(x)));  // a literal in the code, which is not trained
  if (!ir::is_float(call.dtype(x)) || is_number) return call.pass("self");
  call.result_unsure("self", "stop_gradient", {});  // aliases self, but the tape must not see writes
}

/// Converts and expands the source to type and shape of the destination.
void copy(Call& call) {
  const ValueId into = call.tensor("self"), from = call.tensor("src");
  const ir::Shape* const shape = call.shape(into);
  if (!shape || !call.good()) return;
  const ValueId typed = call.cast(from, call.dtype(into));
  if (!call.good()) return;
  call.result("expand", {typed}, {{"shape", *shape}});
}
void fill(Call& call) {
  const ValueId x = call.tensor("self");
  const ir::Shape* const shape = call.shape(x);
  if (!shape) return;
  const ir::Shape whole = *shape;
  const bool of_a_tensor = call.is_tensor("value") || call.item("value").is_of_data();
  const ValueId value = of_a_tensor ? call.cast(call.tensor("value"), call.dtype(x))
                                    : number_like(call, call.op() == "zero" ? 0 : call.number("value"), x);
  if (call.good()) call.result("expand", {value}, {{"shape", whole}});
}

// --- functions

/// Translates to the core operator of the same name, on floats.
void function(Call& call) { call.result(call.op(), {as_floats(call)}); }

/// Rounds floats. Integers are whole, and stay integers.
void rounded(Call& call) {
  const ValueId x = call.tensor("self");
  if (!call.good()) return;
  if (!ir::is_float(call.dtype(x))) return call.give(x);
  if (call.has("decimals") && call.integer("decimals") != 0) return call.use_dispatcher();
  call.result(call.op(), {x});
}

/// x log(y), which is 0 where x is 0, even if y has no finite logarithm.
void xlogy(Call& call) {
  const std::vector<ValueId> both = promoted(call, {"self", "other"});
  if (!call.good()) return;
  if (!ir::is_float(call.dtype(both[0]))) return call.use_dispatcher();
  const ValueId zero = number_like(call, 0, both[0]);
  const ValueId odd = call.emit("logical_or", {call.emit("le", {both[1], zero}), call.emit("isinf", {both[1]})});
  const ValueId none = call.emit("logical_and", {call.emit("eq", {both[0], zero}), odd});
  const ValueId some = call.emit("where", {none, number_like(call, 1, both[1]), both[1]});
  call.result("mul", {both[0], call.emit("log", {some})});
}

void elu(Call& call) {
  const double scale = call.has("scale") ? call.number("scale") : 1,
               input_scale = call.has("input_scale") ? call.number("input_scale") : 1;
  if (scale != 1 || input_scale != 1) return call.fail("elu with scales other than 1 is not supported");
  call.result("elu", {call.tensor("self")}, {{"alpha", call.has("alpha") ? call.number("alpha") : 1.0}});
}
void selu(Call& call) {
  constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
  const ValueId x = call.tensor("self");
  if (call.good()) call.result("mul", {call.emit("elu", {x}, {{"alpha", kAlpha}}), number_like(call, kScale, x)});
}
void celu(Call& call) {
  const ValueId x = call.tensor("self");
  const double alpha = call.has("alpha") ? call.number("alpha") : 1;
  if (!call.good()) return;
  const ValueId inner = call.emit("elu", {call.emit("div", {x, number_like(call, alpha, x)})});
  call.result("mul", {inner, number_like(call, alpha, x)});
}

/// log(1 + e^(beta x)) / beta, and x where beta x is above a threshold. core.softplus has one of its own, so that this
/// one only counts if log(1 + e^-threshold), the step at the threshold, is more than the type rounds off.
void softplus(Call& call) {
  const ValueId x = call.tensor("self");
  const double beta = call.has("beta") ? call.number("beta") : 1,
               threshold = call.has("threshold") ? call.number("threshold") : 20;
  if (!call.good()) return;
  const double rounding = call.dtype(x) == DType::kF64 ? 0x1p-53 : 0x1p-24;
  const bool has_step = std::log1p(std::exp(-threshold)) > rounding * threshold / 2;
  const ValueId scaled = beta == 1 ? x : call.emit("mul", {x, number_like(call, beta, x)});
  if (beta == 1 && !has_step) return call.result("softplus", {x});
  ValueId y = call.emit("softplus", {scaled});
  if (beta != 1) y = call.emit("div", {y, number_like(call, beta, x)});
  if (!has_step) return call.result("identity", {y});
  call.result("where", {call.emit("gt", {scaled, number_like(call, threshold, x)}), x, y});
}
void mish(Call& call) {
  const ValueId x = call.tensor("self");
  call.result("mul", {x, call.emit("tanh", {call.emit("softplus", {x})})});
}
void log_sigmoid(Call& call) { call.result("neg", {call.emit("softplus", {call.emit("neg", {call.tensor("self")})})}); }

void glu(Call& call) {
  const ValueId x = call.tensor("self");
  const ir::Shape* const shape = call.shape(x);
  if (!shape) return;
  const int64_t axis = call.axis(call.has("dim") ? call.integer("dim") : -1, static_cast<int64_t>(shape->size()));
  if (!call.good()) return;
  const auto half = ir::exact_div((*shape)[static_cast<size_t>(axis)], Dim(2));
  if (!half) return call.fail("glu needs an axis of even size");
  const auto parts = call.emit_all("split", {x}, {{"axis", Dim(axis)}, {"sizes", ir::Shape{*half, *half}}}, 2);
  call.result("mul", {parts[0], call.emit("sigmoid", {parts[1]})});
}

/// max(0, x) + slope * min(0, x), with one slope per channel, which is axis 1.
void prelu(Call& call) {
  const ValueId x = call.tensor("self");
  ValueId slope = call.tensor("weight");
  const int64_t rank = call.rank(x);
  if (!call.good()) return;
  if (rank > 2) {
    ir::Shape axes;
    for (int64_t axis = 1; axis < rank - 1; ++axis) axes.emplace_back(axis);
    slope = call.emit("unsqueeze", {slope}, {{"axes", axes}});
  }
  const ValueId zero = number_like(call, 0, x);
  call.result("where", {call.emit("gt", {x, zero}), x, call.emit("mul", {x, slope})});
}

// --- random numbers

/// In evaluation mode, records the ratio so that a flag can restore training.
void dropout(Call& call) {
  const bool trains = call.flag("train");
  const double drop = call.number("p");
  const ValueId x = call.good() ? call.tensor(call.item(size_t{0}), "input") : ValueId();
  if (!call.good()) return;
  if (!(drop >= 0 && drop < 1) && trains)
    return call.fail(fmt::format("{} with probability {}; expected one in [0, 1)", call.schema(), drop));
  if (!trains) {
    if (drop > 0) call.notes().training.dropouts.emplace(call.name(x), ir::LostDropout{drop, false});
    return call.give(Item(call.item(size_t{0})));
  }
  if (drop == 0) return call.give(Item(call.item(size_t{0})));
  call.result("mul", {x, call.add_random_input(x, {.of = ir::RandomInput::Of::kBernoulli, .drop = drop})});
}

/// Drops whole channels, with one random number per channel.
void feature_dropout(Call& call) {
  const bool trains = call.flag("train");
  const double drop = call.number("p");
  if (!trains || drop == 0) return call.give(Item(call.item(size_t{0})));
  const ValueId x = call.tensor(call.item(size_t{0}), "input");
  const int64_t rank = call.rank(x);
  if (!call.good()) return;
  ir::Shape axes;
  for (int64_t axis = 2; axis < rank; ++axis) axes.emplace_back(axis);
  const ValueId channels = call.emit("sum", {x}, {{"axes", axes}, {"keepdim", true}});
  call.result("mul", {x, call.add_random_input(channels, {.of = ir::RandomInput::Of::kBernoulli, .drop = drop})});
}

template <ir::RandomInput::Of of>
void random_like(Call& call) {
  const ValueId x = call.tensor("self");
  if (call.good()) call.give(call.add_random_input(call.cast(x, call.dtype("dtype", call.dtype(x))), {.of = of}));
}

/// 1 where a uniform number is below the probability: `p`, or the numbers of `self`. Like dropout, it is the same for
/// any plan.
void bernoulli(Call& call) {
  const ValueId x = call.tensor("self");
  if (!call.good()) return;
  const ir::DType dtype = call.dtype(x), wide = ir::is_float(dtype) ? ir::sum_dtype(dtype) : ir::DType::kF32;
  const ValueId numbers = call.cast(x, wide);
  const ValueId share = call.has("p") ? call.cast(call.tensor("p"), wide) : numbers;
  if (!call.good()) return;
  const ValueId uniform = call.add_random_input(numbers, {.of = ir::RandomInput::Of::kUniform});
  call.give(call.cast(call.emit("lt", {uniform, share}), dtype));
}

}  // namespace

std::span<const Translator> elementwise_translators() {
  static constexpr Translator kTable[] = {
      {"add.Tensor", sum<false, false>},
      {"add.Scalar", sum<false, false>},
      {"sub.Tensor", sum<false, true>},
      {"sub.Scalar", sum<false, true>},
      {"rsub", sum<true, true>},
      {"mul.Tensor", mul},
      {"mul.Scalar", mul},
      {"div.Tensor", div},
      {"div.Scalar", div},
      {"div.Tensor_mode", div},
      {"div.Scalar_mode", div},
      {"true_divide", div},
      {"floor_divide", floor_divide},
      {"remainder.Tensor", binary_as<kMod>},
      {"remainder.Scalar", binary_as<kMod>},
      {"fmod", binary},
      {"pow.Tensor_Tensor", pow},
      {"pow.Tensor_Scalar", pow},
      {"pow.Scalar", pow},
      {"square", square},
      {"neg", negative},
      {"addcmul", rounded_once<add_product<false>>},
      {"addcdiv", rounded_once<add_product<true>>},
      {"lerp", rounded_once<lerp>},
      {"maximum", binary},
      {"minimum", binary},
      {"max.other", binary_as<kMaximum>},
      {"min.other", binary_as<kMinimum>},
      {"eq.Tensor", binary},
      {"eq.Scalar", binary},
      {"ne.Tensor", binary},
      {"ne.Scalar", binary},
      {"lt.Tensor", binary},
      {"lt.Scalar", binary},
      {"le.Tensor", binary},
      {"le.Scalar", binary},
      {"gt.Tensor", binary},
      {"gt.Scalar", binary},
      {"ge.Tensor", binary},
      {"ge.Scalar", binary},
      {"logical_and", logical_and},
      {"logical_or", logical_or},
      {"logical_xor", logical_xor},
      {"logical_not", logical_not},
      {"bitwise_and", bit_and},
      {"bitwise_or", bit_or},
      {"bitwise_xor", bit_xor},
      {"bitwise_not", bit_not},
      {"__and__", bit_and},
      {"__or__", bit_or},
      {"__xor__", bit_xor},
      {"isfinite", isfinite},
      {"where", where},
      {"masked_fill", masked_fill},
      {"clamp", clamp},
      {"clamp_min", clamp},
      {"clamp_max", clamp},
      {"clip", clamp},
      {"relu6", relu6},
      {"hardtanh", hardtanh},
      {"threshold", threshold},
      {"to", to},
      {"type_as", type_as},
      {"_cast_Float", to_type<DType::kF32>},
      {"_cast_Long", to_type<DType::kI64>},
      {"contiguous", contiguous},
      {"clone", clone},
      {"alias", alias},
      {"lift_fresh", clone},
      {"lift_fresh_copy", clone},
      {"requires_grad", itself},
      {"cpu", itself},
      {"cuda", itself},
      {"detach", detach},
      {"copy", copy},
      {"fill", fill},
      {"zero", fill},
      {"floor", rounded},
      {"ceil", rounded},
      {"round", rounded},
      {"xlogy", xlogy},
      {"elu", elu},
      {"selu", rounded_once<selu>},
      {"celu", rounded_once<celu>},
      {"softplus", rounded_once<softplus>},
      {"mish", rounded_once<mish>},
      {"log_sigmoid", log_sigmoid},
      {"glu", rounded_once<glu>},
      {"prelu", prelu},
      {"dropout", dropout},
      {"feature_dropout", feature_dropout},
      {"rand_like", random_like<ir::RandomInput::Of::kUniform>},
      {"randn_like", random_like<ir::RandomInput::Of::kNormal>},
      {"bernoulli", bernoulli},
      {"isnan", function},
      {"isinf", function},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
