// Names parameters of which the exporter stores only what it computed from them.
#include <algorithm>
#include <array>

#include "frontend/onnx/internal/state/program_state.h"
#include "ir/graph/constant.h"
#include "ir/state/name_source.h"
#include "ir/state/state.h"

namespace rannc::frontend {

namespace {

/// Whether a value is stored and static, and exactly one extent differs from 1.
bool is_stored_vector(const ir::Graph& graph, ValueId value) {
  if (!value.valid() || graph.kind(value) != ir::ValueKind::kConstant || !ir::static_count(graph.type(value)))
    return false;
  const auto& shape = *graph.type(value).shape;
  return std::count_if(shape.begin(), shape.end(), [](const ir::Dim& dim) { return !(dim == ir::Dim(1)); }) == 1;
}

}  // namespace

/// Returns the traced operators that a folded value was computed by, with its own.
std::set<std::string> ProgramState::steps_of(const std::string& name) const {
  std::set<std::string> steps{std::string(ir::traced_op(name))};
  const auto made = notes_.stored.folded.find(name);
  if (made == notes_.stored.folded.end()) return steps;
  for (const std::string& each : made->second) {
    if (!listed_.kinds.contains(each) && ir::traced_op(each) != "val") steps.emplace(ir::traced_op(each));
  }
  return steps;
}

/// Whether rows that were looked up may be those of the whole table, in order. Where positions are a part of others or
/// have an offset, they are not. One sum may be with the length of a cache, which is 0.
bool ProgramState::may_be_all_rows(const std::string& name) const {
  const std::set<std::string> steps = steps_of(name);
  const auto made = notes_.stored.folded.find(name);
  const auto is_sum = [](const std::string& each) { return ir::traced_op(each) == "add"; };
  if (made != notes_.stored.folded.end() && std::count_if(made->second.begin(), made->second.end(), is_sum) > 1)
    return false;
  return std::all_of(steps.begin(), steps.end(), [](const std::string& step) {
    constexpr std::array kSteps = {"embedding", "arange", "add", "unsqueeze", "view", "expand", "clone", "_to_copy"};
    return std::find(kSteps.begin(), kSteps.end(), step) != kSteps.end();
  });
}

/// Whether a folded value is a vector with axes of extent 1 around it: `gamma.view(1, -1, 1, 1)`.
bool ProgramState::is_reshaped_vector(const ir::Graph& graph, const std::string& name) const {
  if (!is_stored_vector(graph, graph.find(name))) return false;
  const std::set<std::string> steps = steps_of(name);
  return std::all_of(steps.begin(), steps.end(), [](const std::string& step) {
    return step == "view" || step == "reshape" || step == "unsqueeze";
  });
}

/// Names parameters of which the exporter stores only such a value.
void ProgramState::name_reshaped(const ir::Graph& graph) {
  for (const auto& [made, from] : notes_.stored.folded) {
    if (!is_reshaped_vector(graph, made)) continue;
    const auto listed =
        std::count_if(from.begin(), from.end(), [&](const std::string& each) { return listed_.kinds.contains(each); });
    const auto name = std::find_if(from.begin(), from.end(), [&](const std::string& each) {
      const auto found = listed_.kinds.find(each);
      return found != listed_.kinds.end() && found->second == ir::ValueKind::kParameter;
    });
    if (listed == 1 && name != from.end()) hold(graph, graph.find(made), {*name, Claim::Form::kFlat}, true);
  }
}

/// Names tables that are looked up by constant indices. The exporter stores only the resulting rows, under the name of
/// the result, and no node reads the table. If only one table of the module or of a direct part matches, it is assumed
/// to consist of these rows in order.
void ProgramState::name_looked_up(const ir::Graph& graph) {
  std::map<std::string, std::set<std::string>> found;  // results by table
  std::map<std::string, std::string> table_of;
  for (const auto& [name, readings] : notes_.stored.readings) {
    const ValueId value = graph.find(name);
    const bool result = name.starts_with("embedding") && value.valid() && !listed_.kinds.contains(name) &&
                        readings.size() == 1 && readings[0].state.empty() && may_be_all_rows(name);
    if (!result) continue;
    for (const auto& [table, kind] : listed_.kinds) {
      const std::string owner = ir::module_of(table);
      const bool open = kind == ir::ValueKind::kParameter && !named_by_calls_.contains(table) &&
                        !graph.find(table).valid() && !held_.contains(table);
      if (!open || (owner != readings[0].module && (owner.empty() || ir::module_of(owner) != readings[0].module)))
        continue;
      found[table].insert(name);
      const auto [at, fresh] = table_of.emplace(name, table);
      if (!fresh) at->second.clear();
    }
  }
  for (const auto& [name, table] : table_of) {
    if (table.empty() || found[table].size() != 1) continue;
    const ValueId value = graph.find(name);
    if (!ir::static_count(graph.type(value))) continue;
    ir::StateTensor tensor = ir::state_of(graph, table, value, ir::whole(graph, value).axes);
    while (tensor.shape.size() > 2 && tensor.shape[0] == 1) tensor.shape.erase(tensor.shape.begin());
    held_.try_emplace(table, std::move(tensor));
    notes_.stored.readings[name][0].state = {table};
    notes_.open.push_back({{},
                           "parameter '" + table + "' of the exported program is assumed to consist of the rows in '" +
                               name + "', in order: it may have more"});
  }
}

}  // namespace rannc::frontend
