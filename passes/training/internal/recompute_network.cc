// Builds and cuts the network of a stage's choices. Nodes: `needed` of each piece of memory, `runs` of each task. On
// the source's side means yes. selective-recompute.md explains the edges.
#include "passes/training/internal/recompute_network.h"

#include <set>
#include <utility>

#include "ir/base/cut_network.h"
#include "ir/gradient/vjp.h"
#include "ir/graph/execution_frequency.h"
#include "ir/graph/views.h"
#include "ir/state/statistics.h"

namespace rannc::passes {

namespace {

/// Finds which values share memory, and what a task reads.
class MemoryFinder {
 public:
  MemoryFinder(const ir::Joint& joint, const std::vector<ir::FunctionKind>& place)
      : graph_(joint.graph), place_(place), views_(graph_) {
    for (const ValueId value : graph_.values()) root_.push_back(value);
    for (uint32_t i = 0; i < joint.forward_count(); ++i) {
      if (!is_view(TaskId(i))) continue;
      for (const ValueId output : graph_.outputs(TaskId(i))) root_[output.index()] = root(graph_.inputs(TaskId(i))[0]);
    }
  }

  ValueId root(ValueId value) const { return root_[value.index()]; }
  /// Whether P makes it, or it is a parameter, buffer or constant.
  bool is_fixed(ValueId value) const {
    const TaskId maker = graph_.producer(value);
    const ir::ValueKind kind = graph_.kind(value);
    if (!maker.valid()) return kind != ir::ValueKind::kInput && kind != ir::ValueKind::kRandomInput;
    return place_[maker.index()] == ir::FunctionKind::kLoad || place_[maker.index()] == ir::FunctionKind::kStep;
  }
  /// The value whose bytes count: of a view that counts as a copy, that of the memory that it shares.
  ValueId counted(ValueId value) const { return views_.base(value); }

  std::vector<ValueId> reads(TaskId task) const {
    std::vector<ValueId> found;
    const auto inputs = graph_.inputs(task);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (ir::reads_operand(graph_, task, i) && !is_fixed(root(inputs[i]))) found.push_back(inputs[i]);
    }
    return found;
  }

 private:
  /// Whether all results are views, and depend on no value of the micro-batch but the viewed one.
  bool is_view(TaskId task) const {
    if (place_[task.index()] != ir::FunctionKind::kForward) return false;
    for (const ValueId output : graph_.outputs(task)) {
      if (views_.base(output) == output) return false;
    }
    const auto inputs = graph_.inputs(task);
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (ir::reads_operand(graph_, task, i) && !is_fixed(inputs[i])) return false;
    }
    return true;
  }

  const ir::Graph& graph_;
  const std::vector<ir::FunctionKind>& place_;
  const ir::Views views_;
  std::vector<ValueId> root_;
};

/// Adds all memory and tasks that saved values depend on.
class RecomputeBuilder {
 public:
  RecomputeBuilder(const ir::Joint& joint, const RecomputeCosts& costs)
      : graph_(joint.graph),
        costs_(costs),
        table_(ir::function_table(joint, {})),
        finder_(joint, table_.place),
        task_of_(graph_.task_count(), RecomputeNetwork::kNone) {
    made_.memory_of.assign(graph_.value_count(), RecomputeNetwork::kNone);
  }

  RecomputeNetwork build() && {
    made_.saved = table_.saved;
    for (const ValueId value : table_.saved) {
      if (!finder_.is_fixed(finder_.root(value))) made_.saved_memory.push_back(add_memory(value));
    }
    for (uint32_t i = 0; i < made_.tasks.size(); ++i) {  // grows meanwhile
      const std::vector<ValueId> reads = made_.tasks[i].reads;
      for (const ValueId value : reads) {
        const uint32_t index = add_memory(value);
        made_.tasks[i].memory.push_back(index);
      }
    }
    return std::move(made_);
  }

 private:
  uint32_t add_memory(ValueId value) {
    const ValueId root = finder_.root(value);
    const uint32_t known = made_.memory_of[root.index()];
    return made_.memory_of[value.index()] = known != RecomputeNetwork::kNone ? known : add_root(root);
  }

  uint32_t add_root(ValueId root) {
    const ValueId counted = finder_.counted(root);
    RecomputeNetwork::Memory made{.bytes = finder_.is_fixed(counted) ? 0 : costs_.bytes[counted.index()]};
    if (graph_.producer(root).valid()) made.maker = add_task(graph_.producer(root));
    made.is_tape = ir::is_tape(graph_, root);
    if (graph_.kind(root) == ir::ValueKind::kRandomInput) {
      made.random_ns = costs_.random_ns[root.index()];
      made_.total_ns += made.random_ns;
    }
    made_.total_bytes += made.bytes;
    const auto index = static_cast<uint32_t>(made_.memory.size());
    made_.memory.push_back(made);
    return made_.memory_of[root.index()] = index;
  }

  uint32_t add_task(TaskId task) {
    uint32_t& index = task_of_[task.index()];
    if (index != RecomputeNetwork::kNone) return index;
    index = static_cast<uint32_t>(made_.tasks.size());
    const bool never = ir::synchronised(graph_, task).value_or(false);
    const int64_t ns = never ? RecomputeCosts::kNever : costs_.forward_ns[task.index()];
    if (ns != RecomputeCosts::kNever) made_.total_ns += ns;
    made_.tasks.push_back({.ns = ns, .reads = finder_.reads(task)});
    return index;
  }

  const ir::Graph& graph_;
  const RecomputeCosts& costs_;
  const ir::FunctionTable table_;
  const MemoryFinder finder_;
  std::vector<uint32_t> task_of_;  ///< by task of the graph: index in `RecomputeNetwork::tasks`
  RecomputeNetwork made_;
};

int64_t halved(int64_t number) { return number > 1 ? number / 2 : number; }

}  // namespace

RecomputePrice RecomputeNetwork::scaled(RecomputePrice price) const {
  RANNC_CHECK(price.per_byte >= 0 && price.per_ns >= 0) << "a price is >= 0";
  const auto sum = [&] {
    return static_cast<double>(price.per_byte) * static_cast<double>(total_bytes) +
           static_cast<double>(price.per_ns) * static_cast<double>(total_ns);
  };
  while (sum() > 0x1p60) price = {halved(price.per_byte), halved(price.per_ns)};
  return price;
}

std::vector<bool> RecomputeNetwork::cut(RecomputePrice price) const {
  ir::CutNetwork network(2 + static_cast<uint32_t>(memory.size() + tasks.size()));
  const int64_t never = price.per_byte * total_bytes + price.per_ns * total_ns + 1;  // more than keeping all
  for (const uint32_t index : saved_memory) network.connect(kSource, needed(index), never);
  for (uint32_t i = 0; i < memory.size(); ++i) {
    const Memory& each = memory[i];
    const bool random = is_repeated_random(each, price);
    const int64_t cost = random ? price.per_ns * each.random_ns : each.is_tape ? never : price.per_byte * each.bytes;
    network.connect(needed(i), each.maker == kNone ? kSink : runs(each.maker), cost);
  }
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    const int64_t ns = tasks[i].ns;
    network.connect(runs(i), kSink, ns == RecomputeCosts::kNever ? never : price.per_ns * ns);
    for (const uint32_t index : tasks[i].memory) network.connect(runs(i), needed(index), never);
  }
  return network.smallest_side(kSource, kSink, ir::CutNetwork::Tie::kFewestBySource, solver);
}

KeptChoice RecomputeNetwork::choice(const std::vector<bool>& on_source_side, RecomputePrice price) const {
  KeptChoice found;
  std::vector<bool> is_kept(memory.size());
  for (uint32_t i = 0; i < memory.size(); ++i) {
    const Memory& each = memory[i];
    if (!on_source_side[needed(i)] || (each.maker != kNone && on_source_side[runs(each.maker)])) continue;
    is_kept[i] = !is_repeated_random(each, price);
    (is_kept[i] ? found.kept_bytes : found.recompute_ns) += is_kept[i] ? each.bytes : each.random_ns;
  }
  std::set<ValueId> kept;
  const auto read = [&](ValueId value) {
    const uint32_t index = memory_of[value.index()];
    if (index != kNone && is_kept[index]) kept.insert(value);
  };
  for (const ValueId value : saved) read(value);
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    if (!on_source_side[runs(i)]) continue;
    found.recompute_ns += tasks[i].ns;
    for (const ValueId value : tasks[i].reads) read(value);
  }
  found.kept = {kept.begin(), kept.end()};
  return found;
}

KeptChoice RecomputeNetwork::cheapest(RecomputePrice price) const { return choice(cut(price), price); }

RecomputeNetwork recompute_network(const ir::Joint& joint, const RecomputeCosts& costs) {
  const ir::Graph& graph = joint.graph;
  RANNC_CHECK(costs.bytes.size() == graph.value_count() && costs.random_ns.size() == graph.value_count())
      << "costs are by value";
  RANNC_CHECK(costs.forward_ns.size() == graph.task_count()) << "times are by task";
  RecomputeNetwork network = RecomputeBuilder(joint, costs).build();
  constexpr int64_t kMost = int64_t{1} << 58;
  RANNC_CHECK(network.total_bytes < kMost && network.total_ns < kMost) << "costs that no stage has";
  return network;
}

}  // namespace rannc::passes
