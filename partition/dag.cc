// Indexes, orders and validates the weighted task graph.
//
// Rules of `validate`:
//   A1  every per-task array has one entry per task, every per-value array one per value
//   A2  every id names a task or value of the graph
//   A3  times and costs are finite and >= 0, and so is their sum; the sum of all bytes fits 64 bits
//   A4  a value's readers are distinct and ascending
//   A5  the graph is acyclic (a value read by its own producer is the smallest cycle)
#include "partition/dag.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

namespace rannc::partition {
namespace {

std::string task_label(const Dag& dag, uint32_t task) {
  std::string label = "#" + std::to_string(task);
  if (task < dag.names.size() && !dag.names[task].empty()) label += " (" + dag.names[task] + ")";
  return label;
}

Diagnostic broken(const char* rule, const std::string& message) { return error(Location{}, message, rule); }

/// Turns `counts` shifted by one (offsets[i + 1] = items of row i) into offsets.
void prefix_sum(std::vector<uint32_t>& offsets) { std::partial_sum(offsets.begin(), offsets.end(), offsets.begin()); }

Result<void> check_sizes(const Dag& dag) {
  const size_t n = dag.forward.size(), m = dag.value_producer.size();
  auto wrong = [](const char* field, size_t found, size_t wanted) {
    std::ostringstream out;
    out << field << " has " << found << " entries where " << wanted << " are needed";
    return broken("A1", out.str());
  };
  if (dag.backward.size() != n) return wrong("backward", dag.backward.size(), n);
  if (dag.resident_bytes.size() != n) return wrong("resident_bytes", dag.resident_bytes.size(), n);
  if (dag.stashed_bytes.size() != n) return wrong("stashed_bytes", dag.stashed_bytes.size(), n);
  if (!dag.names.empty() && dag.names.size() != n) return wrong("names", dag.names.size(), n);
  if (dag.value_bytes.size() != m) return wrong("value_bytes", dag.value_bytes.size(), m);
  if (dag.value_cost.size() != m) return wrong("value_cost", dag.value_cost.size(), m);
  if (dag.value_readers.rows() != m) return wrong("value_readers", dag.value_readers.rows(), m);
  if (dag.task_outputs.rows() != n) return wrong("task_outputs", dag.task_outputs.rows(), n);
  if (dag.task_inputs.rows() != n) return wrong("task_inputs", dag.task_inputs.rows(), n);
  return {};
}

Diagnostic unpriced(double cost, const char* what, const std::string& who) {
  std::ostringstream out;
  out << what << " of " << who << " is " << cost << "; a finite number >= 0 is allowed";
  return broken("A3", out.str());
}

Result<void> check_costs(const Dag& dag) {
  double total = 0;
  auto priced = [](double cost) { return std::isfinite(cost) && cost >= 0; };
  for (uint32_t t = 0; t < dag.tasks(); ++t) {
    if (!priced(dag.forward[t])) return unpriced(dag.forward[t], "forward time", "task " + task_label(dag, t));
    if (!priced(dag.backward[t])) return unpriced(dag.backward[t], "backward time", "task " + task_label(dag, t));
    total += dag.work(t);
  }
  for (uint32_t v = 0; v < dag.values(); ++v) {
    if (!priced(dag.value_cost[v])) return unpriced(dag.value_cost[v], "transfer cost", "value " + std::to_string(v));
    total += dag.value_cost[v] * (1.0 + dag.value_readers.row(v).size());
  }
  if (!std::isfinite(total)) return broken("A3", "the sum of all times and costs is not finite");
  uint64_t bytes = 0;
  for (const auto* column : {&dag.resident_bytes, &dag.stashed_bytes, &dag.value_bytes}) {
    for (uint64_t amount : *column) {
      if (__builtin_add_overflow(bytes, amount, &bytes)) return broken("A3", "the sum of all bytes exceeds 64 bits");
    }
  }
  return {};
}

Result<void> check_values(const Dag& dag) {
  for (uint32_t v = 0; v < dag.values(); ++v) {
    if (dag.value_producer[v] >= dag.tasks()) {
      return broken("A2", "value " + std::to_string(v) + " is produced by task #" +
                              std::to_string(dag.value_producer[v]) + " of " + std::to_string(dag.tasks()));
    }
    auto readers = dag.value_readers.row(v);
    for (size_t i = 0; i < readers.size(); ++i) {
      if (readers[i] >= dag.tasks()) {
        return broken("A2", "value " + std::to_string(v) + " is read by task #" + std::to_string(readers[i]) + " of " +
                                std::to_string(dag.tasks()));
      }
      if (i > 0 && readers[i] <= readers[i - 1]) {
        return broken("A4", "readers of value " + std::to_string(v) + " are not ascending and distinct: task " +
                                task_label(dag, readers[i - 1]) + " precedes task " + task_label(dag, readers[i]));
      }
    }
  }
  return {};
}

/// Returns a cycle among the tasks whose `missing` inputs never arrive. Walks predecessors until one repeats.
Diagnostic describe_cycle(const Dag& dag, const std::vector<uint32_t>& missing) {
  uint32_t at = 0;
  while (missing[at] == 0) ++at;
  std::vector<uint32_t> path, seen_at(dag.tasks(), UINT32_MAX);
  while (seen_at[at] == UINT32_MAX) {
    seen_at[at] = static_cast<uint32_t>(path.size());
    path.push_back(at);
    for (uint32_t v : dag.task_inputs.row(at)) {
      if (missing[dag.value_producer[v]] == 0) continue;
      at = dag.value_producer[v];
      break;
    }
  }
  std::vector<uint32_t> cycle(path.begin() + seen_at[at], path.end());
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  std::ostringstream out;
  out << "the graph has a cycle of " << cycle.size() << " tasks: ";
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(cycle.size(), kShown); ++i) out << task_label(dag, cycle[i]) << " -> ";
  out << (cycle.size() > kShown ? "... -> " : "") << task_label(dag, cycle.front());
  return broken("A5", out.str());
}

}  // namespace

void index_tasks(Dag& dag) {
  Csr outputs, inputs;
  outputs.offsets.assign(dag.tasks() + 1, 0);
  inputs.offsets.assign(dag.tasks() + 1, 0);
  for (uint32_t producer : dag.value_producer) ++outputs.offsets[producer + 1];
  for (uint32_t reader : dag.value_readers.items) ++inputs.offsets[reader + 1];
  prefix_sum(outputs.offsets);
  prefix_sum(inputs.offsets);
  outputs.items.resize(outputs.offsets.back());
  inputs.items.resize(inputs.offsets.back());
  std::vector<uint32_t> next_out(outputs.offsets.begin(), outputs.offsets.end() - 1);
  std::vector<uint32_t> next_in(inputs.offsets.begin(), inputs.offsets.end() - 1);
  for (uint32_t v = 0; v < dag.values(); ++v) {
    outputs.items[next_out[dag.value_producer[v]]++] = v;
    for (uint32_t reader : dag.value_readers.row(v)) inputs.items[next_in[reader]++] = v;
  }
  dag.task_outputs = std::move(outputs);
  dag.task_inputs = std::move(inputs);
}

Result<std::vector<uint32_t>> topological_order(const Dag& dag) {
  const uint32_t n = dag.tasks();
  std::vector<uint32_t> missing(n), stack, order;
  for (uint32_t t = 0; t < n; ++t) missing[t] = static_cast<uint32_t>(dag.task_inputs.row(t).size());
  for (uint32_t t = n; t-- > 0;) {
    if (missing[t] == 0) stack.push_back(t);
  }
  order.reserve(n);
  std::vector<uint32_t> ready;
  while (!stack.empty()) {
    const uint32_t task = stack.back();
    stack.pop_back();
    order.push_back(task);
    ready.clear();
    for (uint32_t v : dag.task_outputs.row(task)) {
      for (uint32_t reader : dag.value_readers.row(v)) {
        if (--missing[reader] == 0) ready.push_back(reader);
      }
    }
    std::sort(ready.begin(), ready.end(), std::greater<>());
    stack.insert(stack.end(), ready.begin(), ready.end());
  }
  if (order.size() < n) return describe_cycle(dag, missing);
  return order;
}

Result<std::vector<uint32_t>> validated_order(const Dag& dag) {
  RANNC_TRY(check_sizes(dag));
  RANNC_TRY(check_values(dag));
  RANNC_TRY(check_costs(dag));
  return topological_order(dag);
}

Result<void> validate(const Dag& dag) {
  RANNC_TRY(validated_order(dag));
  return {};
}

}  // namespace rannc::partition
