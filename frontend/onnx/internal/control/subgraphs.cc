// Translates operators with subgraphs: inline if the executed subgraph and trip count are known, else as one task with
// bodies.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "frontend/onnx/internal/control/bag_loop.h"
#include "frontend/onnx/internal/control/counted_trips.h"
#include "frontend/onnx/internal/control/written_out.h"
#include "frontend/onnx/internal/translate/rows.h"
#include "frontend/onnx/internal/translate/translation.h"
#include "ir/graph/constant.h"
#include "ir/op/op.h"

namespace rannc::frontend {

using ONNX_NAMESPACE::GraphProto;
using ONNX_NAMESPACE::NodeProto;
using ONNX_NAMESPACE::TensorProto;

namespace {

/// Maximum number of nodes that one loop is unrolled into. A loop with more becomes a task.
constexpr int64_t kMostUnrolled = 4096;
/// A trip count of this size or more means no limit: a condition ends the loop.
constexpr int64_t kNoLimit = std::numeric_limits<int32_t>::max();
/// Maximum number of abandoned attempts inside other bodies. Each level of nested loops doubles their number.
constexpr uint32_t kMostUndone = 64;

/// Note about the sources of loops over samples.
constexpr const char* kForEachSample =
    "; where that is a loop over samples, as EmbeddingBag is exported, look all rows up by an Embedding and reduce "
    "them over their axis instead";

const GraphProto* subgraph(const NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == name && attribute.has_g()) return &attribute.g();
  }
  return nullptr;
}

/// Returns the only element of an integer or boolean value, if it is a known number.
std::optional<int64_t> known(const ir::Graph& graph, ValueId value) {
  const auto& contents = graph.type(value).contents;
  if (contents && contents->size() == 1 && contents->front().is_constant()) return contents->front().constant();
  return std::nullopt;
}

/// Returns the name of a subgraph output before nodes that only rename it.
std::string renamed(const GraphProto& body, std::string name) {
  for (int i = body.node_size(); i-- > 0;) {
    const NodeProto& node = body.node(i);
    if (node.op_type() == "Identity" && node.output_size() == 1 && node.output(0) == name && node.input_size() == 1)
      name = node.input(0);
  }
  return name;
}

bool is_constant(const GraphProto& body, const std::string& name) {
  const auto initializes = [&](const TensorProto& tensor) { return tensor.name() == name; };
  const auto makes = [&](const NodeProto& node) {
    return node.op_type() == "Constant" && node.output_size() == 1 && node.output(0) == name;
  };
  return std::any_of(body.initializer().begin(), body.initializer().end(), initializes) ||
         std::any_of(body.node().begin(), body.node().end(), makes);
}

ir::ValueType scalar_type(ir::DType dtype) {
  ir::ValueType type;
  type.dtype = dtype;
  type.shape.emplace();
  return type;
}

ValueId number(ir::Graph& graph, const std::string& name, int64_t value, ir::DType dtype) {
  return ir::add_constant(graph, name, dtype, {}, std::span(&value, 1));
}

/// Moves axis `from` to `to`. The others keep their order.
ValueId moved(Node& view, ValueId value, int64_t from, int64_t to) {
  const ir::Shape* const shape = view.shape(value);
  if (from == to || shape == nullptr) return value;
  ir::Shape dims;
  for (int64_t i = 0; i < static_cast<int64_t>(shape->size()); ++i) {
    if (i != from) dims.emplace_back(i);
  }
  dims.insert(dims.begin() + to, ir::Dim(from));
  return view.emit("permute", {value}, {{"dims", dims}});
}

}  // namespace

/// A Loop or Scan with states and rows.
struct Translation::Cycle {
  const GraphProto* body = nullptr;
  bool counts = false;               ///< the body has trip number and condition inputs and a condition output
  std::optional<ir::Dim> trips;      ///< trip count, if it follows from sizes
  ValueId trips_value;               ///< data-dependent trip count
  std::optional<int64_t> condition;  ///< condition before the first trip, if known
  ValueId condition_value;           ///< invalid: none
  Items states;
  std::vector<ValueId> scanned;  ///< rows on axis 0
  size_t rows = 0;               ///< results that are stacked
};

Result<Translation::Items> Translation::run(const Scope& scope, Region& region, const NodeProto& node,
                                            const GraphProto& body, const Items& given, const Run& run) {
  const Place where = at(scope, node);
  if (static_cast<size_t>(body.input_size()) != given.size()) {
    return error(where, fmt::format("the subgraph of {} takes {} inputs; {} are handed to it", node.op_type(),
                                    body.input_size(), given.size()));
  }
  Scope inner(scope.opsets, region, scope.prefix + node_name(node) + "/" + run.branch + run.trip, scope.module,
              scope.depth + 1, &scope, scope.place.subgraph_of(node, run.branch));
  inner.maker = fmt::format("the {} '{}'", node.op_type(), node_name(node));
  for (int i = 0; i < body.output_size() && static_cast<size_t>(i) < run.outputs.size(); ++i) {
    const std::string& outside = run.outputs[static_cast<size_t>(i)];
    if (!outside.empty()) inner.output_names.emplace(body.output(i).name(), outside);
  }
  if (body.sparse_initializer_size() > 0) return error(where, "sparse initializers are not supported");
  for (int i = 0; i < body.input_size(); ++i) {
    RANNC_TRY(define(inner, body.input(i).name(), given[static_cast<size_t>(i)], where));
  }
  for (const TensorProto& proto : body.initializer()) RANNC_TRY(add_initializer(inner, proto));
  for (const NodeProto& part : body.node()) RANNC_TRY(add_node(inner, part));
  Items made;
  for (const auto& output : body.output()) {
    RANNC_ASSIGN(Item item, this->item(inner, output.name(), where));
    made.push_back(std::move(item));
  }
  RANNC_TRY(count(inner, where));
  return made;
}

Result<void> Translation::add_control(Scope& scope, const NodeProto& node, int opset) {
  if (node.op_type() == "If") return add_if(scope, node, opset);
  return node.op_type() == "Loop" ? add_loop(scope, node, opset) : add_scan(scope, node, opset);
}

Result<std::vector<ValueId>> Translation::tensors(const Items& items, const Place& where) const {
  std::vector<ValueId> values;
  for (const Item& item : items) {
    if (item.list || !item.value.valid()) {
      return error(
          where,
          std::string("a sequence in the body of a data-dependent branch or loop: its length would depend on data") +
              kForEachSample);
    }
    values.push_back(item.value);
  }
  return values;
}

/// Closes a body after recognizing decomposed operators in it, so that leftover tasks are removed.
Result<void> Translation::close(OpenBody& open, const std::vector<ValueId>& outputs, const Runs& runs,
                                const Location& where) {
  ir::Graph& graph = open.region().graph;
  graph.set_outputs(outputs);
  recognise_written_out(graph);
  const std::vector<ValueId> last = graph.outputs();
  return open.close(last, runs, where, notes_);
}

// --- Loop, Scan

Result<void> Translation::add_loop(Scope& scope, const NodeProto& node, int opset) {
  const Place where = at(scope, node);
  Cycle cycle{.body = subgraph(node, "body"), .counts = true};
  if (cycle.body == nullptr) return error(where, "Loop needs a body");
  const ir::Graph& graph = scope.region.graph;
  for (int i = 0; i < node.input_size(); ++i) {
    Item given;
    if (!node.input(i).empty()) {
      RANNC_ASSIGN(given, item(scope, node.input(i), where));
    }
    if (i >= 2) {
      cycle.states.push_back(std::move(given));
    } else if (given.value.valid() && i == 0) {
      const auto& contents = graph.type(given.value).contents;
      if (contents && contents->size() == 1) {
        cycle.trips = contents->front();
      } else {
        cycle.trips_value = given.value;
      }
    } else if (given.value.valid()) {
      cycle.condition_value = given.value;
      cycle.condition = known(graph, given.value);
    }
  }
  const size_t made = static_cast<size_t>(cycle.body->output_size());
  if (made < cycle.states.size() + 1) return error(where, "the body of Loop makes fewer outputs than it has states");
  cycle.rows = made - 1 - cycle.states.size();
  count_trips(scope, node, cycle);
  const bool unlimited = cycle.trips && cycle.trips->is_constant() && cycle.trips->constant() >= kNoLimit;
  if (unlimited && cycle.condition_value.valid()) cycle.trips.reset();
  RANNC_ASSIGN(std::optional<Items> bags, as_bags(scope, node, opset, cycle));
  if (bags) return define_outputs(scope, node, *std::move(bags));
  RANNC_ASSIGN(Items results, add_cycle(scope, node, opset, cycle));
  return define_outputs(scope, node, std::move(results));
}

/// Derives the trip count from a condition that only compares what the loop counts.
void Translation::count_trips(Scope& scope, const NodeProto& node, Cycle& cycle) {
  const bool within = !cycle.trips || !cycle.trips->is_constant() || cycle.trips->constant() > 0;
  if (!cycle.condition_value.valid() || cycle.condition != 1 || cycle.trips_value.valid() || !within) return;
  const auto only = [&](ValueId value) -> std::optional<ir::Dim> {
    const auto& contents = scope.region.graph.type(value).contents;
    return contents && contents->size() == 1 ? std::optional(contents->front()) : std::nullopt;
  };
  CountingLoop loop{*cycle.body, {}, {}, {}};
  for (const Item& state : cycle.states) loop.states.push_back(state.value.valid() ? only(state.value) : std::nullopt);
  loop.stored = [&](const TensorProto& proto) -> std::optional<ir::Dim> {
    const auto tensor = read_tensor(proto, file_, external_, at(scope, node));
    if (!tensor.ok() || !tensor->type.contents || tensor->type.contents->size() != 1) return std::nullopt;
    return tensor->type.contents->front();
  };
  loop.around = [&](const std::string& name) -> std::optional<ir::Dim> {
    const auto found = item(scope, name, at(scope, node));
    return found.ok() && found->value.valid() ? only(found->value) : std::nullopt;
  };
  const auto counted = counted_trips(loop);
  if (!counted) return;
  const bool fewer = cycle.trips && (!cycle.trips->is_constant() || cycle.trips->constant() < kNoLimit);
  cycle.trips = fewer && !(*cycle.trips == *counted) ? min(*cycle.trips, *counted) : *counted;
  cycle.condition_value = {};
}

namespace {

/// Number of operands that are not scanned. Negative for an invalid file.
int64_t left_of(int64_t operands, int64_t scanned) {
  return scanned < 0 || scanned > operands ? -1 : operands - scanned;
}

}  // namespace

Result<void> Translation::add_scan(Scope& scope, const NodeProto& node, int opset) {
  const Place where = at(scope, node);
  if (opset < 9) return add_scan_of_samples(scope, node, opset);
  Cycle cycle{.body = subgraph(node, "body")};
  RANNC_ASSIGN(Node::Wiring wiring, wire(scope, node));
  Node view(scope.region.graph, node, opset, where, wiring, source_);
  const int64_t scanned = view.integer("num_scan_inputs", 0), states = left_of(node.input_size(), scanned);
  if (cycle.body == nullptr || scanned < 1 || states < 0 || cycle.body->output_size() < states) {
    return error(where, fmt::format("Scan of {} operands cannot scan {} of them", node.input_size(), scanned));
  }
  cycle.rows = static_cast<size_t>(cycle.body->output_size() - states);
  const auto of = [&](const char* name, int64_t i) {
    const std::vector<int64_t> all = view.integers(name);
    return i < static_cast<int64_t>(all.size()) ? all[static_cast<size_t>(i)] : 0;
  };
  for (int64_t i = 0; i < node.input_size() && view.good(); ++i) {
    const ValueId value = view.in(static_cast<size_t>(i));
    if (i < states) {
      cycle.states.push_back({value, {}});
      continue;
    }
    const ir::Shape* const shape = view.shape(value);
    if (shape == nullptr) break;
    const int64_t axis = view.axis(of("scan_input_axes", i - states), static_cast<int64_t>(shape->size()));
    const ValueId rows = moved(view, value, axis, 0);
    cycle.scanned.push_back(of("scan_input_directions", i - states) != 0 ? flipped(view, rows) : rows);
  }
  if (view.failure()) return Diagnostic(*view.failure());
  cycle.trips = scope.region.graph.type(cycle.scanned[0]).shape->front();
  RANNC_ASSIGN(Items results, add_cycle(scope, node, opset, cycle));
  for (size_t i = static_cast<size_t>(states); i < results.size() && view.good(); ++i) {
    if (!view.wants(i)) continue;
    const auto k = static_cast<int64_t>(i) - states;
    const ir::Shape* const shape = view.shape(results[i].value);
    if (shape == nullptr) break;
    const int64_t axis = view.axis(of("scan_output_axes", k), static_cast<int64_t>(shape->size()));
    const ValueId rows = of("scan_output_directions", k) != 0 ? flipped(view, results[i].value) : results[i].value;
    results[i].value = moved(view, rows, 0, axis);
  }
  if (view.failure()) return Diagnostic(*view.failure());
  return define_outputs(scope, node, std::move(results));
}

/// In operator set 8, axis 0 counts samples, and the body runs separately for each sample.
Result<void> Translation::add_scan_of_samples(Scope& scope, const NodeProto& node, int opset) {
  const Place where = at(scope, node);
  const GraphProto* const body = subgraph(node, "body");
  RANNC_ASSIGN(Node::Wiring wiring, wire(scope, node));
  Node view(scope.region.graph, node, opset, where, wiring, source_);
  const int64_t scanned = view.integer("num_scan_inputs", 0), states = left_of(node.input_size() - 1, scanned);
  if (body == nullptr || scanned < 1 || states < 0 || body->output_size() < states) {
    return error(where, fmt::format("Scan of {} operands cannot scan {} of them", node.input_size() - 1, scanned));
  }
  if (view.has(0)) return error(where, "Scan of samples with different lengths is not supported");
  const ir::Shape* const shape = view.shape(view.in(1));
  if (shape == nullptr) return Diagnostic(*view.failure());
  if (shape->empty() || !shape->front().is_constant()) {
    return error(where, fmt::format("Scan of operator set 8 runs its body sample by sample, of {}: this is supported "
                                    "only if their number is known; convert the model to operator set 9 or newer",
                                    ir::str(*shape)));
  }
  const int64_t samples = shape->front().constant();
  const std::vector<int64_t> directions = view.integers("directions");
  std::vector<std::vector<ValueId>> parts(static_cast<size_t>(body->output_size()));
  for (int64_t sample = 0; sample < samples; ++sample) {
    Cycle cycle{.body = body};
    cycle.rows = parts.size() - static_cast<size_t>(states);
    for (int64_t i = 0; i < states + scanned; ++i) {
      const ValueId own = row_of(view, view.in(static_cast<size_t>(i) + 1), sample);
      const auto k = static_cast<size_t>(std::max<int64_t>(i - states, 0));
      if (i < states) {
        cycle.states.push_back({own, {}});
      } else {
        cycle.scanned.push_back(k < directions.size() && directions[k] != 0 ? flipped(view, own) : own);
      }
    }
    const ir::Shape* const rows = view.good() ? view.shape(cycle.scanned[0]) : nullptr;
    if (rows != nullptr && !rows->empty()) cycle.trips = rows->front();
    if (!cycle.trips) return view.failure() ? Diagnostic(*view.failure()) : error(where, "Scan of single numbers");
    RANNC_ASSIGN(const Items made, add_cycle(scope, node, opset, cycle));
    for (size_t i = 0; i < parts.size(); ++i) parts[i].push_back(made[i].value);
  }
  Items results(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    if (view.wants(i)) results[i].value = stacked(view, parts[i]);
  }
  if (view.failure()) return Diagnostic(*view.failure());
  return define_outputs(scope, node, std::move(results));
}

namespace {

/// Emits the reduction of all bags at once. For a maximum the gradient goes to the first of equal elements, as in an
/// embedding bag.
ValueId reduced(Node& view, const ReducedBags& found) {
  ir::Shape shape = {found.bags.count, found.bags.size};
  ValueId rows;
  if (found.rows.valid()) {
    const ir::Shape* const flat = view.shape(found.rows);
    if (flat == nullptr) return {};
    shape.insert(shape.end(), flat->begin() + 1, flat->end());
    rows = view.emit("reshape", {found.rows}, {{"shape", shape}});
  } else {
    rows = view.emit("gather", {found.table, by_bag(view, found.indices, found.bags)}, {{"axis", ir::Dim(0)}});
  }
  if (found.weights.valid()) {
    const ValueId weights = by_bag(view, found.weights, found.bags);
    rows = view.emit("mul", {rows, view.emit("unsqueeze", {weights}, {{"axes", ir::Shape{2}}})});
  }
  const ir::Attributes over = {{"axes", ir::Shape{1}}, {"keepdim", false}};
  if (found.reduction != "ReduceMax") return view.emit(found.reduction == "ReduceSum" ? "sum" : "mean", {rows}, over);
  const auto made = view.emit_all("topk", {rows}, {{"k", ir::Dim(1)}, {"axis", ir::Dim(1)}, {"largest", true}}, 2);
  return view.good() ? view.emit("squeeze", {made[0]}, {{"axes", ir::Shape{1}}}) : ValueId();
}

bool is_empty_sequence(const std::optional<List>& list) { return list && !list->absent && list->elements.empty(); }

}  // namespace

Result<std::optional<Translation::Items>> Translation::as_bags(Scope& scope, const NodeProto& node, int opset,
                                                               const Cycle& cycle) {
  const Place where = at(scope, node);
  const bool stacks = cycle.states.empty();
  const int sequence = stacks || !cycle.states[0].list ? static_cast<int>(!stacks) : 0;
  const bool counts = cycle.states.size() == 2 && is_empty_sequence(cycle.states[static_cast<size_t>(sequence)].list) &&
                      cycle.states[static_cast<size_t>(1 - sequence)].value.valid() &&
                      known(scope.region.graph, cycle.states[static_cast<size_t>(1 - sequence)].value) == 0;
  const bool starts = !cycle.condition_value.valid() || cycle.condition == 1;
  if (!cycle.trips || !starts || (!stacks && !counts)) return std::optional<Items>();
  RANNC_ASSIGN(Node::Wiring wiring, wire(scope, node));
  Node view(scope.region.graph, node, opset, where, std::move(wiring), source_);
  const auto around = [&](const std::string& name) {
    const auto found = item(scope, name, where);
    return found.ok() && !found->list ? found->value : ValueId();
  };
  const auto stored = [&](const TensorProto& proto) {
    const auto tensor = read_tensor(proto, file_, external_, where);
    return tensor.ok() ? tensor->type.contents : std::nullopt;
  };
  const auto found = reduced_bags(
      {*cycle.body, *cycle.trips, cycle.condition_value.valid(), stacks ? -1 : sequence, view, around, stored});
  if (!found) return std::optional<Items>();
  const ValueId rows = reduced(view, *found);
  if (view.failure()) return Diagnostic(*view.failure());
  if (!found->in_sequence) return std::optional(Items{{rows, {}}});
  const ValueId count =
      view.emit("full", {}, {{"shape", ir::Shape{}}, {"value", *cycle.trips}, {"dtype", ir::DType::kI64}});
  Items made = {{count, {}}, {count, {}}};
  made[static_cast<size_t>(sequence)] = {{}, List{.elements = {rows}, .joined = true}};
  return std::optional(std::move(made));
}

Result<Translation::Items> Translation::add_cycle(Scope& scope, const NodeProto& node, int opset, const Cycle& cycle) {
  const bool counted = cycle.trips && cycle.trips->is_constant();
  const bool starts = cycle.condition || !cycle.condition_value.valid();
  const int64_t most = kMostUnrolled / std::max(1, cycle.body->node_size());
  const bool few = counted && cycle.trips->constant() <= most;
  const bool endless = !cycle.trips && !cycle.trips_value.valid();
  if (starts && (few || ((endless || counted) && cycle.condition_value.valid()))) {
    RANNC_ASSIGN(std::optional<Items> made, unrolled(scope, node, opset, cycle, few ? cycle.trips->constant() : most));
    if (made) return *std::move(made);
  }
  return as_task(scope, node, opset, cycle);
}

/// Emits all trips in sequence. Returns nothing, and restores the graph, if a data-dependent condition could end the
/// loop or there are more than `most` trips.
Result<std::optional<Translation::Items>> Translation::unrolled(Scope& scope, const NodeProto& node, int opset,
                                                                const Cycle& cycle, int64_t most) {
  const Place where = at(scope, node);
  Region& region = scope.region;
  const bool has_condition = cycle.condition_value.valid();
  const std::string end = cycle.counts ? renamed(*cycle.body, cycle.body->output(0).name()) : "";
  const bool handed_on = cycle.body->input_size() > 1 && end == cycle.body->input(1).name();
  const bool stays = !has_condition || is_constant(*cycle.body, end) || handed_on;
  const bool few = cycle.trips && cycle.trips->constant() <= most;  // `most` trips then, at most
  const bool certain = stays && few;
  if (stays && !few) return std::optional<Items>();
  if (!certain && (undone_ >= kMostUndone || !growth_.allows(Growth::bytes_of_copy(region.graph)))) {
    return std::optional<Items>();
  }
  std::optional<Attempt> attempt;
  if (!certain) attempt = begin_attempt(region);
  const auto undone = [&] {
    RANNC_CHECK(!certain) << "trips whose number is known came to another end";
    undo(*attempt, region);
    undone_ += scope.depth > 0 ? 1 : 0;
    return std::optional<Items>();
  };
  RANNC_ASSIGN(Node::Wiring wiring, wire(scope, node));
  wiring.output_names.resize(cycle.states.size() + cycle.rows);
  Node view(region.graph, node, opset, where, wiring, source_);
  Items states = cycle.states;
  std::vector<std::vector<ValueId>> rows(cycle.rows);
  int64_t holds = cycle.condition.value_or(1), trip = 0;
  ValueId condition = cycle.condition_value;
  for (; holds != 0 && trip < most; ++trip) {
    const std::string name = fmt::format("{}/", trip);
    Items given;
    if (cycle.counts) {
      given.push_back({number(region.graph, node_name(node) + ".trip", trip, ir::DType::kI64), {}});
      if (!condition.valid()) condition = number(region.graph, node_name(node) + ".condition", 1, ir::DType::kBool);
      given.push_back({condition, {}});
    }
    given.insert(given.end(), states.begin(), states.end());
    for (const ValueId scanned : cycle.scanned) given.push_back({row_of(view, scanned, trip), {}});
    if (view.failure()) return Diagnostic(*view.failure());
    RANNC_ASSIGN(Items made, run(scope, region, node, *cycle.body, given, {"", name}));
    auto next = made.begin();
    if (cycle.counts) {
      RANNC_ASSIGN(const std::vector<ValueId> ends, tensors({*next++}, where));
      condition = ends.front();
    }
    for (Item& state : states) state = std::move(*next++);
    RANNC_ASSIGN(const std::vector<ValueId> own, tensors({next, made.end()}, where));
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(own[i]);
    if (!has_condition) continue;
    const auto known_to_hold = known(region.graph, condition);
    if (!known_to_hold) return undone();
    holds = *known_to_hold;
  }
  const bool all = holds == 0 || (few && trip == cycle.trips->constant());
  if (!all) return undone();
  if (attempt) keep(*attempt);
  Items results = std::move(states);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t output = results.size();
    ValueId value;
    if (output < static_cast<size_t>(node.output_size()) && view.wants(output)) {
      if (trip == 0) view.fail(node.op_type() + " makes no trips, so the size of its stacked results is unknown");
      if (view.good()) value = stacked(view, rows[i]);
    }
    results.push_back({value, {}});
  }
  if (view.failure()) return Diagnostic(*view.failure());
  return std::optional(std::move(results));
}

/// One task with the subgraph as its body.
Result<Translation::Items> Translation::as_task(Scope& scope, const NodeProto& node, int opset, const Cycle& cycle) {
  const Place where = at(scope, node);
  ir::Graph& graph = scope.region.graph;
  if (cycle.trips && !graph.batch_symbol().empty() && cycle.trips->uses(graph.batch_symbol())) {
    return error(where, fmt::format("{} makes {} trips, one per sample of a micro-batch, but samples must be computed "
                                    "in parallel, for any batch size{}",
                                    node.op_type(), cycle.trips->str(), kForEachSample));
  }
  RANNC_ASSIGN(std::vector<ValueId> states, tensors(cycle.states, where));
  OpenBody open(scope.region);
  const ValueId counter = open.add_input("trip", scalar_type(ir::DType::kI64));
  const ValueId condition = open.add_input("condition", scalar_type(ir::DType::kBool));
  Items given;
  if (cycle.counts) given = {{counter, {}}, {condition, {}}};
  const auto hand = [&](ValueId value, size_t index, bool is_row) {
    ir::ValueType type = graph.type(value);
    if (is_row && type.shape && !type.shape->empty()) {
      type.shape->erase(type.shape->begin());
      if (type.batch.has_batch()) --type.batch.axis;
    }
    const int formal = static_cast<int>(index + (cycle.counts ? 2 : 0));
    const std::string name = formal < cycle.body->input_size() ? cycle.body->input(formal).name() : "state";
    given.push_back({open.add_input(name, std::move(type)), {}});
  };
  for (size_t i = 0; i < states.size(); ++i) hand(states[i], i, false);
  for (size_t i = 0; i < cycle.scanned.size(); ++i) hand(cycle.scanned[i], states.size() + i, true);
  RANNC_ASSIGN(const Items made, run(scope, open.region(), node, *cycle.body, given, {}));
  RANNC_ASSIGN(std::vector<ValueId> outputs, tensors(made, where));
  bool has_condition = cycle.condition_value.valid();
  if (cycle.counts) {
    const ir::Graph& inside = open.region().graph;
    const std::string end = renamed(*cycle.body, cycle.body->output(0).name());
    const bool stays = end == cycle.body->input(1).name() || known(inside, outputs[0]) == 1;
    if (stays && cycle.condition == 1) has_condition = false;
    if (!has_condition) outputs.erase(outputs.begin());
  }
  RANNC_TRY(close(open, outputs, Runs{true, cycle.trips}, where));

  RANNC_ASSIGN(Node::Wiring wiring, wire(scope, node));
  wiring.output_names.resize(states.size() + cycle.rows);
  Node view(graph, node, opset, where, std::move(wiring), source_);
  std::vector<ValueId> rows = cycle.scanned;
  rows.insert(rows.end(), open.random().begin(), open.random().end());
  ir::Attributes attributes = {{"states", ir::Dim(static_cast<int64_t>(states.size()))},
                               {"scanned", ir::Dim(static_cast<int64_t>(rows.size()))}};
  if (cycle.trips) {
    attributes.set("trips", *cycle.trips);
  } else if (options_.max_trips) {
    attributes.set("max_trips", ir::Dim(*options_.max_trips));
  } else {
    return error(where, node.op_type() + " has a data-dependent trip count; specify its maximum with --max-trips");
  }
  const auto as_scalar = [&](ValueId value) {
    return value.valid() ? view.emit("reshape", {value}, {{"shape", ir::Shape{}}}) : ValueId();
  };
  std::vector<ValueId> operands = {as_scalar(cycle.trips_value),
                                   has_condition ? as_scalar(cycle.condition_value) : ValueId()};
  operands.insert(operands.end(), states.begin(), states.end());
  operands.insert(operands.end(), rows.begin(), rows.end());
  const std::vector<ValueId> taken = open.taken();
  operands.insert(operands.end(), taken.begin(), taken.end());
  attributes.set("body", std::move(open).body(taken));
  view.results("loop", operands, std::move(attributes));
  if (view.failure()) return Diagnostic(*view.failure());
  Items results;
  for (const ValueId output : view.outputs()) results.push_back({output, {}});
  return results;
}

}  // namespace rannc::frontend
