#include "passes/simplify/cse.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "ir/graph/results.h"
#include "ir/graph/rewriter.h"
#include "ir/op/op.h"

namespace rannc::passes {

using namespace ir;  // NOLINT: reads as its neighbours

namespace {

/// Key of a task: what it computes.
struct Computed {
  const OpInfo* op;
  std::vector<ValueId> operands;
  Attributes attributes;
  size_t outputs;
  bool operator==(const Computed&) const = default;
};

struct Hash {
  size_t operator()(const Computed& task) const {
    size_t hash = task.attributes.hash();
    hash = combine(hash, std::hash<const OpInfo*>()(task.op));
    hash = combine(hash, task.outputs);
    for (const ValueId operand : task.operands) hash = combine(hash, operand.valid() ? operand.index() : UINT32_MAX);
    return hash;
  }
};

class Merge {
 public:
  explicit Merge(const Graph& graph)
      : graph_(graph), first_(graph.value_count()), requested_(results_of(graph)), rewriter_(graph) {
    for (const ValueId value : graph.values()) first_[value.index()] = value;
    merge_constants();
  }

  /// Returns the number of removed tasks.
  size_t run() {
    size_t merged = 0;
    for (const TaskId task : graph_.tasks()) merged += visit(task) ? 1 : 0;
    return merged;
  }
  Graph finish() && { return std::move(rewriter_).finish(); }

 private:
  void merge_constants() {
    constexpr size_t kMostBytes = 64;
    std::map<std::tuple<DType, std::string, std::vector<std::byte>>, ValueId> firsts;
    for (const ValueId value : graph_.values()) {
      const Graph::Value& found = graph_.value(value);
      if (found.kind != ValueKind::kConstant || !found.data.present() || found.data.size() > kMostBytes) continue;
      auto bytes = found.data.read();
      if (!bytes.ok() || !found.type.shape) continue;  // whoever needs it says so
      const auto [at, fresh] = firsts.try_emplace({found.type.dtype, str(*found.type.shape), *std::move(bytes)}, value);
      first_[value.index()] = at->second;
    }
  }

  bool may_merge(TaskId task) const {
    const OpInfo& op = graph_.op(task);
    const auto outputs = graph_.outputs(task);
    return op.known() && op.fit == nullptr && !op.makes_whole() && !outputs.empty() &&
           std::none_of(outputs.begin(), outputs.end(), [&](ValueId value) { return requested_[value.index()]; });
  }

  /// Returns whether an earlier task replaces it.
  bool visit(TaskId task) {
    Computed computed{&graph_.op(task), {}, graph_.attributes(task), graph_.outputs(task).size()};
    for (const ValueId operand : graph_.inputs(task))
      computed.operands.push_back(operand.valid() ? first_[operand.index()] : operand);
    if (may_merge(task)) {
      const auto [at, fresh] = tasks_.try_emplace(std::move(computed), task);
      if (!fresh) {
        stand_for(at->second, task);
        return true;
      }
    } else {
      tasks_.try_emplace(std::move(computed), task);  // under its name
    }
    rewriter_.copy(task);
    return false;
  }

  void stand_for(TaskId first, TaskId task) {
    const auto own = graph_.outputs(task), firsts = graph_.outputs(first);
    for (size_t i = 0; i < own.size(); ++i) {
      first_[own[i].index()] = firsts[i];
      rewriter_.replace(own[i], rewriter_.map(firsts[i]));
    }
  }

  const Graph& graph_;
  std::vector<ValueId> first_;   // the value that stands for a value
  std::vector<bool> requested_;  // results, and what running statistics are made of
  std::unordered_map<Computed, TaskId, Hash> tasks_;
  Rewriter rewriter_;
};

}  // namespace

Result<Outcome> Cse::run(Graph& graph, PassContext& context) const {
  Merge merge(graph);
  const size_t merged = merge.run();
  if (merged == 0) return Outcome{};
  graph = std::move(merge).finish();
  context.remarks.emplace_back().message =
      fmt::format("merged {} tasks that compute the same values as another task", merged);
  return Outcome{true};
}

}  // namespace rannc::passes
