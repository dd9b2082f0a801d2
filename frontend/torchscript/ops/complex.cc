/// Translates operators on complex numbers to operators on their real and imaginary parts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numbers>

#include "frontend/recipes/roots.h"
#include "frontend/torchscript/internal/translators.h"

namespace rannc::frontend::torchscript {

/// Apart from translators of the same operators on real numbers, which a unity build compiles in one unit.
namespace complex_numbers {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

/// PyTorch's numbers of the complex element types, by that of their parts.
constexpr std::array<std::pair<DType, int64_t>, 3> kTypes = {{{DType::kF16, 8}, {DType::kF32, 9}, {DType::kF64, 10}}};

/// The element type of the parts if argument `dtype` is complex.
std::optional<DType> requested(Call& call) {
  const auto* const number = call.item("dtype").get<Dim>();
  for (const auto& [part, complex] : kTypes) {
    if (number && *number == Dim(complex)) return part;
  }
  return std::nullopt;
}

/// The current value of the parts. An error for anything but a complex tensor.
ValueId parts_of(Call& call, const Item& item) {
  if (const auto* const complex = item.get<Complex>()) return complex->parts->read(call);
  call.fail(fmt::format("{}: {}; expected a complex tensor", call.schema(), describe(item)));
  return {};
}

/// The rank of a complex tensor.
int64_t rank_of(Call& call, ValueId parts) { return call.rank(parts) - 1; }

void give(Call& call, ValueId parts) {
  if (call.good()) call.give(Item(Complex{std::make_shared<Tensor>(parts)}));
}

/// One part of […, 2], as […, 1].
ValueId column(Call& call, ValueId parts, int64_t which) {
  const int64_t axis = rank_of(call, parts);
  if (!call.good()) return {};
  return call.emit("slice", {parts}, {{"axes", Shape{axis}}, {"starts", Shape{which}}, {"ends", Shape{which + 1}}});
}
ValueId real_of(Call& call, ValueId parts) { return column(call, parts, 0); }
ValueId imaginary_of(Call& call, ValueId parts) { return column(call, parts, 1); }

/// […] from […, 1], or the reverse.
ValueId without_column(Call& call, ValueId x) {
  const int64_t axis = call.rank(x) - 1;
  return call.good() ? call.emit("squeeze", {x}, {{"axes", Shape{axis}}}) : x;
}
ValueId with_column(Call& call, ValueId x) {
  const int64_t axis = call.rank(x);
  return call.good() ? call.emit("unsqueeze", {x}, {{"axes", Shape{axis}}}) : x;
}

/// […, 2] from two of […, 1].
ValueId joined(Call& call, ValueId real, ValueId imaginary) {
  const int64_t axis = call.rank(real) - 1;
  return call.good() ? call.emit("concat", {real, imaginary}, {{"axis", Dim(axis)}}) : real;
}

/// The element type of the parts in which ATen computes with several operands.
DType common_part(Call& call, std::span<const Item> items) {
  std::optional<DType> of_axes, of_none;
  for (const Item& item : items) {
    const TensorRef* const tensor = tensor_of(item);
    if (tensor == nullptr) continue;
    const ir::ValueType& type = call.type((*tensor)->now());
    if (!ir::is_float(type.dtype) || !type.shape) continue;
    auto& of = type.shape->size() == (item.get<Complex>() ? 1 : 0) ? of_none : of_axes;
    if (!of || ir::byte_size(*of) < ir::byte_size(type.dtype)) of = type.dtype;
  }
  return of_axes.value_or(of_none.value_or(DType::kF32));
}

/// An operand as […, 2] if it is complex, or else as […, 1] or a scalar.
ValueId operand(Call& call, const Item& item, DType dtype) {
  if (item.get<Complex>()) return call.cast(parts_of(call, item), dtype);
  if (const auto number = Call::number_of(item)) return call.scalar(*number, dtype);
  return with_column(call, call.cast(call.tensor(item, "other"), dtype));
}

/// An operand as […, 2].
ValueId complete(Call& call, const Item& item, DType dtype) {
  ValueId made = operand(call, item, dtype);
  if (item.get<Complex>() || !call.good()) return made;
  if (call.rank(made) == 0) made = with_column(call, made);
  const int64_t axis = call.rank(made) - 1;
  Shape pads(static_cast<size_t>(2 * (axis + 1)), Dim(0));
  pads.back() = 1;
  return call.emit("pad", {made}, {{"pads", pads}});
}

// --- parts

/// `x`, with the gradient of its absolute value, which LibTorch gives the sizes of `polar`.
ValueId signed_slope(Call& call, ValueId x) {
  const ValueId size = call.emit("abs", {x}), rest = call.emit("stop_gradient", {call.emit("sub", {x, size})});
  const ValueId is_positive = call.emit("gt", {x, call.scalar(0, call.dtype(x))});  // infinity has no rest
  return call.emit("where", {is_positive, x, call.emit("add", {size, rest})});
}

void polar(Call& call) {
  const std::vector<ValueId> both = promoted(call, {"abs", "angle"});
  if (!call.good()) return;
  const ValueId size = with_column(call, signed_slope(call, both[0])), angle = with_column(call, both[1]);
  give(call, call.emit("mul", {size, joined(call, call.emit("cos", {angle}), call.emit("sin", {angle}))}));
}

void complex_of(Call& call) {
  std::vector<ValueId> both = promoted(call, {"real", "imag"});
  if (!call.good()) return;
  const Shape *const a = call.shape(both[0]), *const b = call.shape(both[1]);
  if (!a || !b) return;
  if (*a != *b) {
    const Item broadcast = list_of({call.item("real"), call.item("imag")});
    Call wide = call.another("aten::broadcast_tensors", {{"tensors", broadcast}});
    if (!translate(wide) || wide.failure()) return call.fail(*wide.failure());
    for (size_t i = 0; i < 2; ++i)
      both[i] = call.cast(call.tensor(wide.results()[0].sequence()->elements[i], "real"), call.dtype(both[i]));
  }
  give(call, joined(call, with_column(call, both[0]), with_column(call, both[1])));
}

void view_as_complex(Call& call) {
  const auto* const parts = call.item("self").get<TensorRef>();
  const Shape* const shape = call.shape(call.tensor("self"));
  if (!parts || !shape) return call.fail(fmt::format("{}: expected a real tensor", call.schema()));
  if (shape->empty() || !(shape->back() == Dim(2)))
    return call.fail(fmt::format("{} of {}; expected a last axis of 2", call.schema(), ir::str(*shape)));
  call.give(Item(Complex{*parts}));
}

void view_as_real(Call& call) { call.give(Item(call.item("self").get<Complex>()->parts)); }

/// Converts a real tensor if the element type is complex.
void to_complex(Call& call) {
  if (const auto dtype = requested(call)) return give(call, complete(call, call.item("self"), *dtype));
  call.become("aten::to");
  translate(call);
}

/// A view of one part.
template <int64_t which>
void part(Call& call) {
  const Item parts(call.item("self").get<Complex>()->parts);
  const int64_t axis = rank_of(call, parts_of(call, call.item("self")));
  const Item one =
      call.view(parts, "slice", {{"axes", Shape{axis}}, {"starts", Shape{which}}, {"ends", Shape{which + 1}}});
  if (call.good()) call.give(call.view(one, "squeeze", {{"axes", Shape{axis}}}));
}

/// The square of the absolute value, as […, 1].
ValueId squared(Call& call, ValueId parts) {
  const int64_t axis = rank_of(call, parts);
  return call.emit("sum", {call.emit("mul", {parts, parts})}, {{"axes", Shape{axis}}, {"keepdim", true}});
}

/// Complex numbers divided by a factor as […, 1], so that the larger part has size 1: squares of other numbers may
/// overflow or vanish. The factor of 0 and of infinity is 1.
struct Scaled {
  ValueId parts, factor;
};
Scaled scaled(Call& call, ValueId parts) {
  const int64_t axis = rank_of(call, parts);
  if (!call.good()) return {};
  const ValueId sizes = call.emit("stop_gradient", {call.emit("abs", {parts})});
  const ValueId larger = call.emit("amax", {sizes}, {{"axes", Shape{axis}}, {"keepdim", true}});
  const ValueId is_zero = call.emit("eq", {larger, call.scalar(0, call.dtype(parts))});
  const ValueId is_odd = call.emit("logical_or", {is_zero, call.emit("isinf", {larger})});
  const ValueId factor = call.emit("where", {is_odd, call.scalar(1, call.dtype(parts)), larger});
  return {call.emit("div", {parts, factor}), factor};
}

/// The absolute value of scaled parts as […, 1], whose gradient at 0 is 0.
ValueId absolute(Call& call, ValueId parts) { return root_without_pole(call, squared(call, parts)); }

void abs(Call& call) {
  const Scaled z = scaled(call, parts_of(call, call.item("self")));
  const ValueId made = call.emit("mul", {absolute(call, z.parts), z.factor});
  if (call.good()) call.result("squeeze", {made}, {{"axes", Shape{call.rank(made) - 1}}});
}

/// Twice the angle in the right half plane, mirrored for the left one. The angle of 0 is 0.
void angle(Call& call) {
  const ValueId parts = scaled(call, parts_of(call, call.item("self"))).parts;
  const ValueId re = real_of(call, parts), im = imaginary_of(call, parts), size = absolute(call, parts);
  if (!call.good()) return;
  const auto number = [&](double value) { return call.scalar(value, call.dtype(parts)); };
  const ValueId zero = number(0), is_left = call.emit("lt", {re, zero}), is_zero = call.emit("eq", {size, zero});
  const ValueId below = call.emit("add", {size, call.emit("abs", {re})});
  const ValueId ratio = call.emit("div", {im, call.emit("where", {is_zero, number(1), below})});
  const ValueId half = call.emit("atan", {ratio}), turned = call.emit("add", {half, half});
  const ValueId is_below = call.emit("lt", {call.emit("div", {number(1), im}), zero});  // -0 too
  const ValueId far = call.emit("where", {is_below, number(-std::numbers::pi), number(std::numbers::pi)});
  const ValueId made = call.emit("where", {is_left, call.emit("sub", {far, turned}), turned});
  if (call.good()) call.result("squeeze", {made}, {{"axes", Shape{call.rank(made) - 1}}});
}

// --- arithmetic

ValueId conjugate(Call& call, ValueId parts) {
  return joined(call, real_of(call, parts), call.emit("neg", {imaginary_of(call, parts)}));
}
void conj(Call& call) { give(call, conjugate(call, parts_of(call, call.item("self")))); }

ValueId product(Call& call, ValueId a, ValueId b) {
  const ValueId ar = real_of(call, a), ai = imaginary_of(call, a), br = real_of(call, b), bi = imaginary_of(call, b);
  const auto times = [&](ValueId x, ValueId y) { return call.emit("mul", {x, y}); };
  return joined(call, call.emit("sub", {times(ar, br), times(ai, bi)}),
                call.emit("add", {times(ar, bi), times(ai, br)}));
}

void mul(Call& call) {
  const Item &a = call.item("self"), &b = call.item("other");
  const DType dtype = common_part(call, std::array{a, b});
  const ValueId x = operand(call, a, dtype), y = operand(call, b, dtype);
  const bool both = a.get<Complex>() && b.get<Complex>();
  give(call, both ? product(call, x, y) : call.emit("mul", {x, y}));
}

void div(Call& call) {
  const Item &a = call.item("self"), &b = call.item("other");
  if (call.has("rounding_mode")) return call.fail("a rounded quotient of complex numbers");
  const DType dtype = common_part(call, std::array{a, b});
  if (!b.get<Complex>()) return give(call, call.emit("div", {operand(call, a, dtype), operand(call, b, dtype)}));
  const Scaled y = scaled(call, operand(call, b, dtype));
  const ValueId x = call.emit("div", {operand(call, a, dtype), y.factor}), turned = conjugate(call, y.parts);
  const ValueId above = a.get<Complex>() ? product(call, x, turned) : call.emit("mul", {x, turned});
  give(call, call.emit("div", {above, squared(call, y.parts)}));
}

void reciprocal(Call& call) {
  const Scaled x = scaled(call, parts_of(call, call.item("self")));
  const ValueId of_scaled = call.emit("div", {conjugate(call, x.parts), squared(call, x.parts)});
  give(call, call.emit("div", {of_scaled, x.factor}));
}

template <bool reversed, const char* op>
void sum(Call& call) {
  const Item& a = call.item(reversed ? "other" : "self");
  const Item& b = call.item(reversed ? "self" : "other");
  const DType dtype = common_part(call, std::array{a, b});
  const ValueId x = complete(call, a, dtype);
  ValueId y = complete(call, b, dtype);
  if (const auto alpha = Call::number_of(call.item("alpha")); alpha && *alpha != 1)
    y = call.emit("mul", {y, call.scalar(*alpha, dtype)});
  give(call, call.emit(op, {x, y}));
}
constexpr char kAdd[] = "add", kSub[] = "sub";

void neg(Call& call) { give(call, call.emit("neg", {parts_of(call, call.item("self"))})); }

void exp(Call& call) {
  const ValueId parts = parts_of(call, call.item("self")), angle = imaginary_of(call, parts);
  const ValueId turned = joined(call, call.emit("cos", {angle}), call.emit("sin", {angle}));
  give(call, call.emit("mul", {call.emit("exp", {real_of(call, parts)}), turned}));
}

template <const char* op>
void reduce(Call& call) {
  const ValueId parts = parts_of(call, call.item("self"));
  const int64_t rank = rank_of(call, parts);
  Shape axes;
  if (call.has("dim")) axes = call.sizes("dim");
  for (Dim& each : axes) each = call.axis(each.is_constant() ? each.constant() : rank, rank);
  for (int64_t i = 0; axes.empty() && i < rank; ++i) axes.emplace_back(i);
  if (call.has("dtype") && !requested(call)) return call.fail("a real sum of complex numbers");
  const ValueId typed = call.cast(parts, requested(call).value_or(call.dtype(parts)));
  if (axes.empty()) return give(call, typed);
  give(call, call.emit(op, {typed}, {{"axes", axes}, {"keepdim", call.has("keepdim") && call.flag("keepdim")}}));
}
constexpr char kSum[] = "sum", kMean[] = "mean";

void where(Call& call) {
  const Item &a = call.item("self"), &b = call.item("other");
  const DType dtype = common_part(call, std::array{a, b});
  const ValueId condition = with_column(call, call.cast(call.tensor("condition"), DType::kBool));
  give(call, call.emit("where", {condition, complete(call, a, dtype), complete(call, b, dtype)}));
}

/// A product that is linear in both operands, by those of the parts.
void matmul(Call& call) {
  const Item &a = call.item(size_t{0}), &b = call.item(1);
  const DType dtype = common_part(call, std::array{a, b});
  const auto parts = [&](const Item& item) -> std::pair<ValueId, ValueId> {
    if (!item.get<Complex>()) return {call.cast(call.tensor(item, "other"), dtype), {}};
    const ValueId both = operand(call, item, dtype);
    return {without_column(call, real_of(call, both)), without_column(call, imaginary_of(call, both))};
  };
  const auto times = [&](ValueId x, ValueId y) { return call.emit("matmul", {x, y}); };
  const auto [ar, ai] = parts(a);
  const auto [br, bi] = parts(b);
  if (!call.good()) return;
  ValueId real = times(ar, br), imaginary = bi.valid() ? times(ar, bi) : times(ai, br);
  if (ai.valid() && bi.valid()) {
    real = call.emit("sub", {real, times(ai, bi)});
    imaginary = call.emit("add", {imaginary, times(ai, br)});
  }
  give(call, joined(call, with_column(call, real), with_column(call, imaginary)));
}

// --- operators that move elements

/// Axes count from the front of the complex tensor, so that those from the end skip the axis of the parts.
Item skipping(const Item& axes) {
  if (const auto* const axis = axes.get<Dim>())
    return axis->is_constant() && axis->constant() < 0 ? Item(*axis - Dim(1)) : axes;
  const Sequence* const list = axes.sequence();
  if (list == nullptr) return axes;
  std::vector<Item> made;
  for (const Item& each : list->elements) made.push_back(skipping(each));
  return list_of(std::move(made));
}

Item parts_in(const Item& item) {
  if (const auto* const complex = item.get<Complex>()) return complex->parts;
  const Sequence* const list = item.sequence();
  if (list == nullptr) return item;
  std::vector<Item> made;
  for (const Item& each : list->elements) made.push_back(parts_in(each));
  return list_of(std::move(made));
}

Item complex_in(const Item& item) {
  if (const auto* const parts = item.get<TensorRef>()) return Complex{*parts};
  const Sequence* const list = item.sequence();
  if (list == nullptr) return item;
  std::vector<Item> made;
  for (const Item& each : list->elements) made.push_back(complex_in(each));
  return list_of(std::move(made));
}

/// Translates a call that moves elements as that on the parts. `sizes` names its argument with one number per axis, and
/// `last` is that of the axis of the parts; negative: the axis itself.
void moved(Call& call, std::string_view sizes, int64_t last) {
  static constexpr std::array kAxes = {"dim",       "dim0",    "dim1",   "axis0",       "axis1",
                                       "start_dim", "end_dim", "source", "destination", "dims"};
  const Item& first = call.item(size_t{0});
  const Sequence* const list = first.sequence();
  for (const Item& each : list ? list->elements : std::vector<Item>{first}) parts_of(call, each);
  std::vector<Call::Argument> arguments = call.arguments();
  for (Call::Argument& each : arguments) {
    const bool is_axes = std::find(kAxes.begin(), kAxes.end(), each.name) != kAxes.end();
    each.item = is_axes ? skipping(each.item) : parts_in(each.item);
    if (each.name != sizes || each.item.is_none()) continue;
    std::vector<Item> all = each.item.sequence() ? each.item.sequence()->elements : std::vector<Item>{each.item};
    all.emplace_back(Dim(last < 0 ? static_cast<int64_t>(all.size()) : last));
    each.item = list_of(std::move(all));
  }
  if (!call.good()) return;
  call.become(std::move(arguments));
  translate(call);
  for (Item& each : call.results()) each = complex_in(each);
}
void same(Call& call) { moved(call, {}, 0); }
template <const char* sizes, int64_t last>
void moved_by(Call& call) {
  moved(call, sizes, last);
}
constexpr char kSize[] = "size", kShape[] = "shape", kDims[] = "dims", kRepeats[] = "repeats";

void reshape_as(Call& call) {
  parts_of(call, call.item("other"));
  moved(call, {}, 0);
}

/// Swaps the last two axes.
void turned(Call& call) {
  const int64_t rank = rank_of(call, parts_of(call, call.item("self")));
  if (!call.good()) return;
  if (rank < 2) return call.pass("self");
  call.become("aten::transpose.int");
  call.become({{"self", call.item("self")}, {"dim0", Item(Dim(rank - 2))}, {"dim1", Item(Dim(rank - 1))}});
  moved(call, {}, 0);
}

/// Writes a complex or real source.
void copy(Call& call) {
  const ValueId into = parts_of(call, call.item("self"));
  const Shape* const shape = call.shape(into);
  if (!shape) return;
  const Shape whole = *shape;
  give(call, call.emit("expand", {complete(call, call.item("src"), call.dtype(into))}, {{"shape", whole}}));
}

// --- types

void to(Call& call) {
  const Item& self = call.item("self");
  if (call.is_tensor("other")) return call.fail(fmt::format("{} converts complex numbers to real ones", call.schema()));
  if (!call.has("dtype") && !call.has("other")) return call.pass("self");
  const auto* const other = call.item("other").get<Complex>();
  const auto dtype = other ? std::optional(call.dtype(other->parts->now())) : requested(call);
  if (!dtype) return call.fail(fmt::format("{} converts complex numbers to real ones", call.schema()));
  const ValueId parts = parts_of(call, self);
  if (!call.good() || call.dtype(parts) == *dtype) return call.pass("self");
  give(call, call.cast(parts, *dtype));
}

void itself(Call& call) { call.pass("self"); }

// --- properties

void dim(Call& call) { call.give(Dim(rank_of(call, parts_of(call, call.item(size_t{0}))))); }

void size(Call& call) {
  const bool is_one = call.has("dim");
  moved(call, {}, 0);
  if (is_one || !call.good()) return;
  std::vector<Item> sizes = call.results()[0].sequence()->elements;
  sizes.pop_back();
  call.results()[0] = list_of(std::move(sizes));
}

void numel(Call& call) {
  const Shape* const shape = call.shape(parts_of(call, call.item(size_t{0})));
  if (shape) call.give(ir::element_count(Shape(shape->begin(), shape->end() - 1)));
}

void dtype_of(Call& call) {
  const DType part = call.dtype(parts_of(call, call.item(size_t{0})));
  for (const auto& [own, complex] : kTypes) {
    if (own == part && call.good()) return call.give(Dim(complex));
  }
  call.fail(fmt::format("{} of complex numbers of {}", call.schema(), ir::str(part)));
}

template <bool truth>
void always(Call& call) {
  call.give(truth);
}

std::span<const Translator> on_complex() {
  static constexpr Translator kTable[] = {
      {"view_as_real", view_as_real},
      {"real", part<0>},
      {"imag", part<1>},
      {"abs", abs},
      {"angle", angle},
      {"conj", conj},
      {"_conj", conj},
      {"conj_physical", conj},
      {"_conj_physical", conj},
      {"resolve_conj", itself},
      {"resolve_neg", itself},
      {"add.Tensor", sum<false, kAdd>},
      {"add.Scalar", sum<false, kAdd>},
      {"sub.Tensor", sum<false, kSub>},
      {"sub.Scalar", sum<false, kSub>},
      {"rsub", sum<true, kSub>},
      {"mul.Tensor", mul},
      {"mul.Scalar", mul},
      {"div", div},
      {"true_divide", div},
      {"reciprocal", reciprocal},
      {"neg", neg},
      {"exp", exp},
      {"sum", reduce<kSum>},
      {"mean", reduce<kMean>},
      {"where", where},
      {"matmul", matmul},
      {"mm", matmul},
      {"bmm", matmul},
      {"view", moved_by<kSize, 2>},
      {"_unsafe_view", moved_by<kSize, 2>},
      {"reshape", moved_by<kShape, 2>},
      {"view_as", reshape_as},
      {"reshape_as", reshape_as},
      {"expand", moved_by<kSize, 2>},
      {"broadcast_to", moved_by<kSize, 2>},
      {"expand_as", reshape_as},
      {"repeat", moved_by<kRepeats, 1>},
      {"tile", moved_by<kDims, 1>},
      {"permute", moved_by<kDims, -1>},
      {"transpose", same},
      {"swapaxes", same},
      {"swapdims", same},
      {"t", turned},
      {"mT", turned},
      {"movedim", same},
      {"moveaxis", same},
      {"flatten", same},
      {"unflatten", same},
      {"unsqueeze", same},
      {"squeeze", same},
      {"slice.Tensor", same},
      {"narrow", same},
      {"select", same},
      {"unbind", same},
      {"split", same},
      {"split_with_sizes", same},
      {"chunk", same},
      {"cat", same},
      {"concat", same},
      {"concatenate", same},
      {"stack", same},
      {"flip", same},
      {"roll", same},
      {"repeat_interleave", same},
      {"index", same},
      {"index_select", same},
      {"embedding", same},
      {"clone", same},
      {"contiguous", same},
      {"alias", same},
      {"detach", same},
      {"zero", same},
      {"lift_fresh_copy", same},
      {"copy", copy},
      {"to", to},
      {"type_as", to},
      {"size", size},
      {"sym_size", size},
      {"len", same},
      {"dim", dim},
      {"numel", numel},
      {"sym_numel", numel},
      {"prim::dtype", dtype_of},
      {"is_complex", always<true>},
      {"is_floating_point", always<false>},
  };
  return kTable;
}

std::span<const Translator> from_real() {
  static constexpr Translator kTable[] = {
      {"polar", polar},
      {"complex", complex_of},
      {"view_as_complex", view_as_complex},
      {"to.dtype", to_complex},
      {"to.device", to_complex},
      {"to.dtype_layout", to_complex},
      {"to.prim_Device", to_complex},
      {"to.prim_dtype", to_complex},
      {"is_complex", always<false>},
      {"real", itself},
      {"conj", itself},
      {"conj_physical", itself},
      {"resolve_conj", itself},
      {"resolve_neg", itself},
  };
  return kTable;
}

}  // namespace

}  // namespace complex_numbers

std::span<const Translator> complex_translators() { return complex_numbers::on_complex(); }
std::span<const Translator> to_complex_translators() { return complex_numbers::from_real(); }

}  // namespace rannc::frontend::torchscript
