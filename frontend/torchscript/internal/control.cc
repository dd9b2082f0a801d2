#include "frontend/torchscript/internal/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "frontend/torchscript/internal/call.h"

namespace rannc::frontend::torchscript {

namespace {

Call writer(const Site& site, Region& region, std::string_view what) {
  return {region.graph, site.where, std::string(what), site.stem, {}, site.notes};
}

/// Collects the tensors of items in order.
void collect(const Item& item, std::vector<Item>& into) {
  if (const Sequence* const list = item.sequence()) {
    for (const Item& each : list->elements) collect(each, into);
  } else if (const auto* const complex = item.get<Complex>()) {
    into.emplace_back(complex->parts);
  } else if (item.get<TensorRef>() || item.is_of_data()) {
    into.push_back(item);
  }
}

std::vector<Item> tensors_of(const std::vector<Item>& items) {
  std::vector<Item> found;
  for (const Item& each : items) collect(each, found);
  return found;
}

bool are_alike(const Item& a, const Item& b) {
  const Sequence *const list = a.sequence(), *const other = b.sequence();
  if (list != nullptr && other != nullptr) {
    return std::equal(list->elements.begin(), list->elements.end(), other->elements.begin(), other->elements.end(),
                      are_alike);
  }
  const auto is_tensor = [](const Item& item) { return item.get<TensorRef>() || item.is_of_data(); };
  if (a.get<Complex>() || b.get<Complex>()) return a.get<Complex>() && b.get<Complex>();
  return is_tensor(a) ? is_tensor(b) : is_same_plain(a, b);
}

/// Returns the item with its tensors replaced by those from `next` on.
Item with(const Item& item, std::vector<Item>::const_iterator& next) {
  if (item.get<Complex>()) return Complex{*(next++)->get<TensorRef>()};
  if (item.get<TensorRef>() || item.is_of_data()) {
    const Item made = *next++;
    return item.is_of_data() ? of_data(*made.get<TensorRef>(), describe(item)) : made;
  }
  const Sequence* const list = item.sequence();
  if (list == nullptr) return item;
  std::vector<Item> elements;
  for (const Item& each : list->elements) elements.push_back(with(each, next));
  return list->is_tuple ? tuple_of(std::move(elements)) : list_of(std::move(elements));
}

bool is_number(const Item& item) { return item.get<bool>() || item.get<ir::Dim>() || item.get<double>(); }

/// Converts a number to a data-dependent one. Other items are unchanged.
Item as_data(Call& call, const Item& item) {
  if (!is_number(item)) return item;
  const auto* const number = item.get<double>();
  const ValueId value = number ? call.scalar(*number, ir::DType::kF64) : call.tensor(item, "number");
  return call.good() ? of_data(std::make_shared<Tensor>(value), describe(item)) : item;
}

/// Converts corresponding results of two bodies to data of one type, if they are different numbers or one is data.
void unite(Call& in_a, Item& a, Call& in_b, Item& b) {
  const Sequence *const list = a.sequence(), *const other = b.sequence();
  if (list != nullptr && other != nullptr && list->elements.size() == other->elements.size()) {
    std::vector<Item> of_a = list->elements, of_b = other->elements;
    for (size_t i = 0; i < of_a.size(); ++i) unite(in_a, of_a[i], in_b, of_b[i]);
    const bool is_tuple = list->is_tuple;
    a = is_tuple ? tuple_of(std::move(of_a)) : list_of(std::move(of_a));
    b = is_tuple ? tuple_of(std::move(of_b)) : list_of(std::move(of_b));
    return;
  }
  const bool differ = is_number(a) && is_number(b) && a.kind.index() == b.kind.index() && !is_same_plain(a, b);
  if (!differ && !a.is_of_data() && !b.is_of_data()) return;
  a = as_data(in_a, a);
  b = as_data(in_b, b);
  if (!a.is_of_data() || !b.is_of_data()) return;
  const auto dtype = [](Call& call, const Item& item) { return call.dtype(item.get<Undecided>()->of->now()); };
  const ir::DType one = dtype(in_a, a), two = dtype(in_b, b);
  if (one == two || !ir::is_float(one) || !ir::is_float(two)) return;
  const auto widen = [](Call& call, Item& item) {
    const ValueId wide = call.cast(call.tensor(item, "number"), ir::DType::kF64);
    if (call.good()) item = of_data(std::make_shared<Tensor>(wide), describe(item));
  };
  widen(in_a, a);
  widen(in_b, b);
}

/// Returns the values of a body's results. Forwarded values get an identity, so that the body produces all of them.
Result<std::vector<ValueId>> results(const Site& site, Region& inside, const std::vector<Item>& tensors) {
  Call call = writer(site, inside, "result");
  std::vector<ValueId> values;
  for (const Item& tensor : tensors) {
    const ValueId value = call.tensor(tensor, "result");
    const bool is_made = call.good() && inside.graph.producer(value).valid();
    values.push_back(is_made ? value : call.emit("identity", {value}));
  }
  if (call.failure()) return *call.failure();
  return values;
}

ir::ValueType scalar_type(ir::DType dtype) {
  ir::ValueType type;
  type.dtype = dtype;
  type.shape.emplace();
  return type;
}

/// Converts a condition to a boolean of rank 0.
ValueId truth(Call& call, const Item& condition) {
  const ValueId value = call.cast(call.tensor(condition, "condition"), ir::DType::kBool);
  return call.good() && call.rank(value) > 0 ? call.emit("reshape", {value}, {{"shape", ir::Shape{}}}) : value;
}

}  // namespace

Result<Item> taken(const Site& site, Region& inside, const Item& item) {
  if (const auto* const complex = item.get<Complex>()) {
    RANNC_ASSIGN(const Item parts, taken(site, inside, Item(complex->parts)));
    return Item(Complex{*parts.get<TensorRef>()});
  }
  if (item.get<TensorRef>() || item.is_of_data()) {
    Call call = writer(site, *inside.around, "branch");
    const ValueId outside = call.tensor(item, "value");
    if (call.failure()) return *call.failure();
    auto made = std::make_shared<Tensor>(inside.take(outside));
    made->forbid_writes("it writes, in a data-dependent branch or loop, into a tensor outside of it");
    return item.is_of_data() ? of_data(std::move(made), describe(item)) : Item(std::move(made));
  }
  if (const Sequence* const list = item.sequence()) {
    std::vector<Item> elements;
    for (const Item& each : list->elements) {
      RANNC_ASSIGN(Item element, taken(site, inside, each));
      elements.push_back(std::move(element));
    }
    return Item(std::make_shared<Sequence>(Sequence{list->is_tuple, std::move(elements), true}));
  }
  if (const Dictionary* const dictionary = item.dictionary()) {
    auto made = std::make_shared<Dictionary>(Dictionary{{}, true});
    for (const auto& [key, value] : dictionary->entries) {
      RANNC_ASSIGN(Item element, taken(site, inside, value));
      made->entries.emplace_back(key, std::move(element));
    }
    return Item(std::move(made));
  }
  return item;
}

Result<std::vector<Item>> add_branch(const Site& site, const Item& condition, const RunBranch& then,
                                     const RunBranch& otherwise) {
  OpenBody first(site.around), second(site.around);
  RANNC_ASSIGN(std::vector<Item> made, then(first.region()));
  RANNC_ASSIGN(std::vector<Item> other, otherwise(second.region()));
  Call in_first = writer(site, first.region(), "then"), in_second = writer(site, second.region(), "else");
  for (size_t i = 0; i < std::min(made.size(), other.size()); ++i) unite(in_first, made[i], in_second, other[i]);
  if (!std::equal(made.begin(), made.end(), other.begin(), other.end(), are_alike)) {
    return error(site.where,
                 "a data-dependent branch returns other lists, texts or None than the other branch: only tensors and "
                 "numbers may differ");
  }
  std::vector<ValueId> taken;
  for (const auto& [open, own] : {std::pair(&first, &made), std::pair(&second, &other)}) {
    RANNC_ASSIGN(const std::vector<ValueId> values, results(site, open->region(), tensors_of(*own)));
    RANNC_TRY(open->close(values, Runs{}, site.where, site.notes));
    for (const ValueId value : open->taken()) {
      if (std::find(taken.begin(), taken.end(), value) == taken.end()) taken.push_back(value);
    }
  }
  Call call = writer(site, site.around, "if");
  std::vector<ValueId> operands = {truth(call, condition)};
  operands.insert(operands.end(), taken.begin(), taken.end());
  const size_t outputs = tensors_of(made).size();
  if (outputs == 0) return made;
  const std::vector<ValueId> values = call.emit_all(
      "if", operands, {{"then", std::move(first).body(taken)}, {"else", std::move(second).body(taken)}}, outputs);
  if (call.failure()) return *call.failure();
  std::vector<Item> tensors;
  for (const ValueId value : values) tensors.emplace_back(std::make_shared<Tensor>(value));
  auto next = tensors.cbegin();
  for (Item& each : made) each = with(each, next);
  return made;
}

namespace {

/// A loop's body after it was run.
struct Trip {
  std::unique_ptr<OpenBody> open;
  std::vector<Item> states;  ///< states passed to it
  Item goes_on;
  std::vector<Item> last;
};

Result<Trip> run_trip(const Site& site, const std::vector<Item>& states, const RunTrip& body) {
  Trip trip{std::make_unique<OpenBody>(site.around), {}, {}, {}};
  Call around = writer(site, site.around, "loop");
  const auto input = [&](const std::string& name, ir::ValueType type) {
    return std::make_shared<Tensor>(trip.open->add_input(name, std::move(type)));
  };
  const Item number = of_data(input("trip", scalar_type(ir::DType::kI64)), "the number of a trip");
  input("condition", scalar_type(ir::DType::kBool));
  std::vector<Item> inside;
  for (const Item& each : tensors_of(states)) {
    const ValueId state = around.tensor(each, "state");
    if (around.failure()) return *around.failure();
    inside.emplace_back(input(std::string(around.name(state)), site.around.graph.type(state)));
  }
  auto next = inside.cbegin();
  for (const Item& each : states) trip.states.push_back(with(each, next));
  RANNC_ASSIGN(auto made, body(trip.open->region(), number, trip.states));
  trip.goes_on = std::move(made.first);
  trip.last = std::move(made.second);
  return trip;
}

/// Converts numbers that the body changes between trips to data. Returns whether there were any.
bool loosen(Call& call, std::vector<Item>& states, const Trip& trip) {
  bool found = false;
  for (size_t i = 0; i < std::min(states.size(), trip.last.size()); ++i) {
    const Item &before = trip.states[i], &after = trip.last[i];
    const bool changes =
        is_number(states[i]) && (after.is_of_data() || (is_number(after) && !is_same_plain(before, after)));
    if (changes) states[i] = as_data(call, states[i]);
    found |= changes;
  }
  return found;
}

}  // namespace

Result<std::vector<Item>> add_loop(const Site& site, const Loop& loop, const RunTrip& body) {
  const std::string& batch = site.around.graph.batch_symbol();
  if (loop.trips && !batch.empty() && loop.trips->uses(batch)) {
    return error(site.where, fmt::format("a loop makes {} trips, one per sample of a micro-batch, but samples must be "
                                         "computed in parallel, for any batch size",
                                         loop.trips->str()));
  }
  if (!loop.trips && !site.max_trips) {
    return error(site.where, "a loop has a data-dependent trip count; specify its maximum with --max-trips");
  }
  Call call = writer(site, site.around, "loop");
  std::vector<Item> states = loop.states;
  RANNC_ASSIGN(Trip trip, run_trip(site, states, body));
  // A changing number may make others change.
  while (loosen(call, states, trip)) {
    RANNC_ASSIGN(trip, run_trip(site, states, body));
  }
  OpenBody& open = *trip.open;
  if (!std::equal(trip.states.begin(), trip.states.end(), trip.last.begin(), trip.last.end(), are_alike)) {
    return error(
        site.where,
        "a loop that is not unrolled changes lists, texts or None between trips: only tensors and numbers may change");
  }
  const bool starts = loop.condition.is_none() || is_same_plain(loop.condition, Item(true));
  const bool has_condition = !starts || !is_same_plain(trip.goes_on, Item(true));
  RANNC_ASSIGN(std::vector<ValueId> values, results(site, open.region(), tensors_of(trip.last)));
  if (has_condition) {
    Call within = writer(site, open.region(), "condition");
    values.insert(values.begin(), truth(within, trip.goes_on));
    if (within.failure()) return *within.failure();
  }
  RANNC_TRY(open.close(values, Runs{true, loop.trips}, site.where, site.notes));
  const std::vector<ValueId> random = open.random(), captured = open.taken();
  const std::vector<Item> tensors = tensors_of(states);
  if (tensors.empty()) return states;  // the loop has no effect
  ir::Attributes attributes = {{"states", ir::Dim(static_cast<int64_t>(tensors.size()))},
                               {"scanned", ir::Dim(static_cast<int64_t>(random.size()))}};
  loop.trips ? attributes.set("trips", *loop.trips) : attributes.set("max_trips", ir::Dim(*site.max_trips));
  const ValueId counted =
      loop.counted.is_none() ? ValueId() : call.cast(call.tensor(loop.counted, "trips"), ir::DType::kI64);
  std::vector<ValueId> operands = {counted,
                                   has_condition ? truth(call, starts ? Item(true) : loop.condition) : ValueId()};
  for (const Item& state : tensors) operands.push_back(call.tensor(state, "state"));
  operands.insert(operands.end(), random.begin(), random.end());
  operands.insert(operands.end(), captured.begin(), captured.end());
  attributes.set("body", std::move(open).body(captured));
  std::vector<Item> last;
  for (const ValueId value : call.emit_all("loop", operands, std::move(attributes), tensors.size()))
    last.emplace_back(std::make_shared<Tensor>(value));
  if (call.failure()) return *call.failure();
  auto next = last.cbegin();
  std::vector<Item> made;
  for (const Item& each : states) made.push_back(with(each, next));
  return made;
}

}  // namespace rannc::frontend::torchscript
