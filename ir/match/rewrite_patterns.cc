#include "ir/match/rewrite_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "ir/dim/dim_bounds.h"
#include "ir/graph/results.h"
#include "ir/match/internal/matcher.h"
#include "ir/op/op.h"

namespace rannc::ir {

Location fused_location(const Graph& graph, std::span<const TaskId> tasks) {
  if (tasks.empty()) return {};
  Location where = graph.location(tasks[0]);
  std::vector<TaskId> ascending(tasks.begin(), tasks.end());
  std::sort(ascending.begin(), ascending.end());
  std::vector<std::string> nodes;
  for (const TaskId task : ascending) {
    std::string node = graph.location(task).node;
    if (!node.empty() && std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(std::move(node));
  }
  where.node = fmt::format("{}", fmt::join(nodes, ", "));
  return where;
}

Builder::Builder(Rewriter& rewriter, const Match& match)
    : rewriter_(rewriter), match_(match), where_(fused_location(match.graph(), match.tasks())) {}

// A name that no value of the old graph has, so that values copied later keep their names.
std::string Builder::fresh_name(std::string_view op) const {
  const Graph& from = match_.graph();
  const std::string stem = fmt::format("{}.{}", from.value(from.outputs(match_.tasks()[0])[0]).name, op);
  std::string name = stem;
  for (int suffix = 1; from.find(name).valid(); ++suffix) name = fmt::format("{}.{}", stem, suffix);
  return name;
}

TaskId Builder::add(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes,
                    std::span<const std::string> names) {
  Graph& to = graph();
  const TaskId task = to.add_task(core(op), operands, std::move(attributes), names, where_);
  const bool typed = std::all_of(operands.begin(), operands.end(),
                                 [&](ValueId operand) { return !operand.valid() || to.type(operand).shape; });
  if (typed) {
    const auto inferred = infer_types(to, task);
    RANNC_CHECK(inferred.ok()) << inferred.diagnostic().str();
  }
  return task;
}

ValueId Builder::emit(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes) {
  const std::array names = {fresh_name(op)};
  return graph().outputs(add(op, operands, std::move(attributes), names))[0];
}

std::vector<ValueId> Builder::result(std::string_view op, const std::vector<ValueId>& operands, Attributes attributes) {
  const Graph& from = match_.graph();
  std::vector<std::string> names;
  for (const ValueId output : from.outputs(match_.tasks()[0])) names.emplace_back(from.value(output).name);
  const auto made = graph().outputs(add(op, operands, std::move(attributes), names));
  return {made.begin(), made.end()};
}

size_t Rewritten::total() const { return std::accumulate(counts.begin(), counts.end(), size_t{0}); }

namespace {

bool fits(const ValueType& made, const ValueType& wanted) {
  if (!made.shape || !wanted.shape) return true;
  if (made.dtype != wanted.dtype || made.shape->size() != wanted.shape->size()) return false;
  return std::equal(made.shape->begin(), made.shape->end(), wanted.shape->begin(),
                    [](const Dim& a, const Dim& b) { return certainly_equal(a, b).value_or(true); });
}

// One sweep: a first walk over the tasks finds matches, a second one builds the new graph.
class Sweep {
 public:
  Sweep(const Graph& from, std::span<const Rewrite> rules)
      : from_(from),
        rules_(rules),
        results_(results_of(from)),
        matcher_(from, &results_),
        state_(from.task_count(), kFree),
        claim_(from.task_count(), kFree) {}

  // Finds matches. Returns whether there are any.
  bool find() {
    for (uint32_t i = from_.task_count(); i-- > 0;) {
      if (state_[i] == kFree) find_at(TaskId(i));
    }
    return !found_.empty();
  }

  Graph build(std::vector<size_t>& counts) {
    Rewriter rewriter(from_);
    for (const TaskId task : from_.tasks()) {
      const uint32_t state = state_[task.index()];
      if (state == kFree) rewriter.copy(task);
      if (state < found_.size()) replace(rewriter, found_[state], counts);
    }
    return std::move(rewriter).finish();
  }

  uint64_t steps() const { return matcher_.steps(); }

 private:
  struct Found {
    uint32_t rule;
    Match match;
  };
  static constexpr uint32_t kFree = UINT32_MAX, kConsumed = UINT32_MAX - 1;  // else: first task of that match

  void find_at(TaskId task) {
    if (from_.outputs(task).empty()) return;
    const auto accept = [this, task](const Match& match) { return may_replace(task, match); };
    for (uint32_t rule = 0; rule < rules_.size(); ++rule) {
      if (!matcher_.match(rules_[rule].pattern, from_.outputs(task)[0], accept)) continue;
      const Match& match = matcher_.found();
      for (const TaskId consumed : match.tasks()) state_[consumed.index()] = kConsumed;
      state_[task.index()] = static_cast<uint32_t>(found_.size());
      found_.push_back({rule, match});
      return;
    }
  }

  bool may_replace(TaskId first, const Match& match) {
    RANNC_CHECK(!match.tasks().empty() && match.tasks()[0] == first) << "a rule's pattern does not begin with a task";
    return !names_result(match) && may_consume(match.tasks());
  }

  // Whether the match is an identity that names an output of the graph. Replacing it would recreate it.
  bool names_result(const Match& match) const {
    static const Ops kIdentity{"identity"};
    const TaskId task = match.tasks()[0];
    return match.tasks().size() == 1 && kIdentity.contains(from_.op(task)) && results_[from_.outputs(task)[0].index()];
  }

  bool may_consume(const std::vector<TaskId>& tasks) {
    const uint32_t number = ++claims_;
    for (const TaskId task : tasks) {
      if (state_[task.index()] != kFree) return false;
      claim_[task.index()] = number;
    }
    return std::none_of(tasks.begin() + 1, tasks.end(), [&](TaskId inner) {
      const auto outputs = from_.outputs(inner);
      return std::any_of(outputs.begin(), outputs.end(), [&](ValueId output) {
        return results_[output.index()] ||
               from_.any_use(output, [&](Graph::Use use) { return claim_[use.task.index()] != number; });
      });
    });
  }

  void replace(Rewriter& rewriter, const Found& found, std::vector<size_t>& counts) {
    const Rewrite& rule = rules_[found.rule];
    Builder builder(rewriter, found.match);
    const std::vector<ValueId> made = rule.build(found.match, builder);
    const auto outputs = from_.outputs(found.match.tasks()[0]);
    RANNC_CHECK(made.size() == outputs.size())
        << rule.name << " makes " << made.size() << " values for " << outputs.size();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId old = outputs[i];
      if (!made[i].valid()) {
        RANNC_CHECK(!from_.has_uses(old) && !results_[old.index()]) << rule.name << " leaves out a value that is read";
        continue;
      }
      RANNC_CHECK(fits(rewriter.graph().type(made[i]), from_.type(old)))
          << rule.name << " changes the type of %" << from_.value(old).name;
      rewriter.replace(old, under_its_name(rewriter.graph(), found.match, old, made[i]));
    }
    ++counts[found.rule];
  }

  ValueId under_its_name(Graph& to, const Match& match, ValueId old, ValueId made) const {
    const std::string name(from_.value(old).name);
    if (!results_[old.index()] || to.value(made).name == name) return made;
    const ValueId named = to.add(core("identity"), {made}, {}, name, fused_location(from_, match.tasks()));
    to.set_type(named, to.type(made));
    return named;
  }

  const Graph& from_;
  std::span<const Rewrite> rules_;
  std::vector<bool> results_;
  Matcher matcher_;
  std::vector<uint32_t> state_;  // per task
  std::vector<uint32_t> claim_;  // per task, the last match that claimed it
  uint32_t claims_ = 0;
  std::vector<Found> found_;
};

}  // namespace

Rewritten rewrite(Graph& graph, std::span<const Rewrite> rules, uint32_t most_sweeps) {
  Rewritten done;
  done.counts.resize(rules.size());
  while (true) {
    Sweep sweep(graph, rules);
    const bool any = sweep.find();
    done.steps += sweep.steps();
    done.settled = !any;
    if (!any || done.sweeps == most_sweeps) return done;
    graph = sweep.build(done.counts);
    ++done.sweeps;
  }
}

}  // namespace rannc::ir
