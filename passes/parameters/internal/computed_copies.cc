#include "passes/parameters/internal/computed_copies.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ir/graph/constant.h"
#include "ir/state/name_source.h"
#include "ir/state/state.h"
#include "passes/internal/state_names.h"
#include "passes/parameters/internal/copy_forms.h"

namespace rannc::passes {

namespace {

using ir::Graph;

constexpr int64_t kMostElements = 1 << 24;

struct Copy {
  ValueId source;
  CopyForm form;
};

std::optional<Numbers> numbers_of(const Graph& graph, ValueId value) {
  const Graph::Value& found = graph.value(value);
  if (!found.data.present() || !ir::static_count(found.type)) return std::nullopt;
  auto elements = ir::decode_numbers(found.type, found.data, kMostElements);
  if (!elements.ok()) return std::nullopt;
  Numbers numbers{found.type.dtype, {}, *std::move(elements)};
  for (const ir::Dim& dim : *found.type.shape) numbers.shape.push_back(dim.constant());
  return numbers;
}

/// One number in many places says nothing.
bool is_repeated(const Numbers& numbers) {
  const auto& all = numbers.elements;
  return all.size() > 1 && std::all_of(all.begin(), all.end(), [&](double x) { return x == all[0]; });
}

class Finder {
 public:
  Finder(const Graph& graph, const ir::StoredNotes& file, const std::set<std::string>& kept)
      : graph_(graph), file_(file), kept_(kept) {
    for (const ValueId value : graph.values()) {
      if (!is_stored(value)) continue;
      for (const std::string& module : modules_of(value)) readers_[module].push_back(value);
    }
  }

  std::vector<Derivation> find(std::vector<ComputedCopy>& report) {
    std::vector<Derivation> found;
    std::set<ValueId> copies;
    for (const ValueId value : graph_.values()) {
      const std::string name(graph_.value(value).name);
      if (!is_stored(value) || !ir::is_folded(name) || kept_.contains(name)) continue;
      std::vector<Copy> ways = ways_to(value, copies);
      if (ways.size() != 1) continue;
      auto& [source, form] = ways[0];
      copies.insert(value);
      report.push_back({name, std::string(graph_.value(source).name), std::move(form.text),
                        ir::static_count(graph_.type(source)) == 1});
      found.push_back({value, {source}, std::move(form.formula)});
    }
    return found;
  }

 private:
  bool is_stored(ValueId value) const {
    const Graph::Value& found = graph_.value(value);
    return found.kind == ir::ValueKind::kConstant && !found.producer.valid() && ir::is_float(found.type.dtype) &&
           !file_.literals.contains(std::string(found.name));
  }

  /// Whether the file says which tensor of the program's state is read under a made-up name.
  bool is_of_state(const std::string& name) const {
    const auto found = file_.readings.find(name);
    return found != file_.readings.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [](const ir::Reading& reading) { return !reading.state.empty(); });
  }

  std::set<std::string> modules_of(ValueId value) const { return modules_reading(file_, graph_.value(value).name); }

  const std::optional<Numbers>& numbers(ValueId value) {
    const auto [known, fresh] = numbers_.try_emplace(value);
    if (fresh) known->second = numbers_of(graph_, value);
    return known->second;
  }

  /// From tensors of the program, else from an earlier one of a made-up name. What has a name by its place in a module
  /// is a view of another tensor of that module, or that tensor of state.
  std::vector<Copy> ways_to(ValueId value, const std::set<ValueId>& copies) {
    const auto wanted = ir::static_count(graph_.type(value));
    const bool placed = is_of_state(std::string(graph_.value(value).name));
    if (!wanted || *wanted > kMostElements || (placed && *wanted == 1)) return {};
    std::vector<Copy> of_program, of_exporter;
    std::set<ValueId> sources;
    for (const std::string& module : modules_of(value))
      sources.insert(readers_[module].begin(), readers_[module].end());
    for (const ValueId source : sources) {
      const auto held = ir::static_count(graph_.type(source));
      const bool own = ir::is_folded(graph_.value(source).name);
      const bool later = own && (placed || source >= value || copies.contains(source) || *wanted == 1);
      if (later || source == value || !held || *held < *wanted || *held > kMostElements) continue;
      if (!numbers(source) || !numbers(value) || is_repeated(*numbers(value))) continue;
      for (CopyForm& form : forms_of_copy(*numbers(source), *numbers(value))) {
        if (form.is_view || (!own && !placed)) (own ? of_exporter : of_program).push_back({source, std::move(form)});
      }
    }
    return of_program.empty() ? of_exporter : of_program;
  }

  const Graph& graph_;
  const ir::StoredNotes& file_;
  const std::set<std::string>& kept_;
  std::map<std::string, std::vector<ValueId>> readers_;  ///< stored tensors by the modules that read them
  std::map<ValueId, std::optional<Numbers>> numbers_;
};

/// What is computed again is no tensor of state, whatever its place in a module says.
void forget_places(Graph& graph, const std::vector<Derivation>& derivations) {
  std::set<ValueId> targets;
  for (const Derivation& each : derivations) targets.insert(each.target);
  std::vector<ir::StateTensor> state = graph.state();
  std::erase_if(state, [&](const ir::StateTensor& tensor) {
    return std::any_of(tensor.parts.begin(), tensor.parts.end(),
                       [&](const ir::StatePart& part) { return targets.contains(part.value); });
  });
  graph.set_state(std::move(state));
}

}  // namespace

std::vector<ComputedCopy> put_back_copies(Graph& graph, const ir::StoredNotes& file,
                                          const std::set<std::string>& kept) {
  std::vector<ComputedCopy> copies;
  if (!file.listed.empty()) return copies;
  const std::vector<Derivation> derivations = Finder(graph, file, kept).find(copies);
  if (derivations.empty()) return copies;
  forget_places(graph, derivations);
  compute_targets(graph, derivations);
  return copies;
}

}  // namespace rannc::passes
