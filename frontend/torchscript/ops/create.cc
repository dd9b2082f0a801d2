/// Translates operators that create tensors.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/torchscript/internal/translators.h"
#include "ir/dim/dim_bounds.h"
#include "ir/graph/constant.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;
using ir::Shape;

ir::Attribute as(double value, DType dtype) {
  if (dtype == DType::kBool) return value != 0;
  return ir::is_float(dtype) ? ir::Attribute(value) : ir::Attribute(Dim(whole(value)));
}

void fill(Call& call, Shape shape, DType dtype, double value) {
  if (call.good())
    call.result("full", {}, {{"shape", std::move(shape)}, {"value", as(value, dtype)}, {"dtype", dtype}});
}

/// Properties of an operator such as `zeros`, `new_ones` and `full_like`: fill value, source of shape and type.
struct Maker {
  bool like, new_of, full;
  double value;
};

template <Maker maker>
void made(Call& call) {
  DType dtype = DType::kF32;
  Shape shape;
  if (maker.like || maker.new_of) {
    const ValueId other = call.tensor("self");
    const Shape* const from = call.shape(other);
    if (!from) return;
    dtype = call.dtype(other);
    shape = *from;
  }
  if (!maker.like) shape = call.sizes("size");
  if (!maker.full) return fill(call, std::move(shape), call.dtype("dtype", dtype), maker.value);
  const Item& given = call.item("fill_value");
  if (!maker.like && !maker.new_of)
    dtype = given.get<Dim>() ? DType::kI64 : given.get<bool>() ? DType::kBool : DType::kF32;
  dtype = call.dtype("dtype", dtype);
  if (const auto* size = given.get<Dim>(); size && !size->is_constant() && call.good())
    return call.result("full", {}, {{"shape", shape}, {"value", *size}, {"dtype", dtype}});
  if (given.get<TensorRef>() && !call.TaskWriter::number(call.tensor("fill_value"))) {
    const ValueId value = call.cast(call.tensor("fill_value"), dtype);
    return call.result("expand", {value}, {{"shape", shape}});
  }
  fill(call, std::move(shape), dtype, call.number("fill_value"));
}

void scalar_tensor(Call& call) {
  const Item& given = call.item(size_t{0});
  const DType natural = given.get<Dim>() ? DType::kI64 : given.get<bool>() ? DType::kBool : DType::kF32;
  const DType dtype = call.dtype("dtype", natural);
  if (!call.good()) return;
  if (given.get<TensorRef>()) return call.give(call.cast(call.tensor(given, "s"), dtype));
  if (const auto* size = given.get<Dim>())
    return call.result("full", {}, {{"shape", Shape{}}, {"value", *size}, {"dtype", dtype}});
  const auto number = Call::number_of(given);
  if (!number) return call.fail(fmt::format("{} of {}", call.schema(), describe(given)));
  fill(call, {}, dtype, *number);
}

/// Creates a tensor from nested lists of numbers.
void tensor(Call& call) {
  const Item& data = call.item("data");
  if (!data.sequence()) return scalar_tensor(call);
  std::vector<int64_t> shape;
  std::vector<const Item*> level = {&data};
  while (!level.empty() && level[0]->sequence()) {
    shape.push_back(static_cast<int64_t>(level[0]->sequence()->elements.size()));
    std::vector<const Item*> next;
    for (const Item* each : level) {
      const Sequence* const list = each->sequence();
      if (!list || static_cast<int64_t>(list->elements.size()) != shape.back())
        return call.fail("a tensor of nested lists needs lists of equal length");
      for (const Item& element : list->elements) next.push_back(&element);
    }
    level = std::move(next);
  }
  std::vector<ValueId> parts;
  bool is_float = false, is_bool = !level.empty();
  for (const Item* each : level) {
    is_float = is_float || each->get<double>();
    is_bool = is_bool && each->get<bool>();
  }
  const DType dtype = call.dtype("dtype", is_float ? DType::kF32 : is_bool ? DType::kBool : DType::kI64);
  for (const Item* each : level) {
    const ValueId number = call.cast(call.tensor(*each, "data"), dtype);
    parts.push_back(call.emit("unsqueeze", {number}, {{"axes", Shape{0}}}));
  }
  if (parts.empty()) return fill(call, list(shape), dtype, 0);
  const ValueId flat = call.emit("concat", parts, {{"axis", Dim(0)}});
  call.result("reshape", {flat}, {{"shape", list(shape)}});
}

void arange(Call& call) {
  const auto part = [&](std::string_view name, int64_t otherwise) -> Item {
    return call.has(name) ? call.item(name) : Item(Dim(otherwise));
  };
  const Item start = part("start", 0), end = part("end", 0), step = part("step", 1);
  const bool is_float = start.get<double>() || end.get<double>() || step.get<double>();
  const DType dtype = call.dtype("dtype", is_float ? DType::kF32 : DType::kI64);
  ir::Attributes attributes = {{"dtype", dtype}};
  const auto set = [&](std::string_view name, const Item& item) {
    if (const auto size = is_float ? std::nullopt : call.size_of(item)) return attributes.set(name, *size);
    const auto number = Call::number_of(item);
    if (!number)
      return call.fail(fmt::format("{}: {} is {}; expected a number that follows from sizes and constants",
                                   call.schema(), name, describe(item)));
    attributes.set(name, *number);
  };
  set("start", start);
  set("limit", end);
  set("delta", step);
  if (call.good()) call.result("range", {}, std::move(attributes));
}

/// start + i * (end - start) / (steps - 1), computed from the nearer end.
void linspace(Call& call) {
  const int64_t steps = call.integer("steps");
  const double start = call.number("start"), end = call.number("end");
  const DType dtype = call.dtype("dtype", DType::kF32);
  if (!call.good() || steps < 1) return call.fail("linspace needs at least one step");
  std::vector<ValueId> parts;
  constexpr int64_t kMost = 1 << 16;
  if (steps > kMost) return call.fail(fmt::format("linspace supports at most {} steps", kMost));
  for (int64_t i = 0; i < steps; ++i) {
    const double share = steps == 1 ? 0 : (end - start) / static_cast<double>(steps - 1);
    const double value =
        2 * i < steps ? start + share * static_cast<double>(i) : end - share * static_cast<double>(steps - 1 - i);
    parts.push_back(call.emit("full", {}, {{"shape", Shape{1}}, {"value", value}, {"dtype", dtype}}));
  }
  call.result("concat", parts, {{"axis", Dim(0)}});
}

void eye(Call& call) {
  const Dim rows = call.size("n"), columns = call.has("m") ? call.size("m") : rows;
  const DType dtype = call.dtype("dtype", DType::kF32);
  const auto places = [&](const Dim& count) {
    return call.emit("range", {}, {{"start", Dim(0)}, {"limit", count}, {"delta", Dim(1)}, {"dtype", DType::kI64}});
  };
  const ValueId column = call.emit("unsqueeze", {places(rows)}, {{"axes", Shape{1}}});
  const ValueId diagonal = call.emit("eq", {column, places(columns)});
  if (call.good()) call.result("cast", {diagonal}, {{"dtype", dtype}});
}

template <ir::RandomInput::Of of>
void random(Call& call) {
  const DType dtype = call.dtype("dtype", DType::kF32);
  const Shape shape = call.sizes("size");
  if (!call.good()) return;
  const ValueId like = call.emit("full", {}, {{"shape", shape}, {"value", 0.0}, {"dtype", dtype}});
  if (call.good()) call.give(call.add_random_input(like, {.of = of}));
}

constexpr Maker kZeros{false, false, false, 0}, kOnes{false, false, false, 1}, kFull{false, false, true, 0};
constexpr Maker kZerosLike{true, false, false, 0}, kOnesLike{true, false, false, 1}, kFullLike{true, false, true, 0};
constexpr Maker kNewZeros{false, true, false, 0}, kNewOnes{false, true, false, 1}, kNewFull{false, true, true, 0};

}  // namespace

std::span<const Translator> create_translators() {
  static constexpr Translator kTable[] = {
      {"zeros", made<kZeros>},
      {"ones", made<kOnes>},
      {"full", made<kFull>},
      {"empty", made<kZeros>},
      {"empty_permuted", made<kZeros>},
      {"zeros_like", made<kZerosLike>},
      {"ones_like", made<kOnesLike>},
      {"full_like", made<kFullLike>},
      {"empty_like", made<kZerosLike>},
      {"new_zeros", made<kNewZeros>},
      {"new_ones", made<kNewOnes>},
      {"new_full", made<kNewFull>},
      {"new_empty", made<kNewZeros>},
      {"scalar_tensor", scalar_tensor},
      {"tensor", tensor},
      {"as_tensor", tensor},
      {"arange", arange},
      {"linspace", linspace},
      {"eye", eye},
      {"rand", random<ir::RandomInput::Of::kUniform>},
      {"randn", random<ir::RandomInput::Of::kNormal>},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
