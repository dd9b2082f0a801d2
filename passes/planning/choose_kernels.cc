#include "passes/planning/choose_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph/execution_frequency.h"
#include "ir/graph/memory_format.h"
#include "ir/graph/rewriter.h"
#include "ir/graph/structure.h"
#include "ir/op/op.h"
#include "ir/plan/plan.h"
#include "ir/state/statistics.h"
#include "passes/planning/internal/least_cut.h"

namespace rannc::passes {

using ir::kAlgorithm, ir::kChannelsLast;

namespace {

constexpr double kEqual = 0.98;  // a time beyond this share of another's is no gain

bool flag(const ir::Graph& graph, TaskId task) {
  const ir::OpAttributes attributes(graph.op(task), graph.attributes(task));
  return attributes.declares(kChannelsLast) && attributes.flag(kChannelsLast);
}

/// Returns whether a value may need a copy into another layout. Weights and random inputs have the layout of their
/// readers.
bool is_image(const ir::Graph& graph, ValueId value) {
  const ir::ValueKind kind = graph.kind(value);
  if (kind != ir::ValueKind::kActivation && kind != ir::ValueKind::kInput) return false;
  const ir::ValueType& type = graph.type(value);
  return type.shape && type.shape->size() == 4 && ir::is_float(type.dtype);
}

/// Returns whether the result of a task without a layout of its own has the layout of the images that it reads.
bool follows_images(const ir::Graph& graph, TaskId task) {
  const std::vector<ValueId> as = ir::laid_out_as(graph, task);
  return !as.empty() && std::all_of(as.begin(), as.end(), [&](ValueId value) { return is_image(graph, value); });
}

/// Whether both memory formats of a weight [out, in, height, width] are the same.
bool has_one_format(const ir::ValueType& weight) {
  const ir::Shape& shape = *weight.shape;
  return shape[1] == ir::Dim(1) || (shape[2] == ir::Dim(1) && shape[3] == ir::Dim(1));
}

/// Omits an attribute with the default value, so that equal tasks have equal attributes.
ir::Attributes with(const ir::OpInfo& op, ir::Attributes attributes, std::string_view name, ir::Attribute value) {
  attributes.erase(name);
  if (!(op.attribute(name)->otherwise == value)) attributes.set(name, std::move(value));
  return attributes;
}

/// Returns the variants of a task that its operator's rule allows, the current one first.
std::vector<ir::Attributes> ways(const ir::Graph& graph, TaskId task) {
  const ir::OpInfo& op = graph.op(task);
  const auto operands = ir::type_list(graph, graph.inputs(task));
  std::vector<ir::Attributes> found{graph.attributes(task)};
  const ir::AttributeInfo* const algorithms = op.attribute(kAlgorithm);
  const std::vector<std::string_view> kernels =
      algorithms == nullptr ? std::vector<std::string_view>{""} : algorithms->allowed;
  for (const bool last : {false, true}) {
    for (const std::string_view kernel : kernels) {
      ir::Attributes way = with(op, graph.attributes(task), kChannelsLast, last);
      if (algorithms != nullptr) way = with(op, std::move(way), kAlgorithm, std::string(kernel));
      const auto count = static_cast<uint32_t>(graph.outputs(task).size());
      if (way == found[0] || !ir::types_of({op, operands, way, graph.batch_symbol(), count}).ok()) continue;
      found.push_back(std::move(way));
    }
  }
  return found;
}

/// Adds the alternatives of a graph's tasks, each kind once.
class Alternatives {
 public:
  explicit Alternatives(const ir::Graph& graph)
      : graph_(graph.clone()), roles_(ir::gradient_roles(graph, ir::needs_gradient(graph))) {
    if (!has_alternatives(graph)) return;
    for (const TaskId task : graph.tasks()) {
      const bool several = has_alternatives(graph, task);
      if (several) ways_of(task);
      if (!several && !follows_images(graph, task)) continue;
      for (const ValueId value : graph.inputs(task)) add_copies(value);
      add_copies(graph.outputs(task)[0]);
    }
  }
  const ir::Graph& graph() const { return graph_; }
  const std::vector<ir::GradientRole>& roles() const { return roles_; }
  ir::Graph take() && { return std::move(graph_); }

  /// A task that computes like `task` does now, then the alternatives.
  const std::vector<TaskId>& ways_of(TaskId task) {
    const auto [at, fresh] = ways_.try_emplace(numbers(task));
    if (!fresh) return at->second;
    at->second.push_back(task);
    std::vector<ir::Attributes> all = ways(graph_, task);
    for (size_t i = 1; i < all.size(); ++i) at->second.push_back(add(task, std::move(all[i])));
    return at->second;
  }

  /// Tasks that copy such a value into one layout and into the other.
  const std::array<TaskId, 2>& copies_of(ValueId value) {
    const auto kind = std::pair(graph_.type_number(value), roles_[value.index()]);
    const auto [at, fresh] = copies_.try_emplace(kind);
    if (!fresh) return at->second;
    for (const bool last : {false, true}) {
      const ir::OpInfo& op = ir::core("contiguous");
      const ValueId copy = graph_.add(op, {value}, with(op, {}, kChannelsLast, last));
      finish(graph_.producer(copy));
      at->second[last ? 1 : 0] = graph_.producer(copy);
    }
    return at->second;
  }

 private:
  std::vector<uint32_t> numbers(TaskId task) const {
    std::vector<uint32_t> numbers;
    ir::structural_numbers(graph_, task, roles_, numbers);
    return numbers;
  }

  TaskId add(TaskId task, ir::Attributes attributes) {
    const std::vector<ValueId> operands(graph_.inputs(task).begin(), graph_.inputs(task).end());
    const std::vector<std::string> names(graph_.outputs(task).size());
    const TaskId made = graph_.add_task(graph_.op(task), operands, std::move(attributes), names, graph_.location(task));
    finish(made);
    const auto statistics = ir::statistics_by_entry(graph_, made);
    if (statistics && statistics->mean.valid() && statistics->variance.valid()) graph_.add_statistics(*statistics);
    return made;
  }

  void finish(TaskId made) {
    RANNC_CHECK(ir::infer_types(graph_, made).ok()) << "the rule was asked before";
    const auto read = graph_.inputs(made);
    const bool any = std::any_of(read.begin(), read.end(), [&](ValueId value) {
      return value.valid() && roles_[value.index()] != ir::GradientRole::kNone;
    });
    for (const ValueId output : graph_.outputs(made)) {
      const bool needs_gradient = any && ir::is_float(graph_.type(output).dtype);
      roles_.push_back(needs_gradient ? ir::GradientRole::kSample : ir::GradientRole::kNone);
    }
  }

  void add_copies(ValueId value) {
    if (value.valid() && is_image(graph_, value)) copies_of(value);
  }

  ir::Graph graph_;
  std::vector<ir::GradientRole> roles_;
  std::unordered_map<std::vector<uint32_t>, std::vector<TaskId>, ir::HashOfNumbers> ways_;
  std::map<std::pair<uint32_t, ir::GradientRole>, std::array<TaskId, 2>> copies_;
};

/// The least time of a task in one layout, and the variant that achieves it.
struct Best {
  double ns = 0;
  const ir::Attributes* attributes = nullptr;  ///< null: it cannot be computed in that order, or not timed
};

class Choice {
 public:
  Choice(const ir::Graph& graph, const KernelTimes& times, WeightFormat weights)
      : graph_(graph), times_(times), alternatives_(graph), items_(graph.task_count(), kNone), cut_(1) {
    if (weights == WeightFormat::kChannelsLast) often_ = ir::execution_frequency(graph);
    cut_.pay(kAsAxesSay, 0, LeastCut::kNever);
  }

  /// Returns nothing if no task changes.
  std::optional<ir::Graph> run() {
    for (const TaskId task : graph_.tasks()) {
      if (!is_image(graph_, graph_.outputs(task)[0])) continue;
      if (has_alternatives(graph_, task)) {
        weigh(task);
      } else if (follows_images(graph_, task)) {
        items_[task.index()] = cut_.add_item();
      }
    }
    if (!any_time_) return std::nullopt;
    for (const ValueId value : graph_.values()) group(value);
    last_ = cut_.second_side();
    return rewritten();
  }

  /// The remark for the user.
  std::string summary() const {
    std::string text =
        fmt::format("kernels by {}: {} of {} tasks compute channels last", times_.basis(), on_second_, weighed_);
    for (const auto& [name, count] : algorithms_) text += fmt::format(", {} by `{}`", count, name);
    text += fmt::format(", {} copies between layouts", copies_);
    return weights_ == 0 ? text : text + fmt::format(", {} copied weights", weights_);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kAsAxesSay = 0;

  const std::array<Best, 2>& best_of(TaskId task) {
    const TaskId kind = alternatives_.ways_of(task)[0];
    const auto [at, fresh] = best_.try_emplace(kind.index());
    if (!fresh) return at->second;
    const std::vector<TaskId>& ways = alternatives_.ways_of(task);
    for (size_t i = 0; i < ways.size(); ++i) {
      const std::optional<double> ns = times_.ns(alternatives_.graph(), ways[i], alternatives_.roles());
      if (!ns) continue;
      Best& best = at->second[flag(alternatives_.graph(), ways[i]) ? 1 : 0];
      if (best.attributes == nullptr || *ns < kEqual * best.ns)
        best = {*ns, &alternatives_.graph().attributes(ways[i])};
    }
    return at->second;
  }

  void weigh(TaskId task) {
    const std::array<Best, 2>& best = best_of(task);
    const uint32_t item = items_[task.index()] = cut_.add_item();
    ++weighed_;
    if (best[0].attributes == nullptr || best[1].attributes == nullptr) {
      cut_.pay(item, 0, LeastCut::kNever);
      return;
    }
    any_time_ = true;
    cut_.pay(item, std::llround(kEqual * best[0].ns), std::llround(best[1].ns));
  }

  std::optional<double> copy_ns(ValueId value) {
    double sum = 0;
    const std::array<TaskId, 2>& copies = alternatives_.copies_of(value);
    for (const TaskId copy : copies) {
      const auto ns = times_.ns(alternatives_.graph(), copy, alternatives_.roles());
      if (!ns) return std::nullopt;
      sum += *ns;
    }
    return sum / 2;
  }

  /// Returns whether an operand must have the layout of its task.
  bool has_order(TaskId task, size_t operand) const {
    const ValueId value = graph_.inputs(task)[operand];
    if (!is_image(graph_, value)) return false;
    if (items_[task.index()] == kNone) return true;
    if (ir::has_memory_format(graph_, task)) return operand == 0;
    const std::vector<ValueId> as = ir::laid_out_as(graph_, task);
    const bool is_listed = std::find(as.begin(), as.end(), value) != as.end();
    return is_listed || *graph_.type(value).shape == *graph_.type(graph_.outputs(task)[0]).shape;  // the others stretch
  }

  uint32_t item_of(TaskId task) const { return items_[task.index()] == kNone ? kAsAxesSay : items_[task.index()]; }
  uint32_t maker_of(ValueId value) const {
    const TaskId maker = graph_.producer(value);
    const bool first = maker.valid() && graph_.outputs(maker)[0] == value;
    return first ? item_of(maker) : kAsAxesSay;
  }

  void group(ValueId value) {
    if (!is_image(graph_, value)) return;
    std::vector<uint32_t> items{maker_of(value)};
    graph_.for_each_use(value, [&](ir::Graph::Use use) {
      if (has_order(use.task, use.operand)) items.push_back(item_of(use.task));
    });
    std::sort(items.begin(), items.end());
    items.erase(std::unique(items.begin(), items.end()), items.end());
    if (items.size() < 2) return;
    const std::optional<double> ns = copy_ns(value);
    cut_.keep_together(std::move(items), ns ? std::llround(*ns) + 1 : LeastCut::kNever);
  }

  std::optional<ir::Graph> rewritten() {
    ir::Rewriter rewriter(graph_);
    bool changed = false;
    for (const TaskId task : graph_.tasks()) {
      std::vector<ValueId> operands;
      for (size_t i = 0; i < graph_.inputs(task).size(); ++i) operands.push_back(operand(rewriter, task, i));
      const TaskId made = rewriter.copy(task, operands);
      if (!has_alternatives(graph_, task) || !is_image(graph_, graph_.outputs(task)[0])) continue;
      const bool last = last_[item_of(task)];
      const Best& best = best_of(task)[last ? 1 : 0];
      if (best.attributes == nullptr) continue;
      on_second_ += last ? 1 : 0;
      if (const ir::Attribute* const kernel = best.attributes->find(kAlgorithm))
        ++algorithms_[std::get<std::string>(*kernel)];
      changed = changed || !(*best.attributes == graph_.attributes(task));
      rewriter.graph().set_attributes(made, *best.attributes);
    }
    if (!changed) return std::nullopt;
    return std::move(rewriter).finish();
  }

  /// Returns the operand in the layout of its task. If layouts differ this is a copy, shared by all such tasks.
  ValueId operand(ir::Rewriter& rewriter, TaskId task, size_t index) {
    const ValueId old = graph_.inputs(task)[index];
    if (!old.valid()) return old;
    if (copies_weight(task, index)) return copy(rewriter, task, old, true, weights_);
    if (!has_order(task, index)) return rewriter.map(old);
    const bool wanted = last_[item_of(task)];
    if (last_[maker_of(old)] == wanted) return rewriter.map(old);
    return copy(rewriter, task, old, wanted, copies_);
  }

  /// Returns whether an operand is a weight that does not depend on samples, of a convolution that runs channels last.
  bool copies_weight(TaskId task, size_t index) const {
    if (often_.empty() || items_[task.index()] == kNone || !last_[item_of(task)]) return false;
    const ValueId weight = graph_.inputs(task)[index];
    const ir::ValueType& type = graph_.type(weight);
    if (index == 0 || !ir::has_memory_format(graph_, task) || type.shape->size() != 4) return false;
    const TaskId maker = graph_.producer(weight);
    const ir::ValueKind kind = graph_.kind(weight);
    const bool stored =
        kind == ir::ValueKind::kParameter || kind == ir::ValueKind::kBuffer || kind == ir::ValueKind::kConstant;
    const bool once = maker.valid() ? often_[maker.index()] != ir::Frequency::kMicroBatch : stored;
    return once && !has_one_format(type);
  }

  ValueId copy(ir::Rewriter& rewriter, TaskId task, ValueId old, bool wanted, uint32_t& count) {
    const auto [at, fresh] = copied_.try_emplace(old.index());
    if (!fresh) return at->second;
    ++count;
    ir::Graph& to = rewriter.graph();
    const ir::OpInfo& op = ir::core("contiguous");
    const std::string name = fmt::format("{}.{}", graph_.value(old).name, wanted ? "last" : "axes");
    at->second = to.add(op, {rewriter.map(old)}, with(op, {}, kChannelsLast, wanted), name, graph_.location(task));
    RANNC_CHECK(ir::infer_types(to, to.producer(at->second)).ok()) << "images can be copied";
    return at->second;
  }

  const ir::Graph& graph_;
  const KernelTimes& times_;
  Alternatives alternatives_;
  std::unordered_map<uint32_t, std::array<Best, 2>> best_;  // by the first task of a kind
  std::vector<uint32_t> items_;                             // by task
  LeastCut cut_;
  std::vector<bool> last_;  // by item
  std::unordered_map<uint32_t, ValueId> copied_;
  std::map<std::string, uint32_t> algorithms_;
  std::vector<ir::Frequency> often_;  // by task; empty: weights are not copied
  uint32_t weighed_ = 0, on_second_ = 0, copies_ = 0, weights_ = 0;
  bool any_time_ = false;
};

}  // namespace

bool has_alternatives(const ir::Graph& graph, TaskId task) {
  return ir::has_memory_format(graph, task) && is_image(graph, graph.inputs(task)[0]) &&
         graph.attributes(task).find(kAlgorithm) == nullptr && graph.attributes(task).find(kChannelsLast) == nullptr &&
         graph.op(task).family != "memory";
}

bool has_alternatives(const ir::Graph& graph) {
  for (const TaskId task : graph.tasks()) {
    if (has_alternatives(graph, task)) return true;
  }
  return false;
}

ir::Graph with_alternatives(const ir::Graph& graph) { return Alternatives(graph).take(); }

Result<Outcome> ChooseKernels::run(ir::Graph& graph, PassContext& context) const {
  Choice choice(graph, *times_, weights_);
  std::optional<ir::Graph> chosen = choice.run();
  if (!chosen) return Outcome{};
  graph = *std::move(chosen);
  context.remarks.push_back({{}, choice.summary()});
  return Outcome{true};
}

}  // namespace rannc::passes
