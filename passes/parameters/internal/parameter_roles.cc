#include "passes/parameters/internal/parameter_roles.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "ir/match/match.h"
#include "ir/op/op.h"

namespace rannc::passes {

namespace {

using ir::Graph;

bool reads_sizes_alone(const ir::OpInfo& op) { return !op.operands.empty() && op.operands[0].role == ir::Role::kShape; }

}  // namespace

bool has_one_element(const ir::ValueType& type) { return type.shape && ir::element_count(*type.shape) == ir::Dim(1); }
bool has_several_elements(const ir::ValueType& type) { return type.shape && !has_one_element(type); }

std::vector<bool> varying_values(const Graph& graph, const std::vector<ValueId>& fixed) {
  std::vector<bool> varying(graph.value_count(), false);
  for (const ValueId value : graph.values()) {
    varying[value.index()] =
        graph.kind(value) == ir::ValueKind::kInput || graph.kind(value) == ir::ValueKind::kRandomInput;
  }
  for (const ValueId value : fixed) varying[value.index()] = false;
  for (const TaskId task : graph.tasks()) {
    if (reads_sizes_alone(graph.op(task))) continue;
    bool any = false;
    for (const ValueId operand : graph.inputs(task)) any = any || (operand.valid() && varying[operand.index()]);
    for (const ValueId output : graph.outputs(task)) varying[output.index()] = any && !graph.type(output).contents;
  }
  return varying;
}

namespace {

/// Extents other than 1.
size_t extents(const Graph& graph, ValueId value) {
  const auto& shape = graph.type(value).shape;
  if (!shape) return 2;
  return static_cast<size_t>(
      std::count_if(shape->begin(), shape->end(), [](const ir::Dim& d) { return !(d == ir::Dim(1)); }));
}

class RoleFinder {
 public:
  explicit RoleFinder(const Graph& graph, const std::vector<ValueId>& fixed = {})
      : graph_(graph), varying_(varying_values(graph, fixed)), roles_(graph.value_count()) {}

  /// Tasks stand in topological order, so a value's uses are all settled when it is reached from the back.
  std::vector<Roles> run() {
    for (const ir::LossTerm& term : graph_.losses()) {  // a penalty may be all that reads a parameter
      if (!varying_[term.numerator.index()]) vote(term.numerator, {Role::kLikely});
    }
    for (uint32_t i = graph_.task_count(); i-- > 0;) {
      const TaskId task(i);
      const auto operands = graph_.inputs(task);
      for (uint32_t operand = 0; operand < operands.size(); ++operand) {
        const ValueId value = operands[operand];
        if (!value.valid() || varying_[value.index()] || !ir::is_float(graph_.type(value).dtype)) continue;
        vote(value, use_roles(task, operand, value));
      }
    }
    return std::move(roles_);
  }

 private:
  void vote(ValueId value, Roles roles) {
    Roles& all = roles_[value.index()];
    add(all, roles);
  }

  static void add(Roles& all, const Roles& more) {
    all.role = std::max(all.role, more.role);
    all.statistics = all.statistics || more.statistics;
    all.shaped = all.shaped || more.shaped;
  }

  bool makes_varying(TaskId task) const {
    const auto outputs = graph_.outputs(task);
    return std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return varying_[v.index()]; });
  }

  Roles use_roles(TaskId task, uint32_t operand, ValueId value) const {
    const ir::OpInfo& entry = graph_.op(task);
    if (entry.operands.empty() || reads_sizes_alone(entry)) return {};
    if (entry.fit != nullptr) return roles_in_bodies(task, operand);
    const ir::Role role = entry.operand(operand).role;
    if (role == ir::Role::kStatistics) return {Role::kConstant, true};
    if (role == ir::Role::kWeight) return {Role::kParameter};
    // Whatever it is used for, it is not trained through these.
    static const ir::Pattern kStopped = ir::op({"stop_gradient", "eq", "ne", "lt", "le", "gt", "ge"});
    if (is(task, kStopped)) return {};
    if (!makes_varying(task)) {
      Roles passed;
      for (const ValueId output : graph_.outputs(task)) add(passed, roles_[output.index()]);
      static const ir::Pattern kProduct = ir::op({"linear", "matmul"});
      // What keeps a parameter positive or bounded; of a constant an export holds the result.
      static const ir::Pattern kShaping = ir::op({"exp", "softplus", "sigmoid", "tanh"});
      if (operand == 0 && is(task, kProduct)) passed.role = std::min(passed.role, Role::kState);
      if (passed.role >= Role::kConstant && is(task, kShaping)) {
        if (passed.role == Role::kConstant) passed.role = Role::kLikely;
        passed.shaped = true;
      }
      // One number that scales or fills a weight may be one of the model's code.
      if (is_single(value) && !is_single(graph_.outputs(task)[0])) passed.role = std::min(passed.role, Role::kLikely);
      return passed;
    }
    return {varying_use(task, value)};
  }

  /// What the uses in the bodies of the task say, which take its last operands. What does not vary around
  /// them does not there.
  Roles roles_in_bodies(TaskId task, uint32_t operand) const {
    Roles all;
    const auto operands = graph_.inputs(task);
    for (const auto& [name, attribute] : graph_.attributes(task)) {
      const auto* const body = std::get_if<ir::Body>(&attribute);
      if (body == nullptr) continue;
      const auto& inputs = body->graph().inputs();
      const size_t first = operands.size() - inputs.size();  // by the rule of types
      std::vector<ValueId> fixed;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const ValueId value = operands[first + i];
        if (value.valid() && !varying_[value.index()]) fixed.push_back(inputs[i]);
      }
      if (operand < first) continue;
      RoleFinder inside(body->graph(), fixed);
      inside.add_uses_of_results(uses_of_results(task));
      add(all, inside.run()[inputs[operand - first].index()]);
    }
    return all;
  }

  /// Uses of the results of a task with bodies. Varying results have no roles; data chooses among weights there.
  std::vector<Roles> uses_of_results(TaskId task) const {
    std::vector<Roles> uses;
    for (const ValueId output : graph_.outputs(task))
      uses.push_back(varying_[output.index()] ? Roles{Role::kConstant} : roles_[output.index()]);
    return uses;
  }

  /// Adds the uses of a body's results, the last of which are those of its task.
  void add_uses_of_results(const std::vector<Roles>& uses) {
    const auto& results = graph_.outputs();
    for (size_t i = 1; i <= std::min(uses.size(), results.size()); ++i)
      vote(results[results.size() - i], uses[uses.size() - i]);
  }

  bool is_single(ValueId value) const { return has_one_element(graph_.type(value)); }

  bool is(TaskId task, const ir::Pattern& pattern) const { return ir::match(graph_, task, pattern).has_value(); }

  Role varying_use(TaskId task, ValueId value) const {
    static const ir::Pattern kProduct = ir::op("matmul"), kJoin = ir::op("concat"), kShift = ir::op("add"),
                             kScale = ir::op("mul"), kRecurrent = ir::op({"lstm", "gru", "rnn"}),
                             kPick = ir::op("gather_nd");
    const bool wide = extents(graph_, value) > 1;
    if (is(task, kProduct)) return leads_to_waves(task) ? Role::kConstant : Role::kParameter;
    if (is(task, kJoin) || is(task, kPick)) return Role::kLikely;
    if (is(task, kShift) && is_bias_of_one_output(task, value)) return Role::kParameter;
    if (is(task, kShift)) return wide && leads_to_softmax(task) ? Role::kConstant : Role::kLikely;
    if (is(task, kRecurrent)) return Role::kState;
    if (is(task, kScale)) return wide ? Role::kConstant : Role::kLikely;
    return Role::kConstant;
  }

  /// A row of one element behind a product with a weight that has one output. Numbers of the code have no axis.
  bool is_bias_of_one_output(TaskId task, ValueId value) const {
    static const ir::Pattern kProduct = ir::op("matmul");
    const auto& shape = graph_.type(value).shape;
    if (!shape || shape->size() != 1 || !((*shape)[0] == ir::Dim(1))) return false;
    const auto operands = graph_.inputs(task);
    const ValueId other = operands[0] == value ? operands[1] : operands[0];
    const TaskId product = graph_.producer(other);
    if (!product.valid() || !is(product, kProduct) || varying_[graph_.inputs(product)[1].index()]) return false;
    const auto& made = graph_.type(other).shape;
    return made && !made->empty() && made->back() == ir::Dim(1);
  }

  /// Attention scores: the sum meets a softmax before any other product.
  bool leads_to_softmax(TaskId task) const {
    static const ir::Path kScores = {
        .through = {"add", "mul", "div", "where", "maximum", "cast", "identity", "reshape"},
        .to = {"softmax", "log_softmax"}};
    return ir::leads_to(graph_, task, kScores);
  }

  /// Frequencies of rotary positions: the product's sine and cosine are taken.
  bool leads_to_waves(TaskId task) const {
    static const ir::Path kAngles = {
        .through = {"permute", "concat", "mul", "cast", "identity", "unsqueeze", "reshape", "squeeze"},
        .to = {"sin", "cos"}};
    return ir::leads_to(graph_, task, kAngles);
  }

  const Graph& graph_;
  std::vector<bool> varying_;
  std::vector<Roles> roles_;
};

}  // namespace

std::vector<Roles> parameter_roles(const Graph& graph) { return RoleFinder(graph).run(); }

}  // namespace rannc::passes
