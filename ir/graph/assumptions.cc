#include "ir/graph/assumptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/dim/dim_bounds.h"

namespace rannc::ir {

std::string str(const Assumption& assumption) {
  return fmt::format("{} equals {}", assumption.left.str(), assumption.right.str());
}

bool is_assumed(const Graph& graph, const Equality& equality) {
  const auto same = [&](const Assumption& known) {
    return (known.left == equality.first && known.right == equality.second) ||
           (known.left == equality.second && known.right == equality.first);
  };
  return std::any_of(graph.assumptions().begin(), graph.assumptions().end(), same);
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

// Faults of an assumption if inputs bind the symbols `bound`.
std::vector<std::string> faults_of(const Assumption& assumption, std::string_view batch_symbol,
                                   const std::set<std::string>& bound) {
  std::vector<std::string> faults;
  if (const auto certain = certainly_equal(assumption.left, assumption.right)) {
    faults.emplace_back(*certain ? "is certain" : "can never hold");
  }
  for (const std::string& symbol : symbols_of(assumption)) {
    if (symbol == batch_symbol) {
      faults.push_back(fmt::format("speaks of {}, the number of samples, which varies within a step", symbol));
    } else if (!bound.contains(symbol)) {
      faults.push_back(fmt::format("speaks of {}, which no input has", symbol));
    }
  }
  return faults;
}

}  // namespace

std::vector<Diagnostic> faults_of_assumptions(const Graph& graph) {
  std::set<std::string> bound;
  for (const ValueId input : graph.inputs()) {
    if (!input.valid() || input.index() >= graph.value_count()) continue;
    for (const Dim& dim : graph.type(input).shape.value_or(Shape{})) dim.collect_symbols(bound);
  }
  std::vector<Diagnostic> found;
  std::set<std::pair<std::string, std::string>> seen;
  for (const Assumption& each : graph.assumptions()) {
    std::vector<std::string> faults = faults_of(each, graph.batch_symbol(), bound);
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
