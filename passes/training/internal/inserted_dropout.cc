#include "passes/training/internal/inserted_dropout.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ir/base/split_mix.h"
#include "ir/graph/results.h"
#include "ir/graph/rewriter.h"
#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::passes {

namespace {

using ir::RandomInput;

/// Returns the random input that a dropout multiplies by; invalid if the task is not a dropout.
ValueId factor(const ir::Graph& graph, TaskId task) {
  static const ir::Ops kProduct{"mul"};
  if (!task.valid() || !kProduct.contains(graph.op(task))) return {};
  for (const ValueId operand : graph.inputs(task)) {
    const RandomInput* const random_input = graph.random_input(operand);
    if (random_input != nullptr && random_input->of == RandomInput::Of::kBernoulli) return operand;
  }
  return {};
}

/// Unique keys derived from names, beyond the range that importers and `join_loss` use.
class Keys {
 public:
  explicit Keys(const ir::Graph& graph) {
    for (const ValueId value : graph.values()) {
      if (const RandomInput* const random_input = graph.random_input(value)) taken_.insert(random_input->key);
    }
  }
  uint64_t of(std::string_view name) {
    uint64_t hash = 0;
    for (const char c : name) hash = ir::split_mix(hash ^ static_cast<unsigned char>(c));
    constexpr uint64_t kBeyond = uint64_t{1} << 61;
    uint64_t key = hash >> 3 | kBeyond;
    while (!taken_.insert(key).second) ++key;
    return key;
  }

 private:
  std::set<uint64_t> taken_;
};

/// Random inputs that get another dropout probability.
std::map<ValueId, double> changed_random_inputs(const ir::Graph& graph, const std::map<ValueId, double>& shares) {
  std::map<ValueId, double> changed;
  for (const auto& [value, share] : shares) {
    const ValueId random = factor(graph, graph.producer(value));
    if (random.valid()) changed.emplace(random, share);
  }
  return changed;
}

std::vector<bool> all_but(const ir::Graph& graph, const std::map<ValueId, double>& changed) {
  std::vector<bool> kept(graph.value_count(), true);
  for (const auto& [random, share] : changed) kept[random.index()] = false;
  return kept;
}

class Insertion {
 public:
  Insertion(const ir::Graph& from, const std::map<ValueId, double>& shares, const std::map<ValueId, double>& changed)
      : from_(from), shares_(shares), rewriter_(from, all_but(from, changed)), keys_(from) {
    for (const auto& [random, share] : changed) {
      RandomInput random_input = *from.random_input(random);
      random_input.drop = share;
      rewriter_.replace(random,
                        rewriter_.graph().add_random_input(from.value(random).name, from.type(random), random_input));
    }
  }

  Result<ir::Graph> run() {
    for (const TaskId task : from_.tasks()) {
      const auto outputs = from_.outputs(task);
      const bool any = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return shares_.contains(v); });
      if (!any || factor(from_, task).valid()) {
        rewriter_.copy(task);
      } else {
        RANNC_TRY(drop(task));
      }
    }
    return std::move(rewriter_).finish();
  }

 private:
  Result<void> drop(TaskId task) {
    ir::Graph& to = rewriter_.graph();
    const ir::Graph::Task old = from_.task(task);
    std::vector<ValueId> operands;
    for (const ValueId input : old.inputs) operands.push_back(rewriter_.map(input));
    std::vector<std::string> names;
    for (const ValueId output : old.outputs) {
      names.emplace_back(from_.value(output).name);
      if (shares_.contains(output)) names.back() += ".whole";
    }
    const ir::OpInfo& op = old.op->known() ? *old.op : to.foreign_op(old.op->name);
    const TaskId made = to.add_task(op, operands, old.attributes, names, old.location);
    for (size_t i = 0; i < old.outputs.size(); ++i) {
      const ValueId whole = to.outputs(made)[i];
      to.set_type(whole, from_.type(old.outputs[i]));
      rewriter_.replace(old.outputs[i], whole);
    }
    for (const ValueId output : old.outputs) {
      const auto share = shares_.find(output);
      if (share != shares_.end()) RANNC_TRY(multiply(output, share->second));
    }
    return {};
  }

  Result<void> multiply(ValueId output, double share) {
    ir::Graph& to = rewriter_.graph();
    const std::string name(from_.value(output).name);
    ir::ValueType type = from_.type(output);
    type.batch.mix = ir::Mix::kNone;
    const RandomInput random_input{.of = RandomInput::Of::kBernoulli, .drop = share, .key = keys_.of(name)};
    const ValueId random = to.add_random_input(name + ".random", std::move(type), random_input);
    const ValueId dropped =
        to.add(ir::core("mul"), {rewriter_.map(output), random}, {}, name, from_.location(from_.producer(output)));
    RANNC_TRY(ir::infer_types(to, to.producer(dropped)));
    rewriter_.replace(output, dropped);
    return {};
  }

  const ir::Graph& from_;
  const std::map<ValueId, double>& shares_;
  ir::Rewriter rewriter_;
  Keys keys_;
};

}  // namespace

std::optional<double> dropped_share(const ir::Graph& graph, ValueId value) {
  const ValueId random = factor(graph, graph.producer(value));
  return random.valid() ? std::optional(graph.random_input(random)->drop) : std::nullopt;
}

ValueId dropped_value(const ir::Graph& graph, ValueId value) {
  const std::vector<ir::Graph::Use> uses = graph.uses(value);
  if (uses.size() != 1 || !factor(graph, uses[0].task).valid()) return value;
  bool given = false;
  ir::for_each_result(graph, [&](ValueId result) { given = given || result == value; });
  return given ? value : graph.outputs(uses[0].task)[0];
}

Result<ir::Graph> with_dropouts(const ir::Graph& graph, const std::map<ValueId, double>& shares) {
  return Insertion(graph, shares, changed_random_inputs(graph, shares)).run();
}

}  // namespace rannc::passes
