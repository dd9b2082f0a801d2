/// Evaluates integers, bools, strings and lists of the program during import.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "frontend/internal/rows/picked_rows.h"
#include "frontend/torchscript/internal/translators.h"
#include "ir/dim/dim_bounds.h"

namespace rannc::frontend::torchscript {

namespace {

using ir::Dim;
using ir::DType;

bool is_integer(const Item& item) { return item.get<Dim>() || item.get<bool>(); }

Dim integer(const Item& item) { return item.get<Dim>() ? *item.get<Dim>() : Dim(*item.get<bool>() ? 1 : 0); }

std::optional<double> plain(const Item& item) { return Call::number_of(item); }

void unexpected(Call& call, std::string_view what) {
  std::string given;
  for (const Call::Argument& each : call.arguments()) given += (given.empty() ? "" : ", ") + describe(each.item);
  call.fail(fmt::format("{} of {}; expected {}", call.schema(), given, what));
}

// --- arithmetic

/// Rejects an integer at which those of a program wrap around.
void too_large(Call& call) { unexpected(call, "a result of at most 64 bits"); }

bool overflows(std::string_view op, int64_t a, int64_t b) {
  int64_t made = 0;
  if (op == "add") return __builtin_add_overflow(a, b, &made);
  if (op == "sub") return __builtin_sub_overflow(a, b, &made);
  if (op == "mul") return __builtin_mul_overflow(a, b, &made);
  return op == "floordiv" && a == INT64_MIN && b == -1;
}

/// Gives a whole number as an integer.
void give_whole(Call& call, double number) {
  constexpr double kEnd = 0x1p63;
  if (!(number >= -kEnd && number < kEnd)) return too_large(call);
  call.give(Dim(static_cast<int64_t>(number)));
}

/// For numbers and bools that depend on data, emits the core operator of the same name on tensors. Returns whether that
/// applied.
bool computed_of_data(Call& call) {
  const Item &a = call.item(size_t{0}), &b = call.item(1);
  if (!a.is_of_data() && !b.is_of_data()) return false;
  constexpr std::string_view kOfCore[] = {"add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge"};
  const bool is_known = std::find(std::begin(kOfCore), std::end(kOfCore), call.op()) != std::end(kOfCore);
  if (!is_known) return unexpected(call, "numbers that are known before the model runs"), true;
  const std::vector<ValueId> operands = promoted(call, std::array{a, b});
  const ValueId made = call.emit(call.op(), operands);
  if (call.good())
    call.give(of_data(std::make_shared<Tensor>(made), fmt::format("what '{}' is of data", call.name(made))));
  return true;
}

/// Returns a number as a quotient of sizes.
std::optional<Ratio> ratio(const Item& item) {
  if (const auto* found = item.get<Ratio>()) return *found;
  if (is_integer(item)) return Ratio{integer(item)};
  const auto* const number = item.get<double>();
  return number ? ratio_of(*number) : std::nullopt;
}

/// Computes with numbers of which at least one follows from sizes.
std::optional<Ratio> of_sizes(const Call& call, const Item& a, const Item& b) {
  const std::string& op = call.op();
  if (op == "mul" && a.get<Dim>() && b.get<double>()) return scaled(integer(a), *b.get<double>());
  if (op == "mul" && a.get<double>() && b.get<Dim>()) return scaled(integer(b), *a.get<double>());
  const auto x = ratio(a), y = ratio(b);
  if (!x || !y) return std::nullopt;
  if (op == "add") return sum(*x, *y);
  if (op == "sub") return difference(*x, *y);
  if (op == "mul") return product(*x, *y);
  return op == "div" || op == "truediv" ? quotient(*x, *y) : std::nullopt;
}

template <Dim (*of_integers)(const Dim&, const Dim&), double (*of_numbers)(double, double)>
void arithmetic(Call& call) {
  if (computed_of_data(call)) return;
  const Item &a = call.item(size_t{0}), &b = call.item(1);
  if (is_integer(a) && is_integer(b)) {
    const Dim m = integer(a), n = integer(b);
    const bool is_known = m.is_constant() && n.is_constant();
    if (is_known && overflows(call.op(), m.constant(), n.constant())) return too_large(call);
    return call.give(Item(of_integers(m, n)));
  }
  const auto x = plain(a), y = plain(b);
  if (x && y) return call.give(of_numbers(*x, *y));
  const auto made = of_sizes(call, a, b);
  made ? call.give(Item(*made)) : unexpected(call, "numbers");
}

Dim plus(const Dim& a, const Dim& b) { return a + b; }
Dim minus(const Dim& a, const Dim& b) { return a - b; }
Dim times(const Dim& a, const Dim& b) { return a * b; }
Dim floored(const Dim& a, const Dim& b) { return floor_div(a, b); }
Dim remainder(const Dim& a, const Dim& b) { return mod(a, b); }
double plus_number(double a, double b) { return a + b; }
double minus_number(double a, double b) { return a - b; }
double times_number(double a, double b) { return a * b; }
double floored_number(double a, double b) { return std::floor(a / b); }
double remainder_number(double a, double b) { return std::fmod(b + std::fmod(a, b), b); }

/// Python's true division: integers give a float.
void true_division(Call& call) {
  const Item &a = call.item(size_t{0}), &b = call.item(1);
  const auto x = plain(a), y = plain(b);
  if (x && y && *y != 0) return call.give(*x / *y);
  const auto made = of_sizes(call, a, b);
  made ? call.give(Item(*made)) : unexpected(call, "numbers that are known or follow from sizes, the second above 0");
}

/// Rejects a divisor of 0, for which Python raises an exception.
template <void (*divide)(Call&)>
void divided(Call& call) {
  const Item& by = call.item(1);
  if (is_integer(by) && integer(by) == Dim(0)) return unexpected(call, "a divisor other than 0");
  divide(call);
}

void negative_number(Call& call) {
  const Item& x = call.item(size_t{0});
  if (is_integer(x) && integer(x) == Dim(INT64_MIN)) return too_large(call);
  if (is_integer(x)) return call.give(Dim(0) - integer(x));
  if (const auto* number = x.get<double>()) return call.give(-*number);
  if (const auto* of = x.get<Ratio>()) return call.give(Item(Ratio{Dim(0) - of->above, of->below, of->exact}));
  unexpected(call, "a number");
}

// --- comparisons

enum class Order { kEq, kNe, kLt, kLe, kGt, kGe };

bool holds(Order order, double a, double b) {
  switch (order) {
    case Order::kEq:
      return a == b;
    case Order::kNe:
      return a != b;
    case Order::kLt:
      return a < b;
    case Order::kLe:
      return a <= b;
    case Order::kGt:
      return a > b;
    case Order::kGe:
      return a >= b;
  }
  return false;
}

/// Compares a and b by bounds of sizes; nullopt if these are not sufficient.
std::optional<bool> decided(Order order, const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  if (difference.is_constant()) return holds(order, static_cast<double>(difference.constant()), 0);
  if (is_picked(difference)) return std::nullopt;  // may be 0
  const auto [low, high] = ir::bounds_of(difference);
  const bool above = low && *low > 0, below = high && *high < 0;
  switch (order) {
    case Order::kEq:
      return above || below ? std::optional(false) : std::nullopt;
    case Order::kNe:
      return above || below ? std::optional(true) : std::nullopt;
    case Order::kLt:
      return below ? std::optional(true) : low && *low >= 0 ? std::optional(false) : std::nullopt;
    case Order::kLe:
      return high && *high <= 0 ? std::optional(true) : above ? std::optional(false) : std::nullopt;
    case Order::kGt:
      return above ? std::optional(true) : high && *high <= 0 ? std::optional(false) : std::nullopt;
    case Order::kGe:
      return low && *low >= 0 ? std::optional(true) : below ? std::optional(false) : std::nullopt;
  }
  return std::nullopt;
}

/// Compares quotients with positive divisors.
std::optional<bool> decided(Order order, const Ratio& a, const Ratio& b) {
  const bool is_sure = a.exact && b.exact && ir::sign(a.below) == 1 && ir::sign(b.below) == 1;
  return is_sure ? decided(order, a.above * b.below, b.above * a.below) : std::nullopt;
}

/// Compares two items of any kind; nullopt if the result depends on sizes.
std::optional<bool> equal(const Item& a, const Item& b) {
  if (a.get<Undecided>() || b.get<Undecided>()) return std::nullopt;
  if (is_integer(a) && is_integer(b)) return decided(Order::kEq, integer(a), integer(b));
  if (const auto x = plain(a), y = plain(b); x && y) return *x == *y;
  if (const auto x = ratio(a), y = ratio(b); x && y) return decided(Order::kEq, *x, *y);
  const auto *text_a = a.get<std::string>(), *text_b = b.get<std::string>();
  if (text_a && text_b) return *text_a == *text_b;
  if (a.get<Device>() && b.get<Device>()) return true;
  const Sequence *list_a = a.sequence(), *list_b = b.sequence();
  if (!list_a || !list_b || list_a->elements.size() != list_b->elements.size()) return a.is_none() && b.is_none();
  bool all = true;
  for (size_t i = 0; i < list_a->elements.size(); ++i) {
    const auto same = equal(list_a->elements[i], list_b->elements[i]);
    if (same == false) return false;
    all = all && same.has_value();
  }
  return all ? std::optional(true) : std::nullopt;
}

template <Order order>
void compared(Call& call) {
  if (computed_of_data(call)) return;
  const Item &a = call.item(size_t{0}), &b = call.item(1);
  std::optional<bool> found;
  if constexpr (order == Order::kEq || order == Order::kNe) {
    found = equal(a, b);
    if (found && order == Order::kNe) found = !*found;
  } else if (is_integer(a) && is_integer(b)) {
    found = decided(order, integer(a), integer(b));
  } else if (const auto x = plain(a), y = plain(b); x && y) {
    found = holds(order, *x, *y);
  } else if (const auto of = ratio(a), to = ratio(b); of && to) {
    found = decided(order, *of, *to);
  } else {
    return unexpected(call, "numbers");
  }
  if (found) return call.give(*found);
  call.give(Undecided{fmt::format("whether {} and {} compare by {}", describe(a), describe(b), call.op())});
}

void same(Call& call) { call.give(call.item(size_t{0}).is_none() && call.item(1).is_none()); }
void other(Call& call) { call.give(!(call.item(size_t{0}).is_none() && call.item(1).is_none())); }

void negated(Call& call) {
  const Item& x = call.item(size_t{0});
  if (const auto* truth = x.get<bool>()) return call.give(!*truth);
  if (x.is_of_data()) {
    const ValueId made = call.emit("logical_not", {call.tensor(x, "a")});
    return call.give(of_data(std::make_shared<Tensor>(made), "the contrary of " + describe(x)));
  }
  if (const auto* undecided = x.get<Undecided>()) return call.give(*undecided);
  unexpected(call, "a truth value");
}

template <bool all>
void both(Call& call) {
  const Item &a = call.item(size_t{0}), &b = call.item(1);
  const auto *x = a.get<bool>(), *y = b.get<bool>();
  if ((x && *x != all) || (y && *y != all)) return call.give(!all);
  if (x && y) return call.give(all);
  if (a.is_of_data() && b.is_of_data()) {
    const ValueId made = call.emit(all ? "logical_and" : "logical_or", {call.tensor(a, "a"), call.tensor(b, "b")});
    return call.give(of_data(std::make_shared<Tensor>(made), describe(a) + (all ? " and " : " or ") + describe(b)));
  }
  // A decided operand is neutral here. If one depends on sizes and the other on data, no tensor can represent both.
  const Item* const open = x ? &b : y ? &a : nullptr;
  if (open && open->get<Undecided>()) return call.give(*open);
  if (a.get<Undecided>() && b.get<Undecided>()) return call.give(Undecided{describe(a)});
  unexpected(call, "truth values");
}

// --- from tensors and back

void to_tensor(Call& call) { call.give(call.tensor(call.item(size_t{0}), "a")); }

/// Returns the single element of a tensor as a number of the program, without gradient.
void single_of_data(Call& call, ValueId value, DType dtype, std::string_view what) {
  const ir::Shape* const shape = call.shape(value);
  const std::string text = fmt::format("{} of '{}'", what, call.name(value));
  if (!shape || !(ir::element_count(*shape) == Dim(1))) return call.give(Undecided{text});
  ValueId single = shape->empty() ? value : call.emit("reshape", {value}, {{"shape", ir::Shape{}}});
  if (ir::is_float(call.dtype(single))) single = call.emit("stop_gradient", {single});
  single = call.cast(single, dtype);
  if (call.good()) call.give(of_data(std::make_shared<Tensor>(single), text));
}

/// Gives a rounded number, or fails if it does not follow from sizes.
void give_rounded(Call& call, const std::optional<Dim>& made) {
  made ? call.give(*made) : unexpected(call, "a number whose rounded value follows exactly from sizes");
}

void to_integer(Call& call) {
  const Item& x = call.item(size_t{0});
  if (const auto* of = x.get<Ratio>()) return give_rounded(call, cut(*of));
  if (const auto* number = x.get<double>()) return give_whole(call, *number);
  if (const auto size = call.size_of(x)) return call.give(*size);
  if (x.get<TensorRef>() || x.is_of_data()) {
    const ValueId value = call.tensor(x, "a");
    if (const auto sizes = call.cut_to_sizes(value); sizes && sizes->size() == 1) return call.give((*sizes)[0]);
    if (const auto number = call.number(value)) return give_whole(call, *number);
    return single_of_data(call, value, DType::kI64, "the integer");
  }
  unexpected(call, "an integer");
}

void to_number(Call& call) {
  const Item& x = call.item(size_t{0});
  if (const auto number = plain(x)) return call.give(*number);
  if (const auto of = ratio(x)) return call.give(Item(*of));
  if (x.get<TensorRef>() || x.is_of_data()) {
    const ValueId value = call.tensor(x, "a");
    if (const auto number = call.number(value)) return call.give(*number);
    return single_of_data(call, value, call.dtype(value), "the number");
  }
  unexpected(call, "a number that is known before the model runs");
}

void to_truth(Call& call) {
  const Item& x = call.item(size_t{0});
  if (const auto number = plain(x)) return call.give(*number != 0);
  if (const auto* size = x.get<Dim>()) {
    if (!is_picked(*size) && ir::sign(*size)) return call.give(*ir::sign(*size) != 0);
    return call.give(Undecided{fmt::format("whether {} is 0", size->str())});
  }
  if (x.get<TensorRef>() || x.is_of_data()) {
    const ValueId value = call.tensor(x, "a");
    if (const auto known = call.contents(value); known && known->size() == 1 && (*known)[0].is_constant())
      return call.give((*known)[0].constant() != 0);
    if (const auto number = call.number(value)) return call.give(*number != 0);
    return single_of_data(call, value, DType::kBool, "the truth");
  }
  unexpected(call, "a truth value");
}

void to_scalar(Call& call) {
  const Item& x = call.item(size_t{0});
  if (!x.get<TensorRef>()) return call.give(Item(x));
  const ir::DType dtype = call.dtype(call.tensor(x, "a"));
  if (dtype == ir::DType::kBool) return to_truth(call);
  return ir::is_float(dtype) ? to_number(call) : to_integer(call);
}

// --- lists

Sequence* list(Call& call, size_t index) {
  const auto* found = call.item(index).get<std::shared_ptr<Sequence>>();
  if (!found) unexpected(call, "a list");
  return found ? found->get() : nullptr;
}

/// Returns a list that the call modifies.
Sequence* changed_list(Call& call) {
  Sequence* const found = list(call, 0);
  if (found == nullptr || !found->is_fixed) return found;
  call.fail("a branch or loop that depends on data modifies a list from outside of it");
  return nullptr;
}

std::optional<size_t> place(Call& call, const Item& index, size_t size) {
  const auto* at = index.get<Dim>();
  if (!at || !at->is_constant()) return unexpected(call, "an index that is known"), std::nullopt;
  const int64_t from_front = at->constant() < 0 ? at->constant() + static_cast<int64_t>(size) : at->constant();
  if (from_front < 0 || from_front >= static_cast<int64_t>(size)) {
    call.fail(fmt::format("{}: index {} is out of range for {} elements", call.schema(), at->constant(), size));
    return std::nullopt;
  }
  return static_cast<size_t>(from_front);
}

void length(Call& call) {
  if (const auto* tensor = call.item(size_t{0}).get<TensorRef>()) {
    const ir::Shape* const shape = call.shape((*tensor)->now());
    if (shape && !shape->empty()) return call.give(shape->front());
    return unexpected(call, "a tensor with an axis");
  }
  if (const auto* text = call.item(size_t{0}).get<std::string>())
    return call.give(Dim(static_cast<int64_t>(text->size())));
  if (const Dictionary* const dictionary = call.item(size_t{0}).dictionary())
    return call.give(Dim(static_cast<int64_t>(dictionary->entries.size())));
  if (const Sequence* const found = list(call, 0)) call.give(Dim(static_cast<int64_t>(found->elements.size())));
}

void get_item(Call& call) {
  if (const Dictionary* const dictionary = call.item(size_t{0}).dictionary()) {
    for (const auto& [key, value] : dictionary->entries) {
      if (equal(key, call.item(1)) == true) return call.give(value);
    }
    return unexpected(call, "an existing key");
  }
  const Sequence* const found = list(call, 0);
  if (!found) return;
  if (const auto at = place(call, call.item(1), found->elements.size())) call.give(found->elements[*at]);
}

void set_item(Call& call) {
  if (const auto* dictionary = call.item(size_t{0}).get<std::shared_ptr<Dictionary>>()) {
    if ((*dictionary)->is_fixed)
      return call.fail("a branch or loop that depends on data modifies a dictionary from outside of it");
    for (auto& [key, value] : (*dictionary)->entries) {
      if (equal(key, call.item(1)) == true) return void(value = call.item(2));
    }
    return void((*dictionary)->entries.emplace_back(call.item(1), call.item(2)));
  }
  Sequence* const found = changed_list(call);
  if (!found) return;
  if (const auto at = place(call, call.item(1), found->elements.size())) found->elements[*at] = call.item(2);
  call.give(Item(call.item(size_t{0})));
}

void append(Call& call) {
  Sequence* const found = changed_list(call);
  if (!found) return;
  found->elements.push_back(call.item(1));
  call.give(Item(call.item(size_t{0})));
}

void extend(Call& call) {
  Sequence* const found = changed_list(call);
  const Sequence* const more = list(call, 1);
  if (!found || !more) return;
  const std::vector<Item> added = more->elements;
  found->elements.insert(found->elements.end(), added.begin(), added.end());
}

void pop(Call& call) {
  Sequence* const found = changed_list(call);
  if (!found) return;
  const auto at = place(call, call.item(1), found->elements.size());
  if (!at) return;
  call.give(found->elements[*at]);
  found->elements.erase(found->elements.begin() + static_cast<std::ptrdiff_t>(*at));
}

void insert(Call& call) {
  Sequence* const found = changed_list(call);
  if (!found) return;
  const auto at = place(call, call.item(1), found->elements.size() + 1);
  if (at) found->elements.insert(found->elements.begin() + static_cast<std::ptrdiff_t>(*at), call.item(2));
}

void copied(Call& call) {
  if (const Sequence* const found = list(call, 0)) call.give(list_of(found->elements));
}

void joined(Call& call) {
  const Sequence *const a = list(call, 0), *const b = list(call, 1);
  if (!a || !b) return;
  std::vector<Item> elements = a->elements;
  elements.insert(elements.end(), b->elements.begin(), b->elements.end());
  call.give(list_of(std::move(elements)));
}

void repeated(Call& call) {
  const Sequence* const found = list(call, 0);
  const auto* const times = call.item(1).get<Dim>();
  if (!found || !times || !times->is_constant()) return unexpected(call, "a list and a number that is known");
  std::vector<Item> elements;
  constexpr size_t kMost = 1 << 16;
  const auto count = static_cast<uint64_t>(std::max<int64_t>(times->constant(), 0));
  if (count > kMost || count * found->elements.size() > kMost)
    return call.fail(fmt::format("a list may have at most {} elements", kMost));
  for (uint64_t i = 0; i < count; ++i) elements.insert(elements.end(), found->elements.begin(), found->elements.end());
  call.give(list_of(std::move(elements)));
}

void sliced(Call& call) {
  const Sequence* const found = list(call, 0);
  if (!found) return;
  const auto size = static_cast<int64_t>(found->elements.size());
  const auto bound = [&](std::string_view name, int64_t otherwise) {
    if (!call.has(name)) return otherwise;
    const int64_t given = call.integer(name);
    return given < 0 ? given + size : given;
  };
  const int64_t given_step = call.has("step") ? call.integer("step") : 1;
  if (given_step < 1) return unexpected(call, "a positive step");
  const int64_t step = std::min(given_step, std::max<int64_t>(size, 1));
  std::vector<Item> elements;
  const int64_t end = std::min(bound("end", size), size);
  for (int64_t i = std::max<int64_t>(bound("start", 0), 0); i < end; i += step)
    elements.push_back(found->elements[static_cast<size_t>(i)]);
  call.give(found->is_tuple ? tuple_of(std::move(elements)) : list_of(std::move(elements)));
}

void contains(Call& call) {
  if (const Dictionary* const dictionary = call.item(size_t{0}).dictionary()) {
    for (const auto& [key, value] : dictionary->entries) {
      if (equal(key, call.item(1)) == true) return call.give(true);
    }
    return call.give(false);
  }
  const Sequence* const found = list(call, 0);
  if (!found) return;
  bool open = false;
  for (const Item& each : found->elements) {
    const auto same = equal(each, call.item(1));
    if (same == true) return call.give(true);
    open = open || !same;
  }
  if (!open) return call.give(false);
  call.give(Undecided{fmt::format("whether {} is in {}", describe(call.item(1)), describe(call.item(size_t{0})))});
}

void keys(Call& call) {
  const Dictionary* const dictionary = call.item(size_t{0}).dictionary();
  if (!dictionary) return unexpected(call, "a dictionary");
  std::vector<Item> found;
  for (const auto& [key, value] : dictionary->entries)
    found.push_back(call.op() == "keys" ? key : call.op() == "values" ? value : tuple_of({key, value}));
  call.give(list_of(std::move(found)));
}

void range(Call& call) {
  const int64_t start = call.has("start") ? call.integer("start") : 0, end = call.integer("end");
  std::vector<Item> found;
  for (int64_t i = start; i < end; ++i) found.emplace_back(Dim(i));
  call.give(list_of(std::move(found)));
}

// --- properties of tensors

/// Returns a value with the type and shape of the tensor. Does not count as a read of its memory.
ValueId shaped(Call& call, size_t argument) {
  const auto* const tensor = call.item(argument).get<TensorRef>();
  return tensor ? (*tensor)->now() : call.tensor(call.item(argument), "self");
}

void size(Call& call) {
  const ir::Shape* const shape = call.shape(shaped(call, 0));
  if (!shape) return;
  if (call.has("dim")) {
    const int64_t axis = call.axis(call.integer("dim"), static_cast<int64_t>(shape->size()));
    if (call.good()) call.give((*shape)[static_cast<size_t>(axis)]);
    return;
  }
  std::vector<Item> sizes;
  for (const Dim& each : *shape) sizes.emplace_back(each);
  call.give(list_of(std::move(sizes)));
}

void dim(Call& call) { call.give(Dim(call.rank(shaped(call, 0)))); }

void numel(Call& call) {
  if (const ir::Shape* const shape = call.shape(shaped(call, 0))) call.give(ir::element_count(*shape));
}

void dtype_of(Call& call) { call.give(Dim(ir::torch_number(call.dtype(shaped(call, 0))))); }
void device_of(Call& call) { call.give(Device{}); }
void zero(Call& call) { call.give(Dim(0)); }
void no(Call& call) { call.give(false); }
void yes(Call& call) { call.give(true); }
void nothing(Call& call) { call.give(Item()); }
void no_result(Call&) {}
void same_item(Call& call) { call.give(Item(call.item(size_t{0}))); }
void is_float(Call& call) { call.give(ir::is_float(call.dtype(shaped(call, 0)))); }

void tuple_index(Call& call) {
  if (const Sequence* const found = list(call, 0)) {
    if (const auto at = place(call, call.item(1), found->elements.size())) call.give(found->elements[*at]);
  }
}

void unmade_check(Call& call) {
  if (!call.item(size_t{0}).get<bool>())
    call.remark("assertions of the program that depend on runtime values are not checked");
}

/// Messages of assertions, mostly, which are not used.
void message(Call& call) { call.give(Undecided{"a formatted text"}); }

void text(Call& call) {
  const Item& of = call.item(size_t{0});
  if (of.get<std::string>()) return call.give(of);
  if (const bool* const known = of.get<bool>()) return call.give(std::string(*known ? "True" : "False"));
  if (const Dim* const number = of.get<Dim>(); number && number->is_constant())
    return call.give(std::to_string(number->constant()));
  call.give(Undecided{"the text of " + describe(of)});
}

void raised(Call& call) {
  const auto* message = call.item(size_t{0}).get<std::string>();
  call.fail(
      fmt::format("the program raises an exception for these inputs{}", message ? ": " + *message : std::string()));
}

template <bool larger>
void extreme(Call& call) {
  std::vector<Item> given;
  if (const Sequence* const found = call.item(size_t{0}).sequence()) {
    given = found->elements;
  } else {
    given = {call.item(size_t{0}), call.item(1)};
  }
  if (given.empty()) return unexpected(call, "numbers");
  Item best = given[0];
  for (size_t i = 1; i < given.size(); ++i) {
    if (is_integer(best) && is_integer(given[i])) {
      best = Item(larger ? max(integer(best), integer(given[i])) : min(integer(best), integer(given[i])));
      continue;
    }
    const auto a = plain(best), b = plain(given[i]);
    if (!a || !b) return unexpected(call, "numbers");
    best = Item(larger ? std::max(*a, *b) : std::min(*a, *b));
  }
  call.give(best);
}

template <double (*f)(double)>
void function(Call& call) {
  const auto x = plain(call.item(size_t{0}));
  if (!x) return unexpected(call, "a number that is known");
  call.give(f(*x));
}

void square_root(Call& call) {
  const auto* const x = call.item(size_t{0}).get<Ratio>();
  const auto* const size = call.item(size_t{0}).get<Dim>();
  const bool is_whole = x != nullptr && x->below == Dim(1) && x->exact;
  const auto made = size && !size->is_constant() ? root(*size) : is_whole ? root(x->above) : std::nullopt;
  if (made) return call.give(Item(Ratio{*made}));
  function<std::sqrt>(call);
}

template <double (*f)(double), std::optional<Dim> (*of_sizes)(const Ratio&)>
void to_whole(Call& call) {
  const Item& given = call.item(size_t{0});
  if (given.get<Dim>()) return call.give(given);
  if (const auto* of = given.get<Ratio>()) return give_rounded(call, of_sizes(*of));
  const auto x = plain(given);
  if (!x) return unexpected(call, "a number that is known");
  give_whole(call, f(*x));
}

void to_nearest(Call& call) {
  const Item& given = call.item(size_t{0});
  if (given.get<Dim>()) return call.give(given);
  const auto* const of = given.get<Ratio>();
  const auto made = of ? rounded(*of) : std::nullopt;
  if (made) return call.give(Item(Ratio{*made}));
  function<std::nearbyint>(call);
}

/// Whether a power of integers is a float, as in TorchScript but not in exported programs.
bool gives_float(const Call& call) { return call.schema().ends_with("float") || call.schema().ends_with(".int"); }

void power_of_size(Call& call, const Dim& size, double exponent) {
  constexpr int kMost = 8;
  if (exponent == 0.5) {
    if (const auto made = root(size)) return call.give(Item(Ratio{*made}));
  }
  if (exponent < 0 || exponent > kMost || exponent != std::floor(exponent))
    return unexpected(call, "a power that follows from sizes");
  Dim made = 1;
  for (int i = 0; i < static_cast<int>(exponent); ++i) made = made * size;
  gives_float(call) ? call.give(Item(Ratio{made})) : call.give(made);
}

std::optional<int64_t> power_of(int64_t base, int64_t exponent) {
  int64_t made = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1 && __builtin_mul_overflow(made, base, &made)) return std::nullopt;
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return std::nullopt;
  }
  return made;
}

void power(Call& call) {
  const Item &a = call.item(size_t{0}), &b = call.item(1);
  const auto x = plain(a), y = plain(b);
  if (!x && y && is_integer(a)) return power_of_size(call, integer(a), *y);
  if (!x || !y) return unexpected(call, "plain numbers");
  if (gives_float(call) || !a.get<Dim>() || !b.get<Dim>() || *y < 0) return call.give(std::pow(*x, *y));
  const auto made = power_of(a.get<Dim>()->constant(), b.get<Dim>()->constant());
  made ? call.give(Dim(*made)) : too_large(call);
}

}  // namespace

std::span<const Translator> number_translators() {
  static constexpr Translator kTable[] = {
      {"add.int", arithmetic<plus, plus_number>},
      {"add.float", arithmetic<plus, plus_number>},
      {"add.int_float", arithmetic<plus, plus_number>},
      {"add.float_int", arithmetic<plus, plus_number>},
      {"add", arithmetic<plus, plus_number>},
      {"add.t", joined},
      {"sub.int", arithmetic<minus, minus_number>},
      {"sub.float", arithmetic<minus, minus_number>},
      {"sub.int_float", arithmetic<minus, minus_number>},
      {"sub.float_int", arithmetic<minus, minus_number>},
      {"sub", arithmetic<minus, minus_number>},
      {"mul.int", arithmetic<times, times_number>},
      {"mul.float", arithmetic<times, times_number>},
      {"mul.int_float", arithmetic<times, times_number>},
      {"mul.float_int", arithmetic<times, times_number>},
      {"mul", arithmetic<times, times_number>},
      {"mul.left_t", repeated},
      {"floordiv", divided<arithmetic<floored, floored_number>>},
      {"remainder.int", divided<arithmetic<remainder, remainder_number>>},
      {"remainder.float", divided<arithmetic<remainder, remainder_number>>},
      {"remainder", divided<arithmetic<remainder, remainder_number>>},
      {"div.int", true_division},
      {"div.float", true_division},
      {"div", true_division},
      {"truediv", true_division},
      {"neg.int", negative_number},
      {"neg.float", negative_number},
      {"neg.Scalar", negative_number},
      {"pow.int", power},
      {"pow.float", power},
      {"pow.int_float", power},
      {"pow.float_int", power},
      {"pow.int_to_int", power},
      {"eq", compared<Order::kEq>},
      {"ne", compared<Order::kNe>},
      {"lt", compared<Order::kLt>},
      {"le", compared<Order::kLe>},
      {"gt", compared<Order::kGt>},
      {"ge", compared<Order::kGe>},
      {"__is__", same},
      {"__isnot__", other},
      {"__not__", negated},
      {"__and__.bool", both<true>},
      {"__or__.bool", both<false>},
      {"NumToTensor", to_tensor},
      {"Int", to_integer},
      {"Float", to_number},
      {"Bool", to_truth},
      {"IntImplicit", to_integer},
      {"FloatImplicit", to_number},
      {"ScalarImplicit", to_scalar},
      {"ImplicitTensorToNum", to_scalar},
      {"item", to_scalar},
      {"len", length},
      {"__getitem__", get_item},
      {"_set_item", set_item},
      {"append", append},
      {"extend", extend},
      {"pop", pop},
      {"insert.t", insert},
      {"list", copied},
      {"copy.t", copied},
      {"slice.t", sliced},
      {"__contains__", contains},
      {"keys", keys},
      {"values", keys},
      {"items", keys},
      {"__range_length", range},
      {"size", size},
      {"sym_size", size},
      {"dim", dim},
      {"numel", numel},
      {"sym_numel", numel},
      {"prim::dtype", dtype_of},
      {"prim::device", device_of},
      {"prim::layout", zero},
      {"prim::is_cuda", no},
      {"prim::is_mkldnn", no},
      {"prim::is_quantized", no},
      {"prim::is_nested", no},
      {"prim::requires_grad", yes},
      {"prim::NumToTensor", to_tensor},
      {"prim::ImplicitTensorToNum", to_scalar},
      {"prim::TupleIndex", tuple_index},
      {"prim::TupleSlice", sliced},
      {"prim::unchecked_cast", same_item},
      {"prim::unchecked_unwrap_optional", same_item},
      {"_unwrap_optional", same_item},
      {"prim::data", same_item},
      {"prim::min", extreme<false>},
      {"prim::max", extreme<true>},
      {"prim::RaiseException", raised},
      {"prim::Print", no_result},
      {"prim::type", nothing},
      {"warn", no_result},
      {"_assert_tensor_metadata", no_result},
      {"_assert_scalar", unmade_check},
      {"_assert_async", unmade_check},
      {"sym_constrain_range", no_result},
      {"sym_constrain_range_for_size", no_result},
      {"format", message},
      {"percentFormat", message},
      {"str", text},
      {"is_floating_point", is_float},
      {"sqrt.int", square_root},
      {"sqrt.float", square_root},
      {"log.int", function<std::log>},
      {"log.float", function<std::log>},
      {"ceil.float", to_whole<std::ceil, rounded_up>},
      {"floor.float", to_whole<std::floor, rounded_down>},
      {"ceil.Scalar", to_whole<std::ceil, rounded_up>},
      {"floor.Scalar", to_whole<std::floor, rounded_down>},
      {"round.int", to_nearest},
      {"round.float", to_nearest},
      {"round.Scalar", to_nearest},
      {"ceil.int", same_item},
      {"floor.int", same_item},
      {"is_grad_enabled", yes},
  };
  return kTable;
}

}  // namespace rannc::frontend::torchscript
