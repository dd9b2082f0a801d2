#include "ir/graph/assumptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/dim/dim_bounds.h"
#include "ir/dim/dim_rewrite.h"

namespace rannc::ir {

std::string str(const Assumption& assumption) {
  return fmt::format("{} equals {}", assumption.left.str(), assumption.right.str());
}

namespace {

constexpr size_t kMostAssumptions = 256;  // of a model, some tens are seen; conditions that breed conditions end here

Simplifier simplifier(const std::vector<Assumption>& assumptions) {
  std::vector<Equality> equalities;
  equalities.reserve(assumptions.size());
  for (const Assumption& each : assumptions) equalities.emplace_back(each.left, each.right);
  return Simplifier(equalities);
}

void simplify(const Simplifier& simpler, Shape& sizes) {
  for (Dim& size : sizes) size = simpler(size);
}

void simplify(const Simplifier& simpler, ValueType& type) {
  if (type.shape) simplify(simpler, *type.shape);
  if (type.contents) simplify(simpler, *type.contents);
  type.batch.outer = simpler(type.batch.outer);
  type.batch.inner = simpler(type.batch.inner);
}

Body simplified(const Simplifier& simpler, const Body& body, const std::vector<Assumption>& around);

Attributes simplified(const Simplifier& simpler, const Attributes& attributes, const std::vector<Assumption>& around) {
  Attributes now = attributes;
  for (const auto& [name, value] : attributes) {
    if (const auto* body = std::get_if<Body>(&value)) now.set(name, simplified(simpler, *body, around));
    if (const auto* dim = std::get_if<Dim>(&value)) now.set(name, simpler(*dim));
    if (const auto* given = std::get_if<Shape>(&value)) {
      Shape sizes = *given;
      simplify(simpler, sizes);
      now.set(name, std::move(sizes));
    }
  }
  return now;
}

void simplify(const Simplifier& simpler, Graph& graph, std::vector<bool>& changed);

// A body has the assumptions of the graph around it while its types are inferred.
Body simplified(const Simplifier& simpler, const Body& body, const std::vector<Assumption>& around) {
  Graph inside = body.graph().clone();
  inside.set_assumptions(around);
  std::vector<bool> changed;
  simplify(simpler, inside, changed);
  for (const TaskId task : inside.tasks()) {
    if (!infer_types(inside, task).ok()) break;  // the verifier reports it
  }
  inside.set_assumptions({});
  return Body(std::move(inside));
}

// Marks values whose types, or whose producers' attributes, change.
void simplify(const Simplifier& simpler, Graph& graph, std::vector<bool>& changed) {
  changed.resize(graph.value_count());
  std::vector<bool> holds(graph.type_count());
  for (const ValueId id : graph.values()) {
    const uint32_t number = graph.type_number(id);
    if (number < holds.size() && holds[number]) continue;
    ValueType type = graph.type(id);
    simplify(simpler, type);
    graph.set_type(id, std::move(type));
    const bool same = graph.type_number(id) == number;
    changed[id.index()] = changed[id.index()] || !same;
    if (same) holds[number] = true;
  }
  for (const TaskId task : graph.tasks()) {
    Attributes attributes = simplified(simpler, graph.attributes(task), graph.assumptions());
    if (attributes == graph.attributes(task)) continue;
    graph.set_attributes(task, std::move(attributes));
    for (const ValueId output : graph.outputs(task)) changed[output.index()] = true;
  }
}

}  // namespace

bool is_assumed(const Graph& graph, const Equality& equality) {
  return simplifier(graph.assumptions()).implies(equality);
}

ValueType normalised(ValueType type, const std::vector<Assumption>& assumptions) {
  simplify(simplifier(assumptions), type);
  return type;
}

Attributes normalised(const Attributes& attributes, const std::vector<Assumption>& assumptions) {
  return simplified(simplifier(assumptions), attributes, assumptions);
}

Result<void> assume(Graph& graph, const Equality& equality, const Location& where, std::vector<bool>& changed) {
  const Simplifier known = simplifier(graph.assumptions());
  const Equality sides = reduced_equality(known(equality.first), known(equality.second));
  std::vector<Assumption> all;
  const auto add = [&](Equality now, const Location& from) -> Result<void> {
    const auto certain = certainly_equal(now.first, now.second);
    if (certain == false) {
      return error(where, fmt::format("{} would have to equal {}, because {} has to equal {}", now.first.str(),
                                      now.second.str(), sides.first.str(), sides.second.str()));
    }
    if (!certain) all.push_back({std::move(now.first), std::move(now.second), from});
    if (all.size() <= kMostAssumptions) return {};
    return error(where, fmt::format("the sizes have more than {} conditions", kMostAssumptions));
  };
  // Earlier assumptions are stated in the simpler sizes, so that they apply to normalised expressions.
  const Simplifier simpler(std::span(&sides, 1));
  for (const Assumption& old : graph.assumptions()) {
    RANNC_TRY(add(reduced_equality(simpler(old.left), simpler(old.right)), old.where));
  }
  RANNC_TRY(add(sides, where));
  graph.set_assumptions(std::move(all));
  simplify(simplifier(graph.assumptions()), graph, changed);
  return {};
}

std::vector<Assumption> substituted(const std::vector<Assumption>& assumptions, std::string_view symbol,
                                    const Dim& by) {
  std::vector<Assumption> kept;
  for (const Assumption& old : assumptions) {
    const auto sides = reduced_equality(old.left.substitute(symbol, by), old.right.substitute(symbol, by));
    const auto same = [&](const Assumption& known) { return known.left == sides.first && known.right == sides.second; };
    if (certainly_equal(sides.first, sides.second) == true || std::any_of(kept.begin(), kept.end(), same)) continue;
    kept.push_back({sides.first, sides.second, old.where});
  }
  return kept;
}

namespace {

std::set<std::string> symbols_of(const Assumption& assumption) {
  std::set<std::string> symbols;
  assumption.left.collect_symbols(symbols);
  assumption.right.collect_symbols(symbols);
  return symbols;
}

// Whether a side is a symbol that the other side replaces everywhere. No value has the symbol any more.
bool replaces_symbol(const Assumption& assumption, const std::string& symbol) {
  const auto is_replaced = [&](const Dim& side, const Dim& other) {
    return side == Dim::symbol(symbol) && other.str().find('(') == std::string::npos;
  };
  return is_replaced(assumption.left, assumption.right) || is_replaced(assumption.right, assumption.left);
}

// Symbols in the sizes of any value. A stage's graph may compute constants of sizes that no input of its own has.
std::set<std::string> symbols_of_sizes(const Graph& graph) {
  std::set<std::string> known;
  if (graph.assumptions().empty()) return known;
  for (const ValueId value : graph.values()) {
    for (const Dim& dim : graph.type(value).shape.value_or(Shape{})) dim.collect_symbols(known);
  }
  return known;
}

// Faults of an assumption in a graph whose sizes have the symbols `known`.
std::vector<std::string> faults_of(const Assumption& assumption, std::string_view batch_symbol,
                                   const std::set<std::string>& known) {
  std::vector<std::string> faults;
  if (const auto certain = certainly_equal(assumption.left, assumption.right)) {
    faults.emplace_back(*certain ? "is certain" : "can never hold");
  }
  for (const std::string& symbol : symbols_of(assumption)) {
    if (symbol == batch_symbol) {
      faults.push_back(fmt::format("speaks of {}, the number of samples, which varies within a step", symbol));
    } else if (!known.contains(symbol) && !replaces_symbol(assumption, symbol)) {
      faults.push_back(fmt::format("speaks of {}, which no value has", symbol));
    }
  }
  return faults;
}

}  // namespace

void drop_unknown_assumptions(Graph& graph) {
  const std::set<std::string> known = symbols_of_sizes(graph);
  std::vector<Assumption> kept;
  for (const Assumption& each : graph.assumptions()) {
    std::set<std::string> symbols;
    each.left.collect_symbols(symbols);
    each.right.collect_symbols(symbols);
    if (std::includes(known.begin(), known.end(), symbols.begin(), symbols.end())) kept.push_back(each);
  }
  graph.set_assumptions(std::move(kept));
}

std::vector<Diagnostic> faults_of_assumptions(const Graph& graph) {
  const std::set<std::string> known = symbols_of_sizes(graph);
  std::vector<Diagnostic> found;
  std::set<std::pair<std::string, std::string>> seen;
  for (const Assumption& each : graph.assumptions()) {
    std::vector<std::string> faults = faults_of(each, graph.batch_symbol(), known);
    const std::string left = each.left.str(), right = each.right.str();
    if (!seen.emplace(std::min(left, right), std::max(left, right)).second) faults.emplace_back("stands twice");
    for (const std::string& fault : faults) {
      found.push_back(error(each.where, fmt::format("the assumption that {} {}", str(each), fault), "G14"));
    }
  }
  return found;
}

Result<void> check_assumption(const Assumption& assumption, const Bindings& bindings) {
  const std::set<std::string> symbols = symbols_of(assumption);
  const auto bound = [&](const std::string& symbol) { return bindings.contains(symbol); };
  if (!std::all_of(symbols.begin(), symbols.end(), bound)) return {};
  const auto left = assumption.left.evaluate(bindings), right = assumption.right.evaluate(bindings);
  if (left && left == right) return {};
  std::string sizes;
  for (const std::string& symbol : symbols) {
    sizes += fmt::format("{}{} = {}", sizes.empty() ? "" : ", ", symbol, bindings.find(symbol)->second);
  }
  const auto text = [](const std::optional<int64_t>& side) { return side ? std::to_string(*side) : "no size"; };
  return error(assumption.where, fmt::format("the model assumes that {}; with {} they are {} and {}", str(assumption),
                                             sizes, text(left), text(right)));
}

Result<void> check_assumptions(const Graph& graph, const Bindings& bindings) {
  for (const Assumption& assumption : graph.assumptions()) RANNC_TRY(check_assumption(assumption, bindings));
  return {};
}

}  // namespace rannc::ir
