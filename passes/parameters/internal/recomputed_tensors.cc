#include "passes/parameters/internal/recomputed_tensors.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/graph/constant.h"
#include "ir/op/op.h"
#include "ir/state/name_source.h"
#include "ir/state/state.h"
#include "passes/parameters/internal/formula_search.h"
#include "passes/parameters/internal/formula_steps.h"
#include "passes/parameters/internal/verdicts.h"

namespace rannc::passes {

namespace {

using ir::Graph;

/// The stored value that holds all of a tensor of the program's state, in whatever layout; invalid: none does.
ValueId value_of(const Graph& graph, const std::string& name) {
  const ValueId own = graph.find(name);
  if (own.valid() && !graph.producer(own).valid()) return own;
  for (const ir::StateTensor& tensor : graph.state()) {
    if (tensor.name != name || tensor.parts.size() != 1) continue;
    const ir::StatePart& part = tensor.parts[0];
    if (part.extent == ir::whole(graph, part.value).extent) return part.value;
  }
  return {};
}

class Recomputing {
 public:
  Recomputing(Graph& graph, const ir::StoredNotes& file, const std::set<std::string>& kept, const Evaluator* evaluator)
      : graph_(graph), file_(file), kept_(kept), evaluator_(evaluator), verdicts_(graph, file) {}

  Recomputed run() {
    Recomputed result;
    for (const ValueId value : graph_.values()) {
      const Graph::Value& found = graph_.value(value);
      const std::string name(found.name);
      const bool open = found.kind == ir::ValueKind::kConstant && ir::is_float(found.type.dtype) &&
                        !file_.listed.contains(name) && !kept_.contains(name) && graph_.has_uses(value);
      if (!open || verdicts_.origin(value) != Origin::kDerived) continue;
      std::vector<std::string> sources = verdicts_.sources(value);
      const auto is_lost = [&](const std::string& source) { return !value_of(graph_, source).valid(); };
      const bool all = std::none_of(sources.begin(), sources.end(), is_lost);
      if (sources.size() == 1 && !all && is_part(value)) parts_[sources[0]].push_back(value);
      std::erase_if(sources, is_lost);
      if (sources.empty()) continue;
      auto derivation = all ? derivation_of(value) : std::nullopt;
      if (derivation) {
        result.made.insert(name);
        derivations_.push_back(*std::move(derivation));
      } else {
        result.open.push_back({name, std::move(sources)});
      }
    }
    for (auto& [source, parts] : parts_) relate(std::move(parts), result);
    if (!derivations_.empty()) compute_targets(graph_, derivations_);
    return result;
  }

 private:
  int64_t size_of(ValueId value) const { return ir::static_count(graph_.type(value)).value_or(0); }

  /// Whether a tensor consists of elements of its source, by its name and those of intermediate values.
  bool is_part(ValueId value) const {
    const std::string own(graph_.value(value).name);
    std::vector<std::string> made = file_.folded.at(own);
    std::erase_if(made, [&](const std::string& name) { return file_.listed.contains(name); });
    made.push_back(own);
    return std::all_of(made.begin(), made.end(), [](const std::string& name) {
      const KnownStep* const step = is_traced(name) ? known_step(ir::traced_op(name)) : nullptr;
      return !is_traced(name) || (step != nullptr && (step->step == Step::kPick || step->step == Step::kTurn ||
                                                      step->step == Step::kLayout));
    });
  }

  bool have_common_numbers(ValueId first, ValueId second) const {
    const auto numbers = [&](ValueId value) {
      const auto found = ir::decode_numbers(graph_.type(value), graph_.value(value).data, size_of(value));
      return found.ok() ? std::set<double>(found->begin(), found->end()) : std::set<double>();
    };
    const std::set<double> a = numbers(first), b = numbers(second);
    return a.empty() || b.empty() || std::any_of(a.begin(), a.end(), [&](double number) { return b.contains(number); });
  }

  /// Relates parts of a parameter that the file lacks. One that lies in another, as `p[2:4]` in `p[:6]`, is recomputed
  /// from it. Parts without common numbers share no element.
  void relate(std::vector<ValueId> parts, Recomputed& result) {
    std::stable_sort(parts.begin(), parts.end(), [&](ValueId a, ValueId b) { return size_of(a) > size_of(b); });
    std::vector<ValueId> wholes;
    for (const ValueId part : parts) {
      std::vector<std::string> others;
      std::optional<Derivation> derivation;
      for (const ValueId whole : wholes) {
        if (derivation || !have_common_numbers(whole, part)) continue;
        others.emplace_back(graph_.value(whole).name);
        derivation = derivation_of(part, whole);
      }
      if (derivation) {
        result.made.emplace(graph_.value(part).name);
        derivations_.push_back(*std::move(derivation));
        continue;
      }
      wholes.push_back(part);
      if (!others.empty()) result.open.push_back({std::string(graph_.value(part).name), std::move(others)});
    }
  }

  /// `whole`, if valid, stands for the only parameter that the target was computed from.
  std::optional<Derivation> derivation_of(ValueId value, ValueId whole = {}) const {
    const Graph::Value& target = graph_.value(value);
    if (!target.data.present() || !ir::static_count(target.type)) return std::nullopt;
    FormulaQuestion question{{}, {target.type, target.data}, {}, false};
    std::vector<ValueId> leaves;
    const std::string own(target.name);
    for (const std::string& name : file_.folded.at(own)) {
      if (!file_.listed.contains(name)) {
        if (is_traced(name)) question.made.push_back(name);
        continue;
      }
      const bool parameter = file_.listed.at(name) == ir::ValueKind::kParameter;
      const ValueId leaf = whole.valid() && parameter ? whole : value_of(graph_, name);
      const bool there = leaf.valid() && ir::static_count(graph_.type(leaf)) && graph_.value(leaf).data.present();
      if (there && ir::is_float(graph_.type(leaf).dtype)) {
        if (std::find(leaves.begin(), leaves.end(), leaf) != leaves.end()) continue;
        leaves.push_back(leaf);
        question.leaves.push_back({graph_.type(leaf), graph_.value(leaf).data});
      } else if (parameter) {
        return std::nullopt;
      } else {
        question.lost_constant = true;
      }
    }
    if (is_traced(own)) question.made.push_back(own);
    auto found = find_formula(question, evaluator_);
    return found ? std::optional(Derivation{value, std::move(leaves), *std::move(found)}) : std::nullopt;
  }

  Graph& graph_;
  const ir::StoredNotes& file_;
  const std::set<std::string>& kept_;
  const Evaluator* evaluator_;
  const Verdicts verdicts_;
  std::vector<Derivation> derivations_;
  std::map<std::string, std::vector<ValueId>> parts_;  ///< by the only parameter they were computed from, which is lost
};

}  // namespace

Recomputed recompute(Graph& graph, const ir::StoredNotes& file, const std::set<std::string>& kept,
                     const Evaluator* evaluator) {
  if (file.folded.empty() || file.listed.empty()) return {};
  return Recomputing(graph, file, kept, evaluator).run();
}

}  // namespace rannc::passes
