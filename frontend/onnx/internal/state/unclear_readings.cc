// Decides which parameters nodes read that name none.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "frontend/onnx/internal/state/program_state.h"
#include "ir/state/name_source.h"
#include "ir/state/state.h"

namespace rannc::frontend {

namespace {

/// Whether a stored tensor is one number repeated; false if its bytes cannot be read.
bool is_uniform(const ir::Graph::Value& stored) {
  if (!stored.data.present()) return false;
  const auto bytes = stored.data.read();
  const auto size = static_cast<ptrdiff_t>(ir::byte_size(stored.type.dtype));
  return bytes.ok() && !bytes->empty() && std::equal(bytes->begin() + size, bytes->end(), bytes->begin());
}

/// `layers..weight` of `layers.1.weight`: copied layers begin equal.
std::string without_numbers(std::string name) {
  std::erase_if(name, [](unsigned char c) { return std::isdigit(c) != 0; });
  return name;
}

/// Removes names with another last word than `name`, unless all have one.
void keep_alike(std::set<std::string>& names, const std::string& name) {
  const auto differs = [&](const std::string& each) { return ir::last_word(each) != ir::last_word(name); };
  if (!std::all_of(names.begin(), names.end(), differs)) std::erase_if(names, differs);
}

}  // namespace

/// Returns the listed parameters of which no node is known to read anything.
std::set<std::string> ProgramState::unread(const ir::Graph& graph) const {
  std::set<std::string> found;
  for (const auto& [name, kind] : listed_.kinds) {
    const bool has_tensor = named_by_calls_.contains(name) || graph.find(name).valid() || held_.contains(name);
    if (kind == ir::ValueKind::kParameter && !has_tensor) found.insert(name);
  }
  for (const auto& [made, from] : notes_.stored.folded) {
    for (const std::string& name : from) found.erase(name);
  }
  return found;
}

/// Returns the module of an unclear reading, or those of the nodes that follow if its node records none.
std::set<std::string> ProgramState::modules_behind(const ir::Graph& graph, const Unclear& unclear) const {
  const ir::Reading& reading = notes_.stored.readings.at(unclear.stored)[unclear.reading];
  if (reading.module != reading.node) return {reading.module};
  std::set<std::string> modules;
  std::vector<ValueId> left;
  const auto add_results = [&](TaskId task) {
    const auto outputs = graph.outputs(task);
    left.insert(left.end(), outputs.begin(), outputs.end());
  };
  graph.for_each_use(graph.find(unclear.stored), [&](ir::Graph::Use use) {
    if (graph.location(use.task).node == reading.node) add_results(use.task);
  });
  for (std::set<ValueId> seen; !left.empty();) {
    const ValueId value = left.back();
    left.pop_back();
    if (!seen.insert(value).second) continue;
    graph.for_each_use(value, [&](ir::Graph::Use use) {
      const auto module = notes_.training.modules.find(graph.location(use.task).node);
      if (module == notes_.training.modules.end()) return add_results(use.task);
      modules.insert(module->second);
    });
  }
  return modules;
}

/// Decides what unclear readings read: the parameter of the stored name or, if that belongs to another module, the only
/// unread parameter of the reading module that may have been merged with it. What stays open is recorded in
/// `StoredNotes::unclear`.
void ProgramState::name_unclear(const ir::Graph& graph) {
  const std::set<std::string> open = unread(graph);
  std::map<std::string, std::string> found;  // stored tensors by parameter
  for (const Unclear& each : unclear_) {
    const ir::Graph::Value& stored = graph.value(graph.find(each.stored));
    ir::Reading& reading = notes_.stored.readings[each.stored][each.reading];
    const std::set<std::string> modules = modules_behind(graph, each);
    if (modules.size() == 1) reading.module = *modules.begin();
    const bool inside = modules.contains(ir::module_of(each.stored)), one_number = is_uniform(stored);
    std::set<std::string> near, far;
    for (const std::string& name : open) {
      if (!one_number && ir::last_word(name) != ir::last_word(each.stored)) continue;
      (modules.contains(ir::module_of(name)) ? near : far).insert(name);
    }
    const bool other = !inside && near.size() == 1 && modules.size() == 1;
    reading.state = {other ? *near.begin() : each.stored};
    if (other) {
      note_named(reading.state[0]);
      found.emplace(reading.state[0], each.stored);
      continue;
    }
    if (modules.empty()) continue;  // a file without metadata
    if (!inside && near.empty()) near = std::move(far);
    keep_alike(near, each.stored);
    if (!near.empty()) notes_.stored.unclear[each.stored].merge(near);
  }
  for (const auto& [name, stored] : found) name_also(graph, name, stored);
}

/// Separates a computed tensor that the exporter merged with another one, such as `gamma.view(1, -1, 1, 1)` of two
/// blocks: each is computed from the parameter of that name in the module that reads it. Returns false if the readers
/// do not show it.
bool ProgramState::separate(const ir::Graph& graph, const MergedValue& merged) {
  const auto made = notes_.stored.folded.find(merged.value);
  const auto readings = notes_.stored.readings.find(merged.value);
  if (merged.lost.empty() || made == notes_.stored.folded.end() || readings == notes_.stored.readings.end())
    return false;
  std::vector<std::string> from = made->second;
  const auto is_parameter = [&](const std::string& name) {
    const auto found = listed_.kinds.find(name);
    return found != listed_.kinds.end() && found->second == ir::ValueKind::kParameter;
  };
  const auto source = std::find_if(from.begin(), from.end(), is_parameter);
  if (source == from.end() || std::count_if(from.begin(), from.end(), is_parameter) != 1) return false;
  const std::string word = ir::last_word(*source), own = ir::module_of(*source);
  const std::string other = merged.module.empty() ? word : merged.module + "." + word;
  const auto is_own = [&](const ir::Reading& reading) { return reading.module == own; };
  if (other == *source || !is_parameter(other) || named_by_calls_.contains(other) ||
      std::none_of(readings->second.begin(), readings->second.end(), is_own))
    return false;
  for (const auto& [name, sources] : notes_.stored.folded) {  // computed twice
    if (name != merged.lost && std::find(sources.begin(), sources.end(), other) != sources.end()) return false;
  }
  const bool vector = is_reshaped_vector(graph, merged.value);
  for (ir::Reading& reading : readings->second) {
    if (reading.state.empty()) reading.state = {vector ? *source : merged.value};
    if (reading.module == merged.module) reading.state = {vector ? other : merged.lost};
  }
  if (vector) hold(graph, graph.find(merged.value), {other, Claim::Form::kFlat}, true);
  *source = other;
  notes_.stored.folded.emplace(merged.lost, std::move(from));
  return true;
}

/// Records unread parameters of a module beside the one that computed a merged value, as of two normalizations of the
/// same value.
void ProgramState::note_merged_norm(const ir::Graph& graph, const MergedValue& merged,
                                    const std::set<std::string>& open) {
  const ValueId value = graph.find(merged.value);
  if (merged.lost.empty() || !value.valid() || !graph.producer(value).valid()) return;
  const std::string node(graph.location(graph.producer(value)).node);
  for (auto& [stored, readings] : notes_.stored.readings) {
    if (!listed_.kinds.contains(stored)) continue;
    for (const ir::Reading& reading : readings) {
      if (reading.node != node || reading.state.size() != 1) continue;
      const std::string& own = reading.state[0];
      for (const std::string& other : open) {
        const bool beside =
            ir::module_of(ir::module_of(other)) == ir::module_of(ir::module_of(own)) && !ir::module_of(other).empty();
        if (beside && ir::last_word(other) == ir::last_word(own)) notes_.stored.unclear[stored].insert(other);
      }
    }
  }
}

/// Records in `StoredNotes::unclear` the unread parameters that may be in merged values. Such a parameter is of the
/// reader's module or of a part of it, and the value depends on a stored tensor that it may have been merged with.
void ProgramState::note_merged(const ir::Graph& graph, const std::vector<MergedValue>& merged) {
  for (const MergedValue& each : merged) {
    const std::set<std::string> open = unread(graph);
    if (open.empty()) return;
    if (separate(graph, each)) continue;
    note_merged_norm(graph, each, open);
    std::set<std::string> near;
    for (const std::string& name : open) {
      const std::string module = ir::module_of(name);
      if (each.module.empty() || module == each.module || module.starts_with(each.module + ".")) near.insert(name);
    }
    if (near.empty()) continue;
    std::vector<ValueId> left{graph.find(each.value)};
    for (std::set<ValueId> seen; !left.empty();) {
      const ValueId at = left.back();
      left.pop_back();
      if (!at.valid() || !seen.insert(at).second) continue;
      const ir::Graph::Value& found = graph.value(at);
      if (found.producer.valid()) {
        const auto operands = graph.inputs(found.producer);
        left.insert(left.end(), operands.begin(), operands.end());
      }
      const std::string name(found.name);
      const auto listed = listed_.kinds.find(name);
      const bool parameter = found.kind == ir::ValueKind::kConstant && !notes_.stored.literals.contains(name) &&
                             ir::is_float(found.type.dtype) && !is_single(graph, at) &&
                             (listed == listed_.kinds.end() || listed->second == ir::ValueKind::kParameter);
      if (!parameter) continue;
      const bool one_number = is_uniform(found), computed = listed == listed_.kinds.end();
      for (const std::string& other : near) {
        const bool alike = ir::last_word(other) == ir::last_word(name) || ir::module_of(other) == ir::module_of(name);
        const bool equal = one_number && (computed || alike);
        if (equal || without_numbers(other) == without_numbers(name)) notes_.stored.unclear[name].insert(other);
      }
    }
  }
}

/// Warns about listed parameters that no node reads if results of products or sums are missing, too: they may have been
/// products with a parameter of 1 or sums with one of 0, which the exporter omits. Unused layers do not count.
void ProgramState::note_omitted(const ir::Graph& graph, const std::set<std::string>& omitted) {
  const std::set<std::string> all = unread(graph);
  std::set<std::string> open = all;
  std::erase_if(open, [&](const std::string& name) { return is_of_unused_layer(name, all); });
  if (open.empty() || omitted.empty()) return;
  notes_.warnings.push_back(
      {{},
       fmt::format("no node of the file reads the parameters '{}', which are not trained: the exporter omits products "
                   "with a number that is 1 and sums with one that is 0, as %{} of the exported program may be; "
                   "torch.onnx.export(optimize=False) keeps them",
                   fmt::join(open, "', '"), fmt::join(omitted, ", %"))});
}

/// What is merged is trained as one, under all names.
void ProgramState::name_merged(const ir::Graph& graph) {
  for (const auto& [stored, others] : notes_.stored.unclear) {
    if (!listed_.kinds.contains(stored)) continue;
    for (const std::string& other : others) name_also(graph, other, stored);
  }
}

}  // namespace rannc::frontend
