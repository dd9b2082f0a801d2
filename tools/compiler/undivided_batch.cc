#include "tools/compiler/undivided_batch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ir/plan/fixed_samples.h"

namespace rannc::tools {

namespace {

constexpr const char* kDivisible =
    "a mini-batch can be divided if samples are independent of each other, except in a loss that is their sum or mean";

std::set<std::string> symbols_of(const ir::Shape& shape) {
  std::set<std::string> symbols;
  for (const ir::Dim& dim : shape) dim.collect_symbols(symbols);
  return symbols;
}

bool leads(const ir::Graph& graph, const std::string& symbol) {
  for (const ValueId input : graph.inputs()) {
    const auto& shape = graph.type(input).shape;
    if (shape && !shape->empty()) return shape->front() == ir::Dim::symbol(symbol);
  }
  return false;
}

}  // namespace

bool has_mini_batches(const ir::Graph& graph, const std::string& symbol) {
  if (symbol.empty() || !leads(graph, symbol)) return false;
  std::set<std::string> beside, alone;
  for (const ValueId input : graph.inputs()) {
    const auto& shape = graph.type(input).shape;
    if (!shape) continue;
    const std::set<std::string> symbols = symbols_of(*shape);
    (symbols.contains(symbol) ? beside : alone).insert(symbols.begin(), symbols.end());
  }
  return std::includes(beside.begin(), beside.end(), alone.begin(), alone.end());
}

bool gives_a_number(const ir::Graph& graph) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(), [&](ValueId output) {
    const ir::ValueType& type = graph.type(output);
    return type.shape && ir::is_float(type.dtype) && ir::element_count(*type.shape) == ir::Dim(1);
  });
}

std::optional<std::string> assumed_samples(const ir::Graph& graph) {
  const auto samples = ir::fixed_samples(graph);
  const bool divides = std::any_of(graph.losses().begin(), graph.losses().end(), [](const ir::LossTerm& term) {
    return term.denominator == ir::LossTerm::Denominator::kSamples;
  });
  if (!samples || !divides) return std::nullopt;
  return fmt::format(
      "reduction=samples divides the loss by {}: the file has no batch symbol, so axis 0 of the first input is assumed "
      "to count samples; reduction=sum does not divide",
      *samples);
}

std::string why_whole(const PreparedModel& model, const Diagnostic& why) {
  const std::string extent = model.extent_of_data.empty()
                                 ? fmt::format("a mini-batch of {} samples", ir::fixed_samples(model.graph).value_or(1))
                                 : std::string("the mini-batch of all inputs together");
  const std::string at = why.where.node.empty() ? std::string() : fmt::format("'{}': ", why.where.node);
  return fmt::format("{} is not divided, but runs as one micro-batch without replicas: {}{}; {}", extent, at,
                     why.message, kDivisible);
}

Result<void> check_undivided(const PreparedModel& model, const partition::PlanOptions& options) {
  if (!model.undivided || !ir::fixed_samples(model.graph)) return {};
  const auto refused = [&](const std::string& demand) {
    return error(model.undivided->where,
                 fmt::format("{}, so its mini-batches cannot be divided, but {} are requested",
                             model.undivided->message, demand),
                 "P15")
        .note(kDivisible);
  };
  const auto& counts = options.micro_batches;
  if (!counts.empty() && std::find(counts.begin(), counts.end(), 1) == counts.end()) {
    return refused(fmt::format("{} micro-batches", fmt::join(counts, " or ")));
  }
  const auto& replicas = options.constraints.replicas;
  if (std::any_of(replicas.begin(), replicas.end(), [](uint32_t count) { return count > 1; })) {
    return refused(fmt::format("{} replicas", fmt::join(replicas, ", ")));
  }
  return {};
}

}  // namespace rannc::tools
