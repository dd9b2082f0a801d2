#include "frontend/torchscript/internal/exported/exported_graph.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "frontend/torchscript/internal/control.h"
#include "frontend/torchscript/internal/translators.h"

// GCC 12 sees an uninitialized variable in nlohmann's iterators.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace rannc::frontend::torchscript {

namespace {

constexpr int kDeepestGraph = 100;
constexpr int64_t kMostUnrolled = 1 << 16;

/// Maps Python's operators on sizes to ATen's operators on integers.
const std::map<std::string_view, std::string_view>& operators_of_sizes() {
  static const std::map<std::string_view, std::string_view> kOperators = {
      {"_operator.add", "aten::add.int"},
      {"_operator.sub", "aten::sub.int"},
      {"_operator.mul", "aten::mul.int"},
      {"_operator.floordiv", "aten::floordiv.int"},
      {"_operator.mod", "aten::remainder.int"},
      {"_operator.truediv", "aten::truediv"},
      {"_operator.pow", "aten::pow.int"},
      {"_operator.neg", "aten::neg.int"},
      {"_operator.pos", "prim::unchecked_cast"},
      {"_operator.eq", "aten::eq.int"},
      {"_operator.ne", "aten::ne.int"},
      {"_operator.lt", "aten::lt.int"},
      {"_operator.le", "aten::le.int"},
      {"_operator.gt", "aten::gt.int"},
      {"_operator.ge", "aten::ge.int"},
      {"_operator.and_", "aten::__and__.bool"},
      {"_operator.or_", "aten::__or__.bool"},
      {"math.trunc", "aten::Int.float"},
      {"math.ceil", "aten::ceil.float"},
      {"math.floor", "aten::floor.float"},
      {"torch.sym_int", "aten::Int.float"},
      {"torch.sym_float", "aten::Float.int"},
      {"torch.sym_max", "prim::max"},
      {"torch.sym_min", "prim::min"},
      {"torch.sym_not", "aten::__not__"},
      {"torch.sym_sqrt", "aten::sqrt.float"},
  };
  return kOperators;
}

/// `torch.ops.aten.mul.Tensor` is `aten::mul.Tensor`; an overload called `default` has no name.
std::string schema_of(std::string_view target) {
  const auto of_sizes = operators_of_sizes().find(target);
  if (of_sizes != operators_of_sizes().end()) return std::string(of_sizes->second);
  constexpr std::string_view kOps = "torch.ops.";
  if (!target.starts_with(kOps)) return std::string(target);
  target.remove_prefix(kOps.size());
  std::string schema(target);
  if (const size_t dot = schema.find('.'); dot != std::string::npos) schema.replace(dot, 1, "::");
  if (schema.ends_with(".default")) schema.resize(schema.size() - 8);
  return schema;
}

const c10::FunctionSchema* find_schema(const std::string& spelled) {
  const size_t dot = spelled.find('.', spelled.find("::"));
  const c10::OperatorName name(spelled.substr(0, dot), dot == std::string::npos ? "" : spelled.substr(dot + 1));
  const auto found = c10::Dispatcher::singleton().findSchema(name);
  return found ? &found->schema() : nullptr;
}

/// Returns the innermost line of a stack trace, which lists it last, that is not in PyTorch, or else one in PyTorch.
void locate(std::string_view trace, Location& where) {
  bool is_own = false;
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  for (size_t at = trace.find(kFile); at != std::string_view::npos; at = trace.find(kFile, at + 1)) {
    const size_t name = at + kFile.size(), end = trace.find(kLine, name);
    if (end == std::string_view::npos) return;
    const std::string_view file = trace.substr(name, end - name);
    const bool is_library = file.starts_with("torch/") || file.find("/torch/") != std::string_view::npos;
    const bool is_file = !file.starts_with('<') && file.find('\n') == std::string_view::npos;
    if (!is_file || (is_library && is_own)) continue;
    is_own = !is_library;
    where.file = std::string(file);
    std::from_chars(trace.data() + end + kLine.size(), trace.data() + trace.size(), where.line);
  }
}

/// The path of the innermost module of `key,path,type;key,path,type`.
std::string innermost_module(const std::string& stack) {
  const size_t last = stack.rfind(';') + 1;  // 0 if there is none
  const size_t comma = stack.find(',', last);
  if (comma == std::string::npos) return {};
  const size_t end = std::min(stack.find(',', comma + 1), stack.size());
  std::string path = stack.substr(comma + 1, end - comma - 1);
  const bool has_none = path == stack.substr(last, comma - last);
  return has_none ? std::string() : path;
}

/// Returns all arguments of a schema in order. Arguments that the file omits have their defaults.
Result<std::vector<Call::Argument>> completed(const c10::FunctionSchema& formal, std::vector<Call::Argument> given,
                                              const std::string& schema) {
  std::vector<Call::Argument> all;
  size_t used = 0;
  for (const c10::Argument& each : formal.arguments()) {
    const auto own = std::find_if(given.begin(), given.end(),
                                  [&](const Call::Argument& argument) { return argument.name == each.name(); });
    if (own != given.end()) {
      all.push_back({each.name(), as(each.type(), own->item)});
      ++used;
      continue;
    }
    const auto standard = each.default_value() ? plain_item(*each.default_value()) : std::nullopt;
    if (!standard) return error(fmt::format("{} is called without its argument {}", schema, each.name()));
    all.push_back({each.name(), *standard});
  }
  if (used != given.size())
    return error(fmt::format("{} is called with an argument that is not in its schema", schema));
  return all;
}

std::vector<Item> from(const std::vector<Item>& items, size_t first) {
  return std::vector<Item>(items.begin() + static_cast<std::ptrdiff_t>(std::min(first, items.size())), items.end());
}

std::string stem_of(const Json& node) {
  const std::vector<std::string> names = names_of(node.at("outputs"));
  return names.empty() || names[0].empty() ? "control" : names[0];
}

/// Calls `visit` on each tensor of floats among the items.
void for_each_float(const ir::Graph& graph, Item& item, const std::function<void(Item&, ir::DType)>& visit) {
  if (const auto* const tensor = item.get<TensorRef>()) {
    const ir::DType dtype = graph.type((*tensor)->now()).dtype;
    if (ir::is_float(dtype)) visit(item, dtype);
  } else if (const Sequence* const list = item.sequence()) {
    std::vector<Item> elements = list->elements;
    for (Item& each : elements) for_each_float(graph, each, visit);
    item = list_of(std::move(elements));
  }
}

/// Returns the counterparts of items inside a body.
Result<std::vector<Item>> all_taken(const Site& site, Region& inside, const std::vector<Item>& items) {
  std::vector<Item> seen;
  for (const Item& each : items) {
    RANNC_ASSIGN(Item item, taken(site, inside, each));
    seen.push_back(std::move(item));
  }
  return seen;
}

}  // namespace

Result<ExportedGraph::Items> ExportedGraph::run(Frame frame, Region& into, const Json& graph) {
  if (frame.depth > kDeepestGraph) return error({file_, 0, 0, {}}, "graphs are nested too deep");
  frame.types = &graph.at("tensor_values");
  for (const Json& node : graph.at("nodes")) RANNC_TRY(run_node(frame, into, node));
  Items made;
  for (const Json& output : graph.at("outputs")) {
    const auto [kind, value] = alternative_of(output);
    RANNC_ASSIGN(Item item, value_of(frame.names, kind, value));
    made.push_back(std::move(item));
  }
  return made;
}

Result<ExportedGraph::Items> ExportedGraph::run_in_place(const Frame& around, Region& into, const Json& graph,
                                                         const Items& given) {
  Frame frame{{}, around.depth + 1, around.autocast};
  const Json& inputs = graph.at("inputs");
  if (inputs.size() != given.size())
    return error(fmt::format("a graph of {} inputs is given {}", inputs.size(), given.size()));
  for (size_t i = 0; i < given.size(); ++i) {
    const auto [kind, value] = alternative_of(inputs[i]);
    if (value.is_object()) frame.names[single_name(value)] = given[i];
  }
  return run(std::move(frame), into, graph);
}

Location ExportedGraph::place_of(const Json& node) const {
  Location place{file_};
  const auto name = node.find("name");
  place.node = name != node.end() && name->is_string() ? text_of(*name) : text_of(node.at("target"));
  const Json metadata = node.value("metadata", Json::object());
  if (const auto trace = metadata.find("stack_trace"); trace != metadata.end()) locate(text_of(*trace), place);
  return place;
}

Result<void> ExportedGraph::run_node(Frame& frame, Region& into, const Json& node) {
  const Location place = place_of(node);
  if (++nodes_ > options_.max_nodes)
    return error(place, fmt::format("the program has more than {} nodes", options_.max_nodes));
  if (!growth_.add(into.graph, into.counted)) return growth_.excess(into.graph, "the program", place);
  try {
    auto made = call(frame, into, node, place);
    const auto named =
        made.ok() ? name_results(frame.names, node.at("outputs"), *made) : Result<void>(made.diagnostic());
    if (named.ok()) return {};
    Diagnostic failure = named.diagnostic();
    if (failure.where.file.empty()) failure.where = place;
    return failure;
  } catch (const nlohmann::json::exception& broken) {
    return error(place, fmt::format("the node does not match the schema of exported programs: {}", broken.what()));
  }
}

Result<ExportedGraph::Items> ExportedGraph::call(const Frame& frame, Region& into, const Json& node,
                                                 const Location& place) {
  const std::string& target = text_of(node.at("target"));
  const std::string schema = schema_of(target);
  if (schema.starts_with("higher_order::")) return call_of_graphs(frame, into, schema.substr(14), node, place);
  const std::vector<std::string> names = names_of(node.at("outputs"));
  const Json& inputs = node.at("inputs");
  std::vector<Call::Argument> arguments;
  for (const Json& input : inputs) {
    const auto [kind, value] = alternative_of(input.at("arg"));
    RANNC_ASSIGN(Item item, value_of(frame.names, kind, value));
    arguments.push_back({text_of(input.at("name")), std::move(item)});
  }
  if (!operators_of_sizes().contains(target)) {
    const c10::FunctionSchema* const formal = find_schema(schema);
    if (formal == nullptr && !has_translator(schema)) {
      constexpr const char* kWhy = "LibTorch does not have it: --load-library FILE loads a library that brings it";
      return calls_.lose(schema, place, kWhy, names.size());
    }
    if (formal != nullptr) {
      RANNC_ASSIGN(arguments, completed(*formal, std::move(arguments), schema));
    }
    const bool casts = formal != nullptr && frame.autocast && !names.empty() && !formal->is_mutable() &&
                       schema.find("norm") == std::string::npos;
    if (casts) RANNC_TRY(autocast(frame, into, place, names[0], arguments));
  }
  const Json metadata = node.value("metadata", Json::object());
  const auto stack = metadata.find("nn_module_stack");
  return calls_.run(into.graph, place, schema, std::move(arguments), names,
                    stack == metadata.end() ? std::string() : innermost_module(text_of(*stack)));
}

Result<ExportedGraph::Items> ExportedGraph::call_of_graphs(const Frame& frame, Region& into, const std::string& name,
                                                           const Json& node, const Location& place) {
  Operands of;
  for (const Json& input : node.at("inputs")) {
    const auto [kind, value] = alternative_of(input.at("arg"));
    if (kind == "as_graph") {
      of.graphs.push_back(&value.at("graph"));
      continue;
    }
    RANNC_ASSIGN(Item item, value_of(frame.names, kind, value));
    of.items.push_back(std::move(item));
  }
  auto made = called(frame, into, name, of, node, place);
  if (!made.ok()) return made;
  // A single output that names a list contains all results.
  const Json& outputs = node.at("outputs");
  const bool as_list = outputs.size() == 1 && alternative_of(outputs[0]).second.is_array();
  return as_list ? Items{list_of(std::move(*made))} : std::move(*made);
}

Result<ExportedGraph::Items> ExportedGraph::called(const Frame& frame, Region& into, const std::string& name,
                                                   const Operands& of, const Json& node, const Location& place) {
  const auto flag = [&](size_t index) { return index < of.items.size() ? of.items[index].get<bool>() : nullptr; };
  const size_t graphs = of.graphs.size();
  if (name == "wrap_with_set_grad_enabled" && graphs == 1 && flag(0)) {
    const uint32_t before = calls_.no_grad();
    calls_.set_no_grad(*flag(0) ? 0 : 1);
    auto made = run_in_place(frame, into, *of.graphs[0], from(of.items, 1));
    calls_.set_no_grad(before);
    return made;
  }
  // Device, element type, enabled, whether casts are cached.
  constexpr size_t kAutocast = 4;
  if (name == "wrap_with_autocast" && graphs == 1 && flag(2)) {
    const Frame around{{}, frame.depth, *flag(2)};
    return run_in_place(around, into, *of.graphs[0], from(of.items, kAutocast));
  }
  if (name == "tag_activation_checkpoint" && graphs == 1) return run_in_place(frame, into, *of.graphs[0], of.items);
  if (name == "cond" && graphs == 2 && of.items.size() == 2 && of.items[1].sequence())
    return branch(frame, into, of, place, stem_of(node));
  if (name == "while_loop" && graphs == 2 && of.items.size() == 2 && of.items[0].sequence() && of.items[1].sequence())
    return loop(frame, into, of, place, stem_of(node));
  const bool are_lists =
      std::all_of(of.items.begin(), of.items.end(), [](const Item& each) { return each.sequence() != nullptr; });
  if ((name == "scan" && graphs == 1 && of.items.size() == 3 && are_lists) ||
      (name == "map_impl" && graphs == 1 && of.items.size() == 2 && are_lists))
    return unrolled(frame, into, of, place, stem_of(node));
  return calls_.lose("higher_order::" + name, place, "it calls graphs in a way that is not supported",
                     node.at("outputs").size());
}

Result<ExportedGraph::Items> ExportedGraph::branch(const Frame& frame, Region& into, const Operands& of,
                                                   const Location& place, std::string stem) {
  const Items& given = of.items[1].sequence()->elements;
  if (const auto* known = of.items[0].get<bool>()) return run_in_place(frame, into, *of.graphs[*known ? 0 : 1], given);
  const Site site{into, place, std::move(stem), notes_, options_.max_trips};
  const auto run_branch = [&](size_t index) {
    return [&, index](Region& inside) -> Result<Items> {
      RANNC_ASSIGN(const Items seen, all_taken(site, inside, given));
      return run_in_place(frame, inside, *of.graphs[index], seen);
    };
  };
  return add_branch(site, of.items[0], run_branch(0), run_branch(1));
}

Result<ExportedGraph::Items> ExportedGraph::loop(const Frame& frame, Region& into, const Operands& of,
                                                 const Location& place, std::string stem) {
  const Site site{into, place, std::move(stem), notes_, options_.max_trips};
  Items states = of.items[0].sequence()->elements;
  const Items& read = of.items[1].sequence()->elements;
  const auto with_read = [&](Items own, const Items& more) {
    own.insert(own.end(), more.begin(), more.end());
    return own;
  };
  // Trips are unrolled while the condition is known.
  Items first;
  for (int64_t trip = 0;; ++trip) {
    RANNC_ASSIGN(first, run_in_place(frame, into, *of.graphs[0], with_read(states, read)));
    if (first.size() != 1) return error("the condition of a loop gives more than one value");
    RANNC_ASSIGN(const Items truth, run_operator(into, place, "aten::Bool", {{"a", first[0]}}, site.stem));
    const bool* const goes_on = truth.at(0).get<bool>();
    if (goes_on == nullptr) break;
    if (!*goes_on) return states;
    if (trip == kMostUnrolled) return error(fmt::format("a loop makes more than {} trips", kMostUnrolled));
    RANNC_ASSIGN(states, run_in_place(frame, into, *of.graphs[1], with_read(states, read)));
  }
  const auto trip = [&](Region& inside, const Item&, const Items& own) -> Result<std::pair<Item, Items>> {
    RANNC_ASSIGN(const Items seen, all_taken(site, inside, read));
    RANNC_ASSIGN(Items next, run_in_place(frame, inside, *of.graphs[1], with_read(own, seen)));
    RANNC_ASSIGN(const Items goes_on, run_in_place(frame, inside, *of.graphs[0], with_read(next, seen)));
    return std::pair(goes_on.at(0), std::move(next));
  };
  return add_loop(site, {.condition = first[0], .states = states}, trip);
}

/// Scans and maps over the rows of tensors. The number of rows must be a constant.
Result<ExportedGraph::Items> ExportedGraph::unrolled(const Frame& frame, Region& into, const Operands& of,
                                                     const Location& place, const std::string& stem) {
  const bool is_scan = of.items.size() == 3;
  Items states = is_scan ? of.items[0].sequence()->elements : Items{};
  const Items& rows = of.items[is_scan ? 1 : 0].sequence()->elements;
  const Items& read = of.items[is_scan ? 2 : 1].sequence()->elements;
  if (rows.empty()) return error("a scan over no tensor");
  RANNC_ASSIGN(const Items count,
               run_operator(into, place, "aten::size.int", {{"self", rows[0]}, {"dim", Item(ir::Dim(0))}}, stem));
  const auto* const size = count.at(0).get<ir::Dim>();
  if (size == nullptr) return count;  // of an operator that could not be translated
  if (!size->is_constant() || size->constant() < 1 || size->constant() > kMostUnrolled) {
    return error(
        fmt::format("a scan or map makes {} trips; expected a constant from 1 to {}: export the model with a "
                    "fixed size of that axis",
                    size->str(), kMostUnrolled));
  }
  std::vector<Items> made;
  for (int64_t trip = 0; trip < size->constant(); ++trip) {
    Items given = states;
    for (const Item& each : rows) {
      RANNC_ASSIGN(const Items row,
                   run_operator(into, place, "aten::select.int",
                                {{"self", each}, {"dim", Item(ir::Dim(0))}, {"index", Item(ir::Dim(trip))}}, stem));
      given.push_back(row.at(0));
    }
    given.insert(given.end(), read.begin(), read.end());
    RANNC_ASSIGN(Items results, run_in_place(frame, into, *of.graphs[0], given));
    if (results.size() < states.size()) return error("the graph of a scan gives fewer values than it has states");
    states.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(states.size()));
    made.push_back(from(results, states.size()));
  }
  Items all = states;
  for (size_t i = 0; i < made.front().size(); ++i) {
    Items column;
    for (const Items& each : made) column.push_back(each.at(i));
    RANNC_ASSIGN(const Items stacked,
                 run_operator(into, place, "aten::stack",
                              {{"tensors", list_of(std::move(column))}, {"dim", Item(ir::Dim(0))}}, stem));
    all.push_back(stacked.at(0));
  }
  return all;
}

Result<ExportedGraph::Items> ExportedGraph::run_operator(Region& into, const Location& place, const std::string& schema,
                                                         std::vector<Call::Argument> arguments,
                                                         const std::string& name) {
  return calls_.run(into.graph, place, schema, std::move(arguments), {name}, {});
}

/// Casts operands as autocast does. The program records the type of each result: one narrower than an operand means
/// that operands were cast to it, and one wider than all operands that all were. Normalizations keep wide weights.
Result<void> ExportedGraph::autocast(const Frame& frame, Region& into, const Location& place, const std::string& result,
                                     std::vector<Call::Argument>& arguments) {
  const auto recorded = frame.types->find(result);
  if (recorded == frame.types->end()) return {};
  const auto scalar = scalar_type_of(integer_of(recorded->at("dtype")));
  const auto dtype = scalar ? ir::dtype_of_torch(static_cast<int>(c10::toRealValueType(*scalar))) : std::nullopt;
  if (!dtype || !ir::is_float(*dtype)) return {};
  const uint32_t bytes = ir::byte_size(*dtype);
  bool are_narrow = true, is_wide = false;
  const auto each_float = [&](const std::function<void(Item&, ir::DType)>& visit) {
    for (Call::Argument& each : arguments) for_each_float(into.graph, each.item, visit);
  };
  each_float([&](const Item&, ir::DType own) {
    are_narrow = are_narrow && ir::byte_size(own) < bytes;
    is_wide = is_wide || own == ir::DType::kF32;
  });
  if (!are_narrow && !(is_wide && bytes < ir::byte_size(ir::DType::kF32))) return {};
  Result<void> done;
  each_float([&](Item& item, ir::DType own) {
    if (!done.ok() || own == *dtype || own == ir::DType::kF64) return;
    auto cast = run_operator(into, place, "aten::to.dtype",
                             {{"self", item}, {"dtype", Item(ir::Dim(ir::torch_number(*dtype)))}}, result + ".cast");
    cast.ok() ? void(item = cast->at(0)) : void(done = cast.diagnostic());
  });
  return done;
}

}  // namespace rannc::frontend::torchscript
