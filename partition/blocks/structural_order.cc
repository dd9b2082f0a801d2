// Orders tasks by a hash of their structure.
#include "partition/blocks/structural_order.h"

#include <algorithm>
#include <bit>

#include "ir/base/split_mix.h"

namespace rannc::partition {
namespace {

uint64_t hash_of(double x) { return ir::split_mix(std::bit_cast<uint64_t>(x)); }

/// Sums over neighbours, so that their order does not matter.
std::vector<uint64_t> structural_hashes(const Dag& dag, std::span<const uint32_t> order) {
  const uint32_t n = dag.tasks();
  std::vector<uint64_t> down(n), up(n);
  for (uint32_t t : order) {
    uint64_t sum = hash_of(dag.forward[t]) + 3 * hash_of(dag.backward[t]) + 5 * ir::split_mix(dag.resident_bytes[t]) +
                   7 * ir::split_mix(dag.stashed_bytes[t]);
    for (uint32_t v : dag.task_inputs.row(t))
      sum += ir::split_mix(down[dag.value_producer[v]] ^ hash_of(dag.value_cost[v]));
    down[t] = ir::split_mix(sum);
  }
  for (size_t i = order.size(); i-- > 0;) {
    const uint32_t t = order[i];
    uint64_t sum = down[t];
    for (uint32_t v : dag.task_outputs.row(t)) {
      uint64_t readers = hash_of(dag.value_cost[v]);
      for (uint32_t reader : dag.value_readers.row(v)) readers += ir::split_mix(up[reader]);
      sum += ir::split_mix(readers);
    }
    up[t] = ir::split_mix(sum);
  }
  return up;
}

}  // namespace

std::vector<uint32_t> structural_order(const Dag& dag, std::span<const uint32_t> order) {
  const uint32_t n = dag.tasks();
  const std::vector<uint64_t> key = structural_hashes(dag, order);
  auto later = [&](uint32_t a, uint32_t b) { return key[a] != key[b] ? key[a] > key[b] : a > b; };
  std::vector<uint32_t> missing(n), stack, ready, out;
  for (uint32_t t = 0; t < n; ++t) {
    missing[t] = static_cast<uint32_t>(dag.task_inputs.row(t).size());
    if (missing[t] == 0) stack.push_back(t);
  }
  std::sort(stack.begin(), stack.end(), later);
  out.reserve(n);
  while (!stack.empty()) {
    const uint32_t task = stack.back();
    stack.pop_back();
    out.push_back(task);
    ready.clear();
    for (uint32_t v : dag.task_outputs.row(task)) {
      for (uint32_t reader : dag.value_readers.row(v)) {
        if (--missing[reader] == 0) ready.push_back(reader);
      }
    }
    std::sort(ready.begin(), ready.end(), later);
    stack.insert(stack.end(), ready.begin(), ready.end());
  }
  return out;
}

}  // namespace rannc::partition
