#include "passes/parameters/internal/merged_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "ir/graph/constant.h"
#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"
#include "ir/state/state.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/shared_by_modules.h"
#include "passes/parameters/internal/tied_values.h"

namespace rannc::passes {

namespace {

using ir::Graph;
using ir::Reading;

using Operand = std::pair<TaskId, uint32_t>;

/// Readings of one tensor of the program's state; empty: of no known name.
using Names = std::vector<std::string>;

bool is_identity(const Graph& graph, TaskId task) {
  static const ir::Pattern kRenamed = ir::op("identity");
  return ir::match(graph, task, kRenamed).has_value();
}

/// What modules call a parameter that stands there: `weight`, `bias`; empty: not known.
std::string word_of(const Graph& graph, const Operand& use) {
  static const ir::Pattern kFactor = ir::op({"matmul", "mul", "gather"}), kTerm = ir::op("add");
  const std::string_view name = graph.op(use.first).operand(use.second).name;
  if (name == "bias" || ir::match(graph, use.first, kTerm)) return "bias";
  return name == "weight" || name == "scale" || ir::match(graph, use.first, kFactor) ? "weight" : "";
}

/// An operand that is a stored tensor, under the name that it is read by, and what the file says of that.
struct Use {
  Operand operand;
  std::string name;
  const Reading* reading = nullptr;
  Names group = {};
};

class Apart {
 public:
  Apart(Graph& graph, const SharedTensors& known)
      : graph_(graph), known_(known), names_(graph), given_(graph.value_count()) {
    for (const ValueId output : graph.outputs()) given_[output.index()] = true;
  }

  TakenApart run() {
    for (const ValueId value : graph_.values()) {
      const Graph::Value& found = graph_.value(value);
      const bool stored =
          !found.producer.valid() && found.kind != ir::ValueKind::kInput && found.kind != ir::ValueKind::kRandomInput;
      if (!stored || !ir::is_float(found.type.dtype) || known_.file.literals.contains(std::string(found.name)))
        continue;
      part(value);
    }
    if (renamings_.empty() && moved_.empty()) return {};
    rewrite();
    return {true, std::move(made_), std::move(readings_)};
  }

 private:
  void part(ValueId value) {
    std::vector<Use> uses = uses_of(value);
    for (Use& use : uses) use.group = group_of(value, use);
    join_views(value, uses);
    join_bodies(uses);
    part_by_module(value, uses);
    std::map<Names, std::vector<Operand>> groups;
    std::map<Names, std::vector<Reading>> readings;
    for (const Use& use : uses) {
      groups[use.group].push_back(use.operand);
      if (!use.reading) continue;
      readings[use.group].push_back(*use.reading);
      readings[use.group].back().state = use.group;
    }
    if (groups.size() < 2) return;
    // The file's own name stays with whom it belongs to, else with the first.
    const Names own{std::string(graph_.value(value).name)};
    const bool unnamed = groups.contains(Names{});
    const Names& keeps = groups.contains(own) ? own : unnamed ? groups.begin()->first : uses.front().group;
    if (keeps.size() == 1 && keeps != own && !ir::is_folded(own[0]) && !tensor_in(value, keeps[0]))
      kept_.emplace_back(value, keeps[0]);
    readings_[own[0]] = readings[keeps];
    for (const auto& [group, operands] : groups) {
      if (group == keeps) continue;
      const size_t copy = copies_.size();
      copies_.push_back({value, group});
      copied_readings_.push_back(std::move(readings[group]));
      for (const Operand& operand : operands) moved_[operand] = copy;
    }
  }

  /// All operands that are the value, under its own or another name, in the order of tasks; renamings are noted.
  std::vector<Use> uses_of(ValueId value) {
    std::vector<Use> uses;
    std::vector<ValueId> left{value};
    std::vector<TaskId> renamings;
    while (!left.empty()) {
      const ValueId at = left.back();
      left.pop_back();
      std::vector<Use> own;
      graph_.for_each_use(at, [&](Graph::Use use) {
        const ValueId renamed = is_identity(graph_, use.task) ? graph_.outputs(use.task)[0] : ValueId();
        if (!renamed.valid() || given_[renamed.index()]) {
          own.push_back({{use.task, use.operand}, std::string(graph_.value(at).name)});
        } else {
          renamings.push_back(use.task);
          left.push_back(renamed);
        }
      });
      std::sort(own.begin(), own.end(), [](const Use& a, const Use& b) { return a.operand < b.operand; });
      find_readings(own);
      uses.insert(uses.end(), own.begin(), own.end());
    }
    std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.operand < b.operand; });
    for (const TaskId task : renamings) renamings_[task] = value;
    return uses;
  }

  /// Of uses under one name. The operands of a node's tasks are in the order of the node's, where there are as many.
  void find_readings(std::vector<Use>& uses) const {
    if (uses.empty()) return;
    const auto found = known_.file.readings.find(uses[0].name);
    if (found == known_.file.readings.end()) return;
    std::map<std::string_view, std::vector<const Reading*>> readings;
    for (const Reading& reading : found->second) readings[reading.node].push_back(&reading);
    std::map<std::string, std::vector<Use*>> nodes;
    for (Use& use : uses) nodes[graph_.location(use.operand.first).node].push_back(&use);
    for (auto& [node, own] : nodes) {
      const auto of_node = readings.find(node);
      if (of_node == readings.end()) continue;
      const auto& list = of_node->second;
      const bool alike =
          std::all_of(list.begin(), list.end(), [&](const Reading* r) { return r->state == list[0]->state; });
      for (size_t i = 0; i < own.size(); ++i) {
        if (alike || own.size() == list.size()) own[i]->reading = list[alike ? 0 : i];
      }
    }
  }

  std::set<std::string> modules_of(const std::string& name) const {
    std::set<std::string> modules;
    const auto found = known_.file.readings.find(name);
    if (found == known_.file.readings.end()) return modules;
    for (const Reading& reading : found->second) modules.insert(reading.module);
    return modules;
  }

  Names group_of(ValueId value, const Use& use) const {
    const std::string own(graph_.value(value).name);
    if (use.reading && !use.reading->state.empty()) return use.reading->state;
    // Exporters of ONNX name what they left out by an Identity, whose readers the file notes. Elsewhere it is a view,
    // or a copy, that the program takes of the one tensor, as what a node of the program makes is:
    // `/norm/Identity_output_0`.
    if (use.name == own || !known_.file.readings.contains(use.name) || use.name.starts_with('/')) return {};
    return is_computed_on(value, use.name) ? Names{} : Names{use.name};
  }

  /// Renamings that are of the tensor itself, and tasks of which the file knows no reading, go with those who read it
  /// under its own name, where these agree.
  void join_views(ValueId value, std::vector<Use>& uses) const {
    const std::string_view own = graph_.value(value).name;
    const auto is_apart = [&](const Use& use) { return use.name != own || use.reading == nullptr; };
    const auto raw = std::find_if(uses.begin(), uses.end(), [&](const Use& use) { return !is_apart(use); });
    if (raw == uses.end()) return;
    const Names group = raw->group;
    const bool agree =
        std::all_of(uses.begin(), uses.end(), [&](const Use& use) { return is_apart(use) || use.group == group; });
    for (Use& use : uses) {
      if (agree && is_apart(use) && use.group.empty()) use.group = group;
    }
  }

  /// Whether a made-up name may be that of a parameter that the exporter computed on, and not of another one: the same
  /// modules read both, and values are not those of many fresh parameters.
  bool is_computed_on(ValueId value, const std::string& name) const {
    const std::string own(graph_.value(value).name);
    if (!ir::is_folded(name)) return false;
    if (ir::is_folded(own)) return modules_of(own) == modules_of(name);
    const auto ours = modules_reading(known_.file, own), theirs = modules_reading(known_.file, name);
    return std::includes(ours.begin(), ours.end(), theirs.begin(), theirs.end()) && !is_uniform(graph_, value);
  }

  /// What a body reads has no name of its own: it is what other tasks read there.
  void join_bodies(std::vector<Use>& uses) const {
    const auto named = std::find_if(uses.begin(), uses.end(), [](const Use& use) { return !use.group.empty(); });
    if (named == uses.end()) return;
    const Names group = named->group;
    for (Use& use : uses) {
      const ir::Attributes& attributes = graph_.attributes(use.operand.first);
      const bool has_body = std::any_of(attributes.begin(), attributes.end(), [](const auto& attribute) {
        return std::holds_alternative<ir::Body>(attribute.second);
      });
      if (has_body && use.group.empty()) use.group = group;
    }
  }

  bool is_untied(ValueId value) const {
    return std::any_of(known_.untied.begin(), known_.untied.end(),
                       [&](const std::string& pattern) { return names_.match_any(pattern, value); });
  }

  /// Where all that is said is the name of the stored tensor.
  void part_by_module(ValueId value, std::vector<Use>& uses) const {
    if (uses.size() < 2) return;
    const Names& group = uses[0].group;
    const bool one = std::all_of(uses.begin(), uses.end(), [&](const Use& use) { return use.group == group; });
    const bool untied = is_untied(value);
    const bool is_listed = !known_.file.listed.empty() && !group.empty();
    if (!one || !known_.trained[value.index()] || (is_listed && !untied)) return;
    if (!untied) {
      if (known_.computed[value.index()]) return;
      const auto shared = shared_by_modules(graph_, {value}, known_.file.readings);
      if (shared.empty() || !shared[0].merged) return;
    }
    std::vector<Names> places;
    for (const Use& use : uses) {
      const Reading* const reading = use.reading;
      const std::string word = word_of(graph_, use.operand);
      if (!reading || reading->module == reading->node || word.empty()) return;
      places.push_back({reading->module.empty() ? word : reading->module + "." + word});
    }
    for (size_t i = 0; i < uses.size(); ++i) uses[i].group = std::move(places[i]);
  }

  /// The tensor of state of that name that lies in the value, or null.
  const ir::StateTensor* tensor_in(ValueId value, const std::string& name) const {
    for (const ir::StateTensor& tensor : graph_.state()) {
      if (tensor.name == name && tensor.parts[0].value == value) return &tensor;
    }
    return nullptr;
  }

  std::string name_of(ValueId value, const Names& group) const {
    if (group.size() == 1) {
      const ir::StateTensor* const tensor = tensor_in(value, group[0]);
      const bool whole = !tensor || (tensor->parts.size() == 1 && ir::is_whole(graph_, tensor->parts[0]));
      if (whole) return group[0];
    }
    return fmt::format("{}:{}", graph_.value(value).name, group.empty() ? "unnamed" : group[0]);
  }

  void rewrite() {
    ir::Rewriter rewriter(graph_);
    std::vector<ValueId> copies;
    for (const auto& [value, group] : copies_) {
      const Graph::Value& found = graph_.value(value);
      copies.push_back(rewriter.graph().add_value(found.kind, name_of(value, group), found.type, found.data));
      const std::string name(rewriter.graph().value(copies.back()).name);
      made_.emplace(name, found.name);
      readings_[name] = std::move(copied_readings_[copies.size() - 1]);
    }
    for (const TaskId task : graph_.tasks()) {
      const auto renaming = renamings_.find(task);
      if (renaming != renamings_.end()) {
        rewriter.replace(graph_.outputs(task)[0], rewriter.map(renaming->second));
        continue;
      }
      copy(rewriter, task, copies);
    }
    Graph made = std::move(rewriter).finish();
    name_kept(made);
    move_state(made, copies);
    graph_ = std::move(made);
  }

  void copy(ir::Rewriter& rewriter, TaskId task, const std::vector<ValueId>& copies) const {
    const auto first = moved_.lower_bound({task, 0});
    if (first == moved_.end() || first->first.first != task) {
      rewriter.copy(task);
      return;
    }
    std::vector<ValueId> operands;
    for (const ValueId operand : graph_.inputs(task)) operands.push_back(rewriter.map(operand));
    for (auto at = first; at != moved_.end() && at->first.first == task; ++at)
      operands[at->first.second] = copies[at->second];
    rewriter.copy(task, operands);
  }

  /// A tensor that is shared by modules has a name of its own at most by chance.
  void name_kept(Graph& made) const {
    for (const auto& [value, name] : kept_) {
      const ValueId kept = made.find(graph_.value(value).name);
      if (kept.valid() && ir::static_count(made.type(kept)) && !made.find(name).valid())
        made.add_state(ir::state_of(made, name, kept, ir::whole(made, kept).axes));
    }
  }

  /// Tensors of state go with those who read them.
  void move_state(Graph& made, const std::vector<ValueId>& copies) const {
    std::vector<ir::StateTensor> state = made.state();
    for (ir::StateTensor& tensor : state) {
      const auto copy = std::find_if(copies_.begin(), copies_.end(), [&](const auto& each) {
        const auto& [value, group] = each;
        const bool own = std::find(group.begin(), group.end(), tensor.name) != group.end();
        const bool module =
            is_untied(value) && group.size() == 1 && ir::module_of(group[0]) == ir::module_of(tensor.name);
        return (own || module) && graph_.value(value).name == made.value(tensor.parts[0].value).name;
      });
      if (copy == copies_.end()) continue;
      for (ir::StatePart& part : tensor.parts) part.value = copies[static_cast<size_t>(copy - copies_.begin())];
    }
    made.set_state(std::move(state));
  }

  Graph& graph_;
  const SharedTensors& known_;
  StateNames names_;
  std::vector<bool> given_;  // outputs of the graph
  std::map<TaskId, ValueId> renamings_;
  std::map<Operand, size_t> moved_;  // to copies
  std::vector<std::pair<ValueId, Names>> copies_;
  std::vector<std::pair<ValueId, std::string>> kept_;  // names of the state
  std::vector<std::vector<Reading>> copied_readings_;
  std::map<std::string, std::string> made_;
  std::map<std::string, std::vector<Reading>> readings_;
};

}  // namespace

TakenApart take_apart(Graph& graph, const SharedTensors& known) { return Apart(graph, known).run(); }

}  // namespace rannc::passes
