#include "tools/compiler/untrained_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "ir/gradient/gradient_reach.h"
#include "ir/match/match.h"

namespace rannc::tools {

namespace {

constexpr size_t kMostNames = 20;

std::string listed(const std::vector<std::string>& names) {
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(names.size(), kMostNames));
  const size_t more = names.size() - first.size();
  return fmt::format("{}{}", fmt::join(first, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

/// Formats a count: `1 parameter`, `3 parameters`.
std::string counted(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// Whether weights are quantized to this element type. Wider integers are indices and sizes.
bool is_quantized(ir::DType dtype) { return ir::is_integer(dtype) && ir::byte_size(dtype) == 1; }

/// Whether a stored tensor is converted to floats, possibly after tasks that only move its elements.
bool becomes_floats(const ir::Graph& graph, ValueId stored) {
  static const ir::Ops kMoves = {"identity", "reshape", "permute", "squeeze", "unsqueeze", "slice", "concat", "expand"};
  static const ir::Ops kDequantizes = {"dequantize"}, kCasts = {"cast"};
  const bool narrow = is_quantized(graph.type(stored).dtype);
  std::vector<ValueId> open = {stored};
  std::set<ValueId> seen(open.begin(), open.end());
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    const bool found = graph.any_use(value, [&](ir::Graph::Use use) {
      const ir::OpInfo& op = graph.op(use.task);
      if (kDequantizes.contains(op)) return use.operand == 0;
      const ValueId made = graph.outputs(use.task)[0];
      if (kCasts.contains(op)) return narrow && ir::is_float(graph.type(made).dtype);
      if (kMoves.contains(op) && seen.insert(made).second) open.push_back(made);
      return false;
    });
    if (found) return true;
  }
  return false;
}

/// Parameters of a graph, divided by whether a gradient reaches them.
struct Parameters {
  std::vector<ValueId> reached, others;
};

Parameters parameters_of(const ir::Graph& graph) {
  const std::vector<bool> reached = ir::reached_by_gradient(graph);
  Parameters found;
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter) continue;
    (reached[value.index()] ? found.reached : found.others).push_back(value);
  }
  return found;
}

std::string place_of(const ir::Graph& graph, TaskId task) {
  const Location where = graph.location(task);
  if (!where.node.empty()) return fmt::format("'{}'", where.node);
  return fmt::format("'{}'", graph.value(graph.outputs(task)[0]).name);
}

/// Returns the tasks after the values that stop gradients.
std::vector<std::string> stops_behind(const ir::Graph& graph, const std::vector<ValueId>& values) {
  static const ir::Ops kStops = {"stop_gradient"};
  std::vector<bool> from(graph.value_count());
  for (const ValueId value : values) from[value.index()] = true;
  std::vector<std::string> places;
  for (const TaskId task : graph.tasks()) {
    const auto inputs = graph.inputs(task);
    const auto is_from = [&](ValueId value) { return value.valid() && from[value.index()]; };
    if (std::none_of(inputs.begin(), inputs.end(), is_from)) continue;
    if (kStops.contains(graph.op(task))) {
      places.push_back(place_of(graph, task));
      continue;
    }
    for (const ValueId output : graph.outputs(task)) from[output.index()] = true;
  }
  return places;
}

std::string names_of(const ir::Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (const ValueId value : values) names.emplace_back(graph.value(value).name);
  return listed(names);
}

std::string about_integers(const std::vector<std::string>& integers) {
  return fmt::format(
      "{} of integers read by DequantizeLinear or a cast {} not trained: {}; export the model with float "
      "weights to train them",
      counted(integers.size(), "tensor"), integers.size() == 1 ? "is" : "are", listed(integers));
}

std::string about_unreached(const ir::Graph& graph, const Parameters& parameters) {
  const size_t all = parameters.others.size() + parameters.reached.size();
  std::string text =
      fmt::format("no gradient reaches {} of {}, which {} as {} in the file: {}", parameters.others.size(),
                  counted(all, "parameter"), parameters.others.size() == 1 ? "stays" : "stay",
                  parameters.others.size() == 1 ? "it is" : "they are", names_of(graph, parameters.others));
  const std::vector<std::string> stops = stops_behind(graph, parameters.others);
  if (!stops.empty()) {
    text += fmt::format("; the model was exported without gradients at {} (detach, no_grad or set_grad_enabled(False))",
                        listed(stops));
  }
  return text;
}

}  // namespace

std::vector<std::string> integer_weights(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId value : graph.values()) {
    const ir::Graph::Value stored = graph.value(value);
    if (!stored.data.present() || !ir::is_integer(stored.type.dtype)) continue;
    if (stored.type.shape && stored.type.shape->empty()) continue;
    if (becomes_floats(graph, value)) names.emplace_back(stored.name);
  }
  return names;
}

Result<std::vector<std::string>> check_trained(const ir::Graph& graph, const std::vector<std::string>& integers,
                                               const std::string& file) {
  std::vector<std::string> warnings;
  if (graph.losses().empty()) return warnings;
  const Parameters parameters = parameters_of(graph);
  if (!integers.empty()) warnings.push_back(about_integers(integers));
  if (!parameters.others.empty()) warnings.push_back(about_unreached(graph, parameters));
  if (!parameters.reached.empty()) return warnings;
  Diagnostic failure = error({file, 0, 0, {}}, "there is nothing to train: the loss depends on no parameter");
  for (const std::string& warning : warnings) failure.notes.push_back({{}, warning});
  if (warnings.empty()) {
    failure.notes.push_back(
        {{}, "every stored tensor is a constant or a buffer; use --train PATTERN to train some of them"});
  }
  return failure;
}

}  // namespace rannc::tools
