// Compares a saved plan with the model and the cluster that it is to be used for.
#include "tools/compiler/saved_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <tuple>
#include <utility>

#include "ir/base/replacement.h"
#include "ir/graph/memory_format.h"
#include "ir/match/match.h"
#include "ir/op/op.h"
#include "ir/text/text.h"
#include "partition/model/finish_plan.h"
#include "partition/model/given_plan.h"
#include "runtime/bundle/bundle.h"
#include "tools/compiler/form_atoms.h"

namespace rannc::tools {

namespace {

/// A graph as it is before kernels are chosen: without copies into another memory format.
class Computation {
 public:
  explicit Computation(const ir::Graph& graph) : graph_(graph), names_(graph.value_count()) {
    for (const ValueId value : graph.values()) {
      if (!graph.producer(value).valid()) names_[value.index()] = fmt::format("%{}", graph.value(value).name);
    }
    static const ir::Ops kCopies{"contiguous"};
    for (const TaskId task : graph.tasks()) {
      const auto outputs = graph.outputs(task);
      if (kCopies.contains(graph.op(task))) {
        names_[outputs[0].index()] = names_[graph.inputs(task)[0].index()];
        continue;
      }
      for (size_t i = 0; i < outputs.size(); ++i) names_[outputs[i].index()] = fmt::format("{}.{}", tasks_.size(), i);
      tasks_.push_back(task);
    }
  }

  /// Describes the first difference from another computation; empty if there is none.
  std::string difference(const Computation& other) const {
    for (size_t i = 0; i < std::min(tasks_.size(), other.tasks_.size()); ++i) {
      const TaskId own = tasks_[i], its = other.tasks_[i];
      if (graph_.op(own).name != other.graph_.op(its).name || plain(own) != other.plain(its) ||
          names(graph_.inputs(own)) != other.names(other.graph_.inputs(its)) || !same_types(own, other, its)) {
        return fmt::format("its {} is {} of the model", other.described(its), described(own));
      }
    }
    if (tasks_.size() != other.tasks_.size())
      return fmt::format("it has {} tasks, the model has {}", other.tasks_.size(), tasks_.size());
    const bool ends = names(graph_.outputs()) == other.names(other.graph_.outputs()) &&
                      names(graph_.inputs()) == other.names(other.graph_.inputs()) && losses() == other.losses();
    if (!ends) return "it has other inputs, outputs or losses";
    return declared() == other.declared() ? "" : "it has other random numbers, statistics or names of stored tensors";
  }

 private:
  /// Statements about values that no task computes, other than their bytes.
  std::vector<std::string> declared() const {
    constexpr std::array kStatements = {"random ", "statistics ", "state ", "assume "};
    ir::Graph graph = graph_.clone();
    for (const ValueId value : graph.values()) {
      if (graph.value(value).data.present()) graph.set_data(value, {});
    }
    std::istringstream text(ir::print(graph));
    std::vector<std::string> found;
    for (std::string line; std::getline(text, line);) {
      const bool counts =
          std::any_of(kStatements.begin(), kStatements.end(), [&](const char* word) { return line.starts_with(word); });
      if (counts) found.push_back(line.substr(0, line.find(" at \"")));
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::vector<std::string> names(std::span<const ValueId> values) const {
    std::vector<std::string> found;
    found.reserve(values.size());
    for (const ValueId value : values) found.push_back(value.valid() ? names_[value.index()] : "");
    return found;
  }
  // Terms and totals with values by name.
  using Losses = std::tuple<std::vector<std::pair<ir::LossTerm, std::string>>, std::vector<std::string>, ir::Totals>;
  Losses losses() const {
    std::vector<std::pair<ir::LossTerm, std::string>> terms;
    for (const ir::LossTerm& term : graph_.losses()) {
      terms.emplace_back(term, names_[term.numerator.index()]);
      terms.back().first.numerator = ValueId();
    }
    ir::Totals totals = graph_.totals();
    std::vector<ValueId> read = std::exchange(totals.sums, {});
    for (ir::Totals::Given& given : totals.given) read.push_back(std::exchange(given.input, ValueId()));
    return {std::move(terms), names(read), std::move(totals)};
  }
  ir::Attributes plain(TaskId task) const {
    ir::Attributes attributes = graph_.attributes(task);
    attributes.erase(ir::kAlgorithm);
    attributes.erase(ir::kChannelsLast);
    return attributes;
  }
  bool same_types(TaskId task, const Computation& other, TaskId its) const {
    const auto own = graph_.outputs(task), outputs = other.graph_.outputs(its);
    for (size_t i = 0; i < std::min(own.size(), outputs.size()); ++i) {
      if (graph_.type(own[i]) != other.graph_.type(outputs[i])) return false;
    }
    return own.size() == outputs.size();
  }
  std::string described(TaskId task) const {
    return fmt::format("task #{} %{} ({})", task.index(), graph_.value(graph_.outputs(task)[0]).name,
                       graph_.op(task).name);
  }

  const ir::Graph& graph_;
  std::vector<std::string> names_;  // by value: leaves by name, results by the number of their task
  std::vector<TaskId> tasks_;
};

/// Gives stored values of `graph` the bytes that values of the same name and type have in `model`.
Result<void> take_data(const ir::Graph& model, const std::string& path, ir::Graph& graph) {
  for (const ValueId value : graph.values()) {
    const ir::ValueKind kind = graph.kind(value);
    if (kind != ir::ValueKind::kParameter && kind != ir::ValueKind::kBuffer && kind != ir::ValueKind::kConstant)
      continue;
    const std::string name(graph.value(value).name);
    const ValueId found = model.find(name);
    if (!found.valid() || model.kind(found) != kind || model.type(found) != graph.type(value)) {
      return error({.file = path}, fmt::format("the model has no {} %{} of that type", str(kind), name));
    }
    graph.set_data(value, model.value(found).data);
  }
  return {};
}

Result<void> compare_digests(const ir::Plan& plan, const RequestedPlan& request, const PreparedModel& model,
                             const std::string& path) {
  if (plan.model_digest != model.digest) {
    return error({.file = path},
                 fmt::format("was made for another model: the digest of its graph is {}, that of this one {}",
                             plan.model_digest, model.digest));
  }
  const std::string cluster = partition::cluster_digest(request.planning.cluster);
  if (plan.cluster_digest == cluster) return {};
  return error({.file = path},
               fmt::format("was made for another cluster: its digest is {}, that of cluster '{}' is {}; --cluster, "
                           "--devices and --memory must be those of the plan",
                           plan.cluster_digest, request.planning.cluster.name, cluster));
}

}  // namespace

Result<void> use_saved_plan(const std::string& path, RequestedPlan& request, PreparedModel& model) {
  RANNC_ASSIGN(const std::string text, read_file(path));
  RANNC_ASSIGN(ir::PlanDraft draft, ir::parse_draft(text, path));
  ir::Plan& plan = draft.plan;
  RANNC_TRY(compare_digests(plan, request, model, path));
  const std::string difference = Computation(model.graph).difference(Computation(plan.graph));
  if (!difference.empty()) {
    return error({.file = path}, fmt::format("was made with other flags for passes, loss or training: {}", difference));
  }
  if (plan.training == model.graph.losses().empty()) {
    return error({.file = path}, plan.training ? "is a plan for training: the model has no loss"
                                               : "is a plan for inference: the model has a loss");
  }
  RANNC_TRY(take_data(model.graph, path, plan.graph));
  partition::PlanOptions& options = request.planning;
  for (const auto& [symbol, size] : options.assume) {
    const auto planned = plan.sizes.find(symbol);
    if (planned == plan.sizes.end() || planned->second == size) continue;
    return error({.file = path}, fmt::format("--assume {}={}: the plan assumes {}", symbol, size, planned->second));
  }
  RANNC_ASSIGN(partition::GivenPlan given, partition::given_plan(draft, options.cluster, path));
  options.given = std::make_shared<const partition::GivenPlan>(std::move(given));
  options.micro_batches = {plan.micro_batches.size()};
  options.optimizer = plan.optimizer;
  options.seed = plan.seed;
  options.schedule_file = path;  // of errors about its rows
  for (const auto& [symbol, size] : plan.sizes) options.assume.emplace(symbol, size);
  request.options.mini_batch = plan.mini_batch;
  request.options.kernels = compiler::Kernels::kDefault;
  model.graph = std::move(plan.graph);
  return form_atoms(model);
}

Result<void> start_from_bundle(const std::string& path, RequestedPlan& request) {
  const std::string file = (std::filesystem::path(path) / runtime::kPlanFile).string();
  RANNC_ASSIGN(const std::string text, read_file(file));
  RANNC_ASSIGN(const ir::PlanDraft draft, ir::parse_draft(text, file));
  RANNC_ASSIGN(partition::GivenPlan last, partition::last_plan(draft, request.planning.cluster, file));
  request.planning.last = std::make_shared<const partition::GivenPlan>(std::move(last));
  return {};
}

}  // namespace rannc::tools
