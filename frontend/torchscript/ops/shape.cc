/// Translates operators that reshape, permute, slice or concatenate tensors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "frontend/torchscript/internal/translators.h"
#include "ir/dim/dim_bounds.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::Shape;

/// `self` and its shape.
struct Shaped {
  ValueId value;
  Shape shape;
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
};

std::optional<Shaped> self(Call& call) {
  const ValueId value = call.tensor("self");
  const Shape* const shape = call.shape(value);
  return shape && call.good() ? std::optional(Shaped{value, *shape}) : std::nullopt;
}

size_t axis_of(Call& call, const Shaped& x, std::string_view name, int64_t otherwise = 0) {
  return static_cast<size_t>(call.axis(call.has(name) ? call.integer(name) : otherwise, x.rank()));
}

Shape one(size_t axis) { return {static_cast<int64_t>(axis)}; }

// --- other shapes

void reshape_to(Call& call, Shape shape, bool is_view) {
  if (!call.good()) return;
  if (is_view) return call.result_view("self", "reshape", {{"shape", std::move(shape)}});
  call.result_unsure("self", "reshape", {{"shape", std::move(shape)}});
}

/// Replaces a size of -1 by the extent that follows from the others, so that later reads need not derive it.
Shape completed(const Shape& from, Shape to) {
  const auto open = std::find(to.begin(), to.end(), Dim(-1));
  if (open == to.end()) return to;
  Dim rest = 1;
  for (auto each = to.begin(); each != to.end(); ++each) {
    if (each != open) rest = rest * *each;
  }
  if (const auto size = ir::exact_div(ir::element_count(from), rest)) *open = *size;
  return to;
}

template <bool is_view>
void reshape(Call& call) {
  const auto x = self(call);
  if (!x) return;
  if (call.has("dtype")) return call.fail("a view as another element type is not supported");
  reshape_to(call, completed(x->shape, call.sizes(call.has("size") ? "size" : "shape")), is_view);
}
template <bool is_view>
void reshape_like(Call& call) {
  const Shape* const other = call.shape(call.tensor("other"));
  if (other) reshape_to(call, *other, is_view);
}

void flatten(Call& call) {
  const auto x = self(call);
  if (!x) return;
  if (x->rank() == 0) return reshape_to(call, {1}, false);
  const size_t first = axis_of(call, *x, "start_dim"), last = axis_of(call, *x, "end_dim", -1);
  if (!call.good() || last < first) return call.fail("flatten needs an end_dim that is not before start_dim");
  Shape to(x->shape.begin(), x->shape.begin() + static_cast<std::ptrdiff_t>(first));
  Dim size = 1;
  for (size_t axis = first; axis <= last; ++axis) size = size * x->shape[axis];
  to.push_back(size);
  to.insert(to.end(), x->shape.begin() + static_cast<std::ptrdiff_t>(last) + 1, x->shape.end());
  reshape_to(call, std::move(to), false);
}

void unflatten(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const size_t axis = axis_of(call, *x, "dim");
  Shape parts = call.sizes("sizes");
  if (!call.good()) return;
  parts = completed({x->shape[axis]}, parts);
  Shape to = x->shape;
  to.erase(to.begin() + static_cast<std::ptrdiff_t>(axis));
  to.insert(to.begin() + static_cast<std::ptrdiff_t>(axis), parts.begin(), parts.end());
  reshape_to(call, std::move(to), true);
}

void permute_to(Call& call, const std::vector<int64_t>& dims) {
  Shape order(dims.begin(), dims.end());
  if (call.good()) call.result_view("self", "permute", {{"dims", std::move(order)}});
}

std::vector<int64_t> same_order(int64_t rank) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void permute(Call& call) {
  const auto x = self(call);
  if (!x) return;
  std::vector<int64_t> dims = call.integers("dims");
  for (int64_t& each : dims) each = call.axis(each, x->rank());
  permute_to(call, dims);
}

void transpose(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const bool named = call.has("dim0");
  const size_t a = axis_of(call, *x, named ? "dim0" : "axis0"), b = axis_of(call, *x, named ? "dim1" : "axis1");
  if (!call.good()) return;
  if (x->rank() == 0) return call.pass("self");
  std::vector<int64_t> order = same_order(x->rank());
  std::swap(order[a], order[b]);
  permute_to(call, order);
}

/// Reverses the last two axes, or all axes.
template <bool all>
void turned(Call& call) {
  const auto x = self(call);
  if (!x) return;
  std::vector<int64_t> order = same_order(x->rank());
  if (all) std::reverse(order.begin(), order.end());
  if (!all && x->rank() > 1) std::swap(order[order.size() - 1], order[order.size() - 2]);
  permute_to(call, order);
}

void movedim(Call& call) {
  const auto x = self(call);
  if (!x) return;
  std::vector<int64_t> from = call.integers("source"), to = call.integers("destination");
  if (from.size() != to.size()) return call.fail("movedim needs as many source as destination axes");
  std::vector<int64_t> order(x->shape.size(), -1), rest = same_order(x->rank());
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = call.axis(from[i], x->rank());
    to[i] = call.axis(to[i], x->rank());
    if (!call.good()) return;
    order[static_cast<size_t>(to[i])] = from[i];
    std::erase(rest, from[i]);
  }
  auto next = rest.begin();
  for (int64_t& each : order) {
    if (each < 0 && next != rest.end()) each = *next++;
  }
  permute_to(call, order);
}

void unsqueeze(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const int64_t given = call.integer("dim");
  const int64_t axis = call.axis(given, x->rank() + 1);
  if (call.good()) call.result_view("self", "unsqueeze", {{"axes", Shape{axis}}});
}

/// Keeps axes whose size is not 1.
void squeeze(Call& call) {
  const auto x = self(call);
  if (!x) return;
  std::vector<int64_t> order = call.has("dim") ? call.integers("dim") : same_order(x->rank());
  Shape axes;
  for (int64_t& each : order) {
    if (x->rank() == 0) break;
    each = call.axis(each, x->rank());
    if (call.good() && call.is_squeezed(x->shape[static_cast<size_t>(each)])) axes.emplace_back(each);
  }
  if (!call.good()) return;
  if (axes.empty()) return call.result_view("self", "identity", {});
  call.result_view("self", "squeeze", {{"axes", axes}});
}

/// A size of -1 keeps the extent.
void expand_to(Call& call, const Shaped& x, Shape to) {
  const size_t more = to.size() - std::min(to.size(), x.shape.size());
  for (size_t i = more; i < to.size(); ++i) {
    if (to[i] == Dim(-1)) to[i] = x.shape[i - more];
  }
  if (!call.good()) return;
  if (to == x.shape) return call.result_view("self", "identity", {});
  call.result_view("self", "expand", {{"shape", std::move(to)}});
}
void expand(Call& call) {
  if (const auto x = self(call)) expand_to(call, *x, call.sizes("size"));
}
void expand_as(Call& call) {
  const auto x = self(call);
  const Shape* const other = call.shape(call.tensor("other"));
  if (x && other) expand_to(call, *x, *other);
}
/// Returns the shape to which both broadcast.
Shape stretched(const Shape& a, const Shape& b) {
  Shape wide = b.size() > a.size() ? b : a;
  const Shape& narrow = b.size() > a.size() ? a : b;
  for (size_t back = 1; back <= narrow.size(); ++back) {
    Dim& size = wide[wide.size() - back];
    if (size == Dim(1)) size = narrow[narrow.size() - back];
  }
  return wide;
}
void broadcast_tensors(Call& call) {
  std::vector<ValueId> given = call.tensors("tensors");
  Shape to;
  for (const ValueId each : given) {
    const Shape* const shape = call.shape(each);
    if (!shape) return;
    to = stretched(to, *shape);
  }
  std::vector<Item> made;
  for (const ValueId each : given)
    made.emplace_back(std::make_shared<Tensor>(call.emit("expand", {each}, {{"shape", to}})));
  call.give(list_of(std::move(made)));
}
void infer_size(Call& call) {
  const Shape to = stretched(call.sizes("a"), call.sizes("b"));
  std::vector<Item> sizes(to.begin(), to.end());
  if (call.good()) call.give(list_of(std::move(sizes)));
}

// --- parts

ir::Attributes cut(size_t axis, const Dim& start, const Dim& end) {
  return {{"axes", one(axis)}, {"starts", Shape{start}}, {"ends", Shape{end}}};
}

/// Returns a bound counted from the front, clamped to the size.
Dim bound(const Dim& given, const Dim& size) {
  const auto sign = given.is_constant() ? std::optional(given.constant() < 0 ? -1 : 1) : ir::sign(given);
  Dim from_front = sign == -1 ? ir::larger(given + size, Dim(0)) : given;
  return ir::smaller(from_front, size);
}

void slice(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const size_t axis = axis_of(call, *x, "dim");
  const int64_t step = call.has("step") ? call.integer("step") : 1;
  if (!call.good()) return;
  const Dim size = x->shape[axis];
  const Dim start = bound(call.has("start") ? call.size("start") : Dim(0), size);
  const Dim far = call.has("end") ? call.size("end") : size;
  const Dim end = far == Dim(INT64_MAX) ? size : bound(far, size);
  if (!call.good()) return;
  if (step == 1 && start == Dim(0) && end == size) return call.result_view("self", "identity", {});
  ir::Attributes attributes = cut(axis, start, end);
  if (step != 1) attributes.set("steps", Shape{step});
  call.result_view("self", "slice", std::move(attributes));
}

void narrow(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const size_t axis = axis_of(call, *x, "dim");
  if (!call.good()) return;
  const Dim start = bound(call.size("start"), x->shape[axis]);
  call.result_view("self", "slice", cut(axis, start, start + call.size("length")));
}

/// Returns a view of a row: a slice without its axis.
Item row(Call& call, const Item& of, size_t axis, const Dim& index) {
  const Item part = call.view(of, "slice", cut(axis, index, index + 1));
  return call.good() ? call.view(part, "squeeze", {{"axes", one(axis)}}) : Item();
}

void select(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const size_t axis = axis_of(call, *x, "dim");
  if (call.good() && call.item("index").is_of_data()) {
    const ValueId at = call.tensor("index");
    const ValueId made = call.emit("gather", {x->value, at}, {{"axis", Dim(static_cast<int64_t>(axis))}});
    if (call.good()) call.give(Item(Tensor::unsure(made, *call.item("self").get<TensorRef>())));
    return;
  }
  Dim index = call.size("index");
  if (!call.good()) return;
  if (index.is_constant() && index.constant() < 0) index = x->shape[axis] + index;
  call.give(row(call, call.item("self"), axis, index));
}

void unbind(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const size_t axis = axis_of(call, *x, "dim");
  if (!call.good()) return;
  const Dim& size = x->shape[axis];
  if (const auto hit = size.is_constant() || axis != 0 ? std::nullopt : call.rows_hit(x->value)) {
    std::vector<Item> rows;
    const Shape one(x->shape.begin() + 1, x->shape.end());
    for (const ValueId each : *hit)
      rows.emplace_back(std::make_shared<Tensor>(call.emit("reshape", {each}, {{"shape", one}})));
    return call.give(list_of(std::move(rows)));
  }
  if (!size.is_constant()) return call.fail(fmt::format("unbind of {} rows needs a known number of rows", size.str()));
  std::vector<Item> rows;
  for (int64_t i = 0; i < size.constant() && call.good(); ++i) rows.push_back(row(call, call.item("self"), axis, i));
  call.give(list_of(std::move(rows)));
}

/// Emits one split. Each part is a separate view.
void split_into(Call& call, const Shaped& x, size_t axis, const Shape& sizes) {
  if (!call.good()) return;
  const auto parts =
      call.emit_all("split", {x.value}, {{"axis", Dim(static_cast<int64_t>(axis))}, {"sizes", sizes}}, sizes.size());
  std::vector<Item> made;
  Dim start = 0;
  const auto* const behind = call.item("self").get<TensorRef>();
  for (size_t i = 0; i < parts.size() && call.good(); ++i) {
    made.emplace_back(std::make_shared<Tensor>(parts[i], *behind, View{"slice", cut(axis, start, start + sizes[i])}));
    start = start + sizes[i];
  }
  call.give(list_of(std::move(made)));
}

void split_by(Call& call, const Shaped& x, size_t axis, const Dim& each) {
  const Dim& size = x.shape[axis];
  if (size == each) return split_into(call, x, axis, {size});
  // The number of parts must also be known for symbolic sizes.
  const auto count = ir::exact_div(size, each);
  if (count && count->is_constant())
    return split_into(call, x, axis, Shape(static_cast<size_t>(count->constant()), each));
  if (!size.is_constant() || !each.is_constant() || each.constant() < 1)
    return call.fail(
        fmt::format("a split of {} into parts of {} needs a known number of parts", size.str(), each.str()));
  Shape sizes;
  for (int64_t rest = size.constant(); rest > 0; rest -= each.constant())
    sizes.emplace_back(std::min(rest, each.constant()));
  split_into(call, x, axis, sizes);
}

void split(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const size_t axis = axis_of(call, *x, "dim");
  if (!call.good()) return;
  if (call.has("split_sizes") || call.item("split_size").sequence())
    return split_into(call, *x, axis, call.sizes(call.has("split_sizes") ? "split_sizes" : "split_size"));
  split_by(call, *x, axis, call.size("split_size"));
}

void chunk(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const size_t axis = axis_of(call, *x, "dim");
  const int64_t chunks = call.integer("chunks");
  if (!call.good() || chunks < 1) return call.fail("chunk needs at least one part");
  const Dim& size = x->shape[axis];
  const auto even = ir::exact_div(size, Dim(chunks));
  split_by(call, *x, axis, even ? *even : floor_div(size + Dim(chunks - 1), Dim(chunks)));
}

void tensor_split(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const size_t axis = axis_of(call, *x, "dim");
  const Dim size = x->shape[axis];
  if (!call.good() || !size.is_constant()) return call.fail("tensor_split needs an axis of known size");
  Shape sizes;
  if (call.has("sections")) {
    const int64_t parts = call.integer("sections");
    for (int64_t i = 0; i < parts; ++i)
      sizes.emplace_back(size.constant() / parts + (i < size.constant() % parts ? 1 : 0));
  } else {
    int64_t last = 0;
    for (const int64_t at : call.integers("indices")) sizes.emplace_back(at - last), last = at;
    sizes.emplace_back(size.constant() - last);
  }
  split_into(call, *x, axis, sizes);
}

// --- concatenation

std::vector<ValueId> of_one_type(Call& call, std::string_view name) {
  const Sequence* const list = call.item(name).sequence();
  if (!list) return call.fail(fmt::format("{}: expected a list of tensors", call.schema())), std::vector<ValueId>();
  std::vector<Item> kept;
  // Skips empty vectors, whatever the rank of the others.
  for (const Item& each : list->elements) {
    const ValueId value = call.tensor(each, name);
    if (call.type(value).shape != Shape{0}) kept.push_back(each);
  }
  return promoted(call, kept);
}

void cat(Call& call) {
  const std::vector<ValueId> parts = of_one_type(call, "tensors");
  if (!call.good() || parts.empty()) return call.fail("cat needs at least one tensor");
  if (parts.size() == 1) return call.give(parts[0]);
  const int64_t axis = call.axis(call.has("dim") ? call.integer("dim") : 0, call.rank(parts[0]));
  call.result("concat", parts, {{"axis", Dim(axis)}});
}

void stack(Call& call) {
  std::vector<ValueId> parts = of_one_type(call, "tensors");
  if (!call.good() || parts.empty()) return call.fail("stack needs at least one tensor");
  const int64_t axis = call.axis(call.has("dim") ? call.integer("dim") : 0, call.rank(parts[0]) + 1);
  if (!call.good()) return;
  for (ValueId& each : parts) each = call.emit("unsqueeze", {each}, {{"axes", Shape{axis}}});
  call.result("concat", parts, {{"axis", Dim(axis)}});
}

void repeat(Call& call) {
  const auto x = self(call);
  if (!x) return;
  Shape times = call.sizes(call.has("repeats") ? "repeats" : "dims");
  if (!call.good()) return;
  ValueId value = x->value;
  if (times.size() > x->shape.size()) {
    Shape to(times.size() - x->shape.size(), Dim(1));
    to.insert(to.end(), x->shape.begin(), x->shape.end());
    value = call.emit("reshape", {value}, {{"shape", to}});
  }
  while (times.size() < x->shape.size()) times.insert(times.begin(), Dim(1));
  call.result("tile", {value}, {{"repeats", times}});
}

/// Repeats each element several times in a row: along an axis, or those of the flattened tensor.
void repeat_interleave(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const Dim times = call.size("repeats");
  if (!call.has("dim")) {
    const Shape flat = {ir::element_count(x->shape)};
    if (!call.good()) return;
    const ValueId row = x->rank() == 1 ? x->value : call.emit("reshape", {x->value}, {{"shape", flat}});
    const ValueId wide =
        call.emit("expand", {call.emit("unsqueeze", {row}, {{"axes", one(1)}})}, {{"shape", Shape{flat[0], times}}});
    return call.result("reshape", {wide}, {{"shape", Shape{flat[0] * times}}});
  }
  const size_t axis = axis_of(call, *x, "dim");
  if (!call.good()) return;
  Shape wide = x->shape, to = x->shape;
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(axis) + 1, times);
  to[axis] = to[axis] * times;
  const ValueId column = call.emit("unsqueeze", {x->value}, {{"axes", one(axis + 1)}});
  call.result("reshape", {call.emit("expand", {column}, {{"shape", wide}})}, {{"shape", to}});
}

void flip(Call& call) {
  const auto x = self(call);
  if (!x) return;
  ValueId value = x->value;
  for (const int64_t each : call.integers("dims")) {
    const int64_t axis = call.axis(each, x->rank());
    value =
        call.emit("slice", {value},
                  {{"axes", Shape{axis}}, {"starts", Shape{-1}}, {"ends", Shape{INT64_MIN + 1}}, {"steps", Shape{-1}}});
  }
  if (call.good()) call.give(value);
}

/// Moves the last rows to the front.
void roll(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const Shape shifts = call.sizes("shifts");
  const std::vector<int64_t> dims = call.integers("dims");
  if (dims.size() != shifts.size()) return call.fail("roll without dims is not supported");
  ValueId value = x->value;
  for (size_t i = 0; i < dims.size() && call.good(); ++i) {
    const auto axis = static_cast<size_t>(call.axis(dims[i], x->rank()));
    const Dim size = x->shape[axis], first = mod(Dim(0) - shifts[i], size);
    if (first == Dim(0)) continue;
    const ValueId front = call.emit("slice", {value}, cut(axis, first, size)),
                  back = call.emit("slice", {value}, cut(axis, 0, first));
    value = call.emit("concat", {front, back}, {{"axis", Dim(static_cast<int64_t>(axis))}});
  }
  if (call.good()) call.give(value);
}

/// Differences of consecutive elements, after `prepend` and `append`.
void diff(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const size_t axis = axis_of(call, *x, "dim", -1);
  const int64_t times = call.has("n") ? call.integer("n") : 1;
  if (!call.good() || times < 0 || x->rank() == 0)
    return call.fail("diff needs a tensor with an axis and a nonnegative n");
  std::vector<ValueId> parts = {x->value};
  if (call.has("prepend")) parts.insert(parts.begin(), call.tensor("prepend"));
  if (call.has("append")) parts.push_back(call.tensor("append"));
  const ir::Attributes along = {{"axis", Dim(static_cast<int64_t>(axis))}};
  ValueId value = parts.size() == 1 ? x->value : call.emit("concat", parts, along);
  for (int64_t i = 0; i < times; ++i) {
    const Shape* const shape = call.shape(value);
    if (!shape) return;
    const Dim size = (*shape)[axis];
    const ValueId later = call.emit("slice", {value}, cut(axis, 1, size));
    const ValueId earlier = call.emit("slice", {value}, cut(axis, 0, size - Dim(1)));
    value = call.dtype(value) == ir::DType::kBool ? call.emit("logical_xor", {later, earlier})
                                                  : call.emit("sub", {later, earlier});
  }
  if (call.good()) call.give(value);
}

/// Pads are in pairs, before and after, from the last axis on.
void pad(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const Shape given = call.sizes(call.has("pad") ? "pad" : "padding");
  const std::string op = call.op();
  std::string mode = op == "pad"                     ? call.text("mode")
                     : op.starts_with("reflection")  ? "reflect"
                     : op.starts_with("replication") ? "replicate"
                                                     : "constant";
  if (given.size() % 2 != 0 || given.size() / 2 > x->shape.size())
    return call.fail("pad needs two amounts per axis and at most as many pairs as axes");
  Shape pads(2 * x->shape.size(), Dim(0));
  for (size_t k = 0; k < given.size() / 2; ++k) {
    const size_t axis = x->shape.size() - 1 - k;
    pads[axis] = given[2 * k];
    pads[axis + x->shape.size()] = given[2 * k + 1];
  }
  if (!call.good()) return;
  if (std::all_of(pads.begin(), pads.end(), [](const Dim& each) { return each == Dim(0); })) return call.give(x->value);
  ir::Attributes attributes = {{"pads", pads}};
  if (mode == "constant") {
    const double value = call.has("value") ? call.number("value") : 0;
    if (value != 0)
      attributes.set("value",
                     ir::is_float(call.dtype(x->value)) ? ir::Attribute(value) : ir::Attribute(Dim(whole(value))));
  } else {
    attributes.set("mode", mode == "replicate" ? std::string("edge") : mode == "circular" ? std::string("wrap") : mode);
  }
  call.result("pad", {x->value}, std::move(attributes));
}

/// Moves blocks of channels to blocks of pixels, or back.
template <bool up>
void shuffle(Call& call) {
  const auto x = self(call);
  if (!x) return;
  const int64_t r = call.integer(up ? "upscale_factor" : "downscale_factor");
  if (x->rank() != 4) return call.fail("a shuffle of pixels needs 4 axes");
  const Dim &n = x->shape[0], &c = x->shape[1], &h = x->shape[2], &w = x->shape[3];
  const auto fewer = ir::exact_div(c, Dim(r * r)), height = ir::exact_div(h, Dim(r)), width = ir::exact_div(w, Dim(r));
  if (!call.good() || (up && !fewer) || (!up && (!height || !width)))
    return call.fail("a shuffle of pixels needs a factor that divides the extents");
  const Shape parts = up ? Shape{n, *fewer, r, r, h, w} : Shape{n, c, *height, r, *width, r};
  const Shape order = up ? Shape{0, 1, 4, 2, 5, 3} : Shape{0, 1, 3, 5, 2, 4};
  const Shape to = up ? Shape{n, *fewer, h * Dim(r), w * Dim(r)} : Shape{n, c * Dim(r * r), *height, *width};
  const ValueId apart = call.emit("reshape", {x->value}, {{"shape", parts}});
  call.result("reshape", {call.emit("permute", {apart}, {{"dims", order}})}, {{"shape", to}});
}

void channel_shuffle(Call& call) {
  const auto x = self(call);
  if (!x || x->rank() < 2) return;
  const int64_t groups = call.integer("groups");
  const auto each = ir::exact_div(x->shape[1], Dim(groups));
  if (!each) return call.fail("a shuffle of channels needs groups that divide the channels");
  Shape parts = {x->shape[0], groups, *each};
  parts.insert(parts.end(), x->shape.begin() + 2, x->shape.end());
  std::vector<int64_t> order = same_order(static_cast<int64_t>(parts.size()));
  std::swap(order[1], order[2]);
  const ValueId apart = call.emit("reshape", {x->value}, {{"shape", parts}});
  call.result("reshape", {call.emit("permute", {apart}, {{"dims", frontend::list(order)}})}, {{"shape", x->shape}});
}

}  // namespace

std::span<const Translator> shape_translators() {
  static constexpr Translator kTable[] = {
      {"view", reshape<true>},
      {"reshape", reshape<false>},
      {"_unsafe_view", reshape<true>},
      {"view_as", reshape_like<true>},
      {"reshape_as", reshape_like<false>},
      {"flatten", flatten},
      {"unflatten", unflatten},
      {"permute", permute},
      {"transpose", transpose},
      {"swapaxes", transpose},
      {"swapdims", transpose},
      {"t", turned<false>},
      {"numpy_T", turned<true>},
      {"mT", turned<false>},
      {"movedim", movedim},
      {"moveaxis", movedim},
      {"unsqueeze", unsqueeze},
      {"squeeze", squeeze},
      {"expand", expand},
      {"expand_as", expand_as},
      {"broadcast_to", expand},
      {"broadcast_tensors", broadcast_tensors},
      {"_infer_size", infer_size},
      {"slice", slice},
      {"narrow", narrow},
      {"select", select},
      {"unbind", unbind},
      {"split", split},
      {"split_with_sizes", split},
      {"chunk", chunk},
      {"unsafe_split", split},
      {"unsafe_split_with_sizes", split},
      {"unsafe_chunk", chunk},
      {"tensor_split", tensor_split},
      {"cat", cat},
      {"concat", cat},
      {"concatenate", cat},
      {"stack", stack},
      {"repeat", repeat},
      {"tile", repeat},
      {"repeat_interleave", repeat_interleave},
      {"flip", flip},
      {"roll", roll},
      {"diff", diff},
      {"pad", pad},
      {"constant_pad_nd", pad},
      {"reflection_pad1d", pad},
      {"reflection_pad2d", pad},
      {"replication_pad1d", pad},
      {"replication_pad2d", pad},
      {"pixel_shuffle", shuffle<true>},
      {"pixel_unshuffle", shuffle<false>},
      {"channel_shuffle", channel_shuffle},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
