#include "passes/training/lost_gradients.h"

#include <fmt/format.h>

#include <charconv>

#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::passes {

namespace {

using ir::Graph;

constexpr ir::Capture kTable{0};

// Padding rows: tables may be renamed before they are looked up.
Result<void> set_padding(Graph& graph, const std::string& name, int64_t row) {
  static const ir::Pattern kLookUp = ir::op("gather", ir::through("identity", ir::any(kTable)), ir::any());
  const ValueId table = graph.find(name);
  if (!table.valid()) return error(fmt::format("a padding index of %{}, which the model does not have", name));
  const auto& shape = graph.type(table).shape;
  const bool known = shape && shape->size() == 2 && (*shape)[0].is_constant();
  const int64_t rows = known ? (*shape)[0].constant() : 0, index = row < 0 ? row + rows : row;
  if (index < 0 || index >= rows) {
    return error(fmt::format("a padding index {} of %{}, which is {}: expected a row of a table of rank 2", row, name,
                             shape ? ir::str(*shape) : "[*]"));
  }
  bool found = false;
  for (const TaskId task : graph.tasks()) {
    const auto look_up = ir::match(graph, task, kLookUp);
    if (!look_up || (*look_up)[kTable] != table) continue;
    ir::Attributes attributes = graph.attributes(task);
    attributes.set("padding_index", ir::Dim(index));
    graph.set_attributes(task, std::move(attributes));
    RANNC_TRY(ir::infer_types(graph, task));
    found = true;
  }
  if (found) return {};
  return error(fmt::format("a padding index of %{}, of which no rows are looked up along axis 0", name));
}

Result<void> set_strict(Graph& graph, const std::string& name) {
  static const ir::Pattern kClamp = ir::op("clamp");
  const ValueId value = graph.find(name);
  const TaskId task = value.valid() ? graph.producer(value) : TaskId();
  if (!task.valid() || !ir::match(graph, task, kClamp)) {
    return error(fmt::format("strict bounds of %{}, which is not the result of a clamp", name));
  }
  ir::Attributes attributes = graph.attributes(task);
  attributes.set("strict", true);
  graph.set_attributes(task, std::move(attributes));
  return ir::infer_types(graph, task);
}

// Returns the graph whose tasks read the stops; its outputs are the values themselves.
Result<Graph> with_stops(const Graph& graph, const std::set<std::string>& names) {
  std::vector<bool> stopped(graph.value_count());
  for (const std::string& name : names) {
    const ValueId value = graph.find(name);
    if (!value.valid()) return error(fmt::format("a gradient stop at %{}, which the model does not have", name));
    if (!ir::is_float(graph.type(value).dtype)) {
      return error(
          fmt::format("a gradient stop at %{}, which is {} and has no gradient", name, str(graph.type(value).dtype)));
    }
    stopped[value.index()] = true;
  }
  ir::Rewriter rewriter(graph);
  std::vector<ValueId> plain(graph.value_count());
  Result<void> typed;
  const auto stop = [&](ValueId value) {
    if (!stopped[value.index()]) return;
    Graph& to = rewriter.graph();
    plain[value.index()] = rewriter.map(value);
    const TaskId maker = graph.producer(value);
    const ValueId made =
        to.add(ir::core("stop_gradient"), {plain[value.index()]}, {}, std::string(graph.value(value).name) + ".stopped",
               maker.valid() ? graph.location(maker) : Location{});
    if (typed.ok()) typed = ir::infer_types(to, to.producer(made));
    rewriter.replace(value, made);
  };
  for (const ValueId value : graph.values()) {
    if (!graph.producer(value).valid()) stop(value);
  }
  for (const TaskId task : graph.tasks()) {
    rewriter.copy(task);
    for (const ValueId output : graph.outputs(task)) stop(output);
  }
  for (const ValueId value : graph.values()) {
    if (plain[value.index()].valid()) rewriter.replace(value, plain[value.index()]);
  }
  RANNC_TRY(typed);
  return std::move(rewriter).finish();
}

}  // namespace

std::string str(const LostGradients& lost) {
  std::string text;
  const auto add = [&](std::string part) { text += (text.empty() ? "" : ",") + part; };
  for (const auto& [name, row] : lost.padding) add(fmt::format("padding={}:{}", name, row));
  for (const std::string& name : lost.stopped) add("stop=" + name);
  for (const std::string& name : lost.strict) add("strict=" + name);
  return text;
}

Result<LostGradients> parse_lost_gradients(std::string_view text) {
  LostGradients lost;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    std::string value(equals == std::string_view::npos ? "" : part.substr(equals + 1));
    if (key == "stop" && !value.empty()) {
      lost.stopped.insert(std::move(value));
    } else if (key == "strict" && !value.empty()) {
      lost.strict.insert(std::move(value));
    } else if (const size_t colon = value.rfind(':'); key == "padding" && colon != std::string::npos) {
      int64_t row = 0;
      const char* const end = value.data() + value.size();
      const auto [at, status] = std::from_chars(value.data() + colon + 1, end, row);
      if (status != std::errc() || at != end) return error(fmt::format("`{}`: the row must be an integer", part));
      lost.padding[value.substr(0, colon)] = row;
    } else {
      return error(fmt::format("`{}` is none of padding=TABLE:ROW, stop=VALUE and strict=VALUE", part));
    }
  }
  return lost;
}

std::string LoseGradients::spelling() const { return "lose-gradients{" + str(lost_) + "}"; }

Result<Outcome> LoseGradients::run(Graph& graph, PassContext&) const {
  for (const auto& [name, row] : lost_.padding) RANNC_TRY(set_padding(graph, name, row));
  for (const std::string& name : lost_.strict) RANNC_TRY(set_strict(graph, name));
  if (!lost_.stopped.empty()) {
    RANNC_ASSIGN(graph, with_stops(graph, lost_.stopped));
  }
  return Outcome{!lost_.empty()};
}

}  // namespace rannc::passes
