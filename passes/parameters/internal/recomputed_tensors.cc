#include "passes/parameters/internal/recomputed_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "ir/graph/rewriter.h"
#include "ir/op/op.h"
#include "ir/state/state.h"
#include "passes/parameters/internal/formula_search.h"
#include "passes/parameters/internal/tensor_origins.h"

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

/// A tensor that is made of others of the file.
struct Making {
  ValueId target;
  std::vector<ValueId> leaves;
  FoundFormula found;
};

class Recomputing {
 public:
  Recomputing(Graph& graph, const ir::StoredNotes& file, const MadeOf& made_of, const std::set<std::string>& kept,
              const Evaluator* evaluator)
      : graph_(graph),
        file_(file),
        made_of_(made_of),
        kept_(kept),
        evaluator_(evaluator),
        origins_(graph, file, made_of) {}

  Recomputed run() {
    Recomputed result;
    for (const ValueId value : graph_.values()) {
      const Graph::Value& found = graph_.value(value);
      const std::string name(found.name);
      const bool open = found.kind == ir::ValueKind::kConstant && ir::is_float(found.type.dtype) &&
                        !file_.listed.contains(name) && !kept_.contains(name) && graph_.has_uses(value);
      if (!open || origins_.of(value) != Origin::kParameters) continue;
      std::vector<std::string> sources = origins_.sources(value);
      const auto is_lost = [&](const std::string& source) { return !value_of(graph_, source).valid(); };
      const bool all = std::none_of(sources.begin(), sources.end(), is_lost);
      std::erase_if(sources, is_lost);
      if (sources.empty()) continue;
      auto making = all ? making_of(value) : std::nullopt;
      if (making) {
        result.made.insert(name);
        makings_.push_back(*std::move(making));
      } else {
        result.open.push_back({name, std::move(sources)});
      }
    }
    if (!makings_.empty()) rewrite();
    return result;
  }

 private:
  std::optional<Making> making_of(ValueId value) const {
    const Graph::Value& target = graph_.value(value);
    if (!target.data.present() || !ir::static_count(target.type)) return std::nullopt;
    FormulaQuestion question{{}, {target.type, target.data}, {}, false};
    std::vector<ValueId> leaves;
    const std::string own(target.name);
    for (const std::string& name : made_of_.at(own)) {
      if (!file_.listed.contains(name)) {
        if (is_traced(name)) question.made.push_back(name);
        continue;
      }
      const ValueId leaf = value_of(graph_, name);
      const bool there = leaf.valid() && ir::static_count(graph_.type(leaf)) && graph_.value(leaf).data.present();
      if (there && ir::is_float(graph_.type(leaf).dtype)) {
        if (std::find(leaves.begin(), leaves.end(), leaf) != leaves.end()) continue;
        leaves.push_back(leaf);
        question.leaves.push_back({graph_.type(leaf), graph_.value(leaf).data});
      } else if (file_.listed.at(name) == ir::ValueKind::kParameter) {
        return std::nullopt;
      } else {
        question.lost_constant = true;
      }
    }
    if (is_traced(own)) question.made.push_back(own);
    auto found = find_formula(question, evaluator_);
    return found ? std::optional(Making{value, std::move(leaves), *std::move(found)}) : std::nullopt;
  }

  void rewrite() {
    std::vector<bool> keep(graph_.value_count(), true);
    for (const Making& making : makings_) keep[making.target.index()] = false;
    ir::Rewriter rewriter(graph_, keep);
    for (const Making& making : makings_) rewriter.replace(making.target, make(rewriter, making));
    for (const TaskId task : graph_.tasks()) rewriter.copy(task);
    graph_ = std::move(rewriter).finish();
  }

  ValueId make(ir::Rewriter& rewriter, const Making& making) const {
    Graph& to = rewriter.graph();
    const Formula& formula = making.found.formula;
    const std::string name(graph_.value(making.target).name);
    std::map<size_t, ValueId> values;
    for (size_t i = 0; i < making.leaves.size(); ++i) values[i] = rewriter.map(making.leaves[i]);
    for (size_t i = making.leaves.size(); i <= making.found.result; ++i) {
      const Formula::Value& value = formula[i];
      const bool last = i == making.found.result;
      const std::string made = last ? name : fmt::format("{}.{}", name, i);
      if (value.op == nullptr) {
        values[i] = to.add_value(ir::ValueKind::kConstant, made, value.tensor.type, value.tensor.data);
        continue;
      }
      std::vector<ValueId> operands;
      for (const size_t operand : value.operands) operands.push_back(values.at(operand));
      const TaskId task = to.add_task(*value.op, operands, value.attributes, std::vector{made});
      RANNC_CHECK(ir::infer_types(to, task).ok()) << "the formula was computed with these types";
      values[i] = to.outputs(task)[0];
    }
    return values.at(making.found.result);
  }

  Graph& graph_;
  const ir::StoredNotes& file_;
  const MadeOf& made_of_;
  const std::set<std::string>& kept_;
  const Evaluator* evaluator_;
  const TensorOrigins origins_;
  std::vector<Making> makings_;
};

}  // namespace

Recomputed recompute(Graph& graph, const ir::StoredNotes& file, const MadeOf& made_of,
                     const std::set<std::string>& kept, const Evaluator* evaluator) {
  if (made_of.empty() || file.listed.empty()) return {};
  return Recomputing(graph, file, made_of, kept, evaluator).run();
}

}  // namespace rannc::passes
